"""Numbers and tables as the pages show them."""

from collections.abc import Callable, Mapping, Sequence

from reproduction import statistics
from reproduction.experiment import EPISODES
from reproduction.rows import RunRow
from reproduction.statistics import Episodes, Interval, Paired


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def interval(interval: Interval, digits: int = 2) -> str:
    """An estimate with its interval."""

    def number(value: float) -> str:
        return "∞" if value == float("inf") else f"{value:.{digits}f}".replace("-", "−")

    between = "–" if interval.low >= 0 else " to "
    return f"{number(interval.estimate)} ({number(interval.low)}{between}{number(interval.high)})"


def p_value(p: float) -> str:
    """A p-value with two digits."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def z_and_p(test: statistics.Comparison) -> str:
    """A log-rank test."""
    return f"z = {test.z:+.2f}, {p_value(test.p)}"


def pair_test(test: Paired) -> list[str]:
    """Four cells of a table: pairs, how many of each side are faster, the ratio with its interval, and p."""
    return [str(test.pairs), f"{test.first_faster}, {test.second_faster}", interval(test.ratio), p_value(test.p)]


def statements(statements: Mapping[str, bool | None]) -> str:
    """Which statements hold, which do not, and which are open."""
    words = {"holds": True, "does not": False, "open": None}
    names = {word: [name for name, held in statements.items() if held is value] for word, value in words.items()}
    return "; ".join(f"{word}: {', '.join(which)}" for word, which in names.items() if which)


def solve_episodes(rows: Sequence[RunRow], mark: Callable[[RunRow], str] = lambda row: "") -> str:
    """The episode of solving of every run by seed, with a mark each; `>E` is unsolved after E episodes."""
    ordered = sorted(rows, key=lambda row: row.seed)
    return ", ".join(f"{row.solved_episode or f'>{row.episodes}'}{mark(row)}" for row in ordered) or "–"


def episodes(times: Sequence[Episodes]) -> str:
    """Every run in its order; `>E` is a run that did not end within E episodes."""
    return ", ".join(f"{time.episode:,}" if time.solved else f">{time.episode:,}" for time in times) or "–"


def median(rows: Sequence[RunRow]) -> str:
    """The median episode of solving."""
    return statistics.median_words([row.solved_episode for row in rows], EPISODES) if rows else "–"
