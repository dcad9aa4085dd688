"""Deep Sea: ids, and which runs count as solved by luck."""

from collections.abc import Callable, Mapping, Sequence

from reproduction.experiment import Verdict
from reproduction.rows import Row
from tdu.environments import parse

CHESTS = 10
"""A run on stochastic Deep Sea that counts as solved with fewer was solved by luck."""
EARLY = 500
"""Before this episode luck solves most of what it solves."""
LUCK, UNKNOWN = "°", "?"
"""How such a run is marked, and one whose chests were not recorded."""
ABOUT_LUCK = (
    f"{LUCK} marks a run that counts as solved with fewer than ten chests. {UNKNOWN} marks a solved run whose chests were "
    "not recorded. bsuite counts an episode as bad if the agent goes left on the diagonal. On stochastic Deep Sea a slip "
    "leaves the diagonal and the episode is then not bad, so a run can count as solved without the chest."
)


def sea(size: int, *, stochastic: bool) -> str:
    """The id of a sea."""
    return f"deep_sea:size={size}" + (",stochastic=true" if stochastic else "")


def size_of(env: str) -> int:
    """The size in an id."""
    return int(parse(env).options()["size"])


def is_stochastic(env: str) -> bool:
    """Whether an id is that of a stochastic sea."""
    return parse(env).options().get("stochastic") == "true"


def luck(row: Row) -> str:
    """The mark of a run on a stochastic sea that was solved by luck, or may have been."""
    if row.solved_episode is None or not is_stochastic(row.env):
        return ""
    return UNKNOWN if row.successes is None else LUCK if row.successes < CHESTS else ""


def without_luck(rows: Sequence[Row], *, early_unknown: bool = False) -> list[Row]:
    """The same rows, those that were solved by luck taken as unsolved where they stopped.

    With `early_unknown`, those that may have been and were solved early, too.
    """

    def by_luck(row: Row) -> bool:
        mark = luck(row)
        return mark == LUCK or (early_unknown and mark == UNKNOWN and (row.solved_episode or 0) < EARLY)

    return [row._replace(solved_episode=None, score=0.0) if by_luck(row) else row for row in rows]


def luck_words(
    shown: Sequence[Row], rows: Sequence[Row], verdicts: Callable[[Sequence[Row]], Mapping[str, Verdict]]
) -> str:
    """How many of the runs shown luck solved, and what the verdicts on all rows would be without them."""
    marks = [luck(row) for row in shown]
    early = sum((row.solved_episode or 0) < EARLY for row, mark in zip(shown, marks, strict=True) if mark == UNKNOWN)
    solved = sum(row.solved_episode is not None for row in shown)
    parts = [
        f"Of {solved} solved runs on stochastic Deep Sea, {marks.count(LUCK)} had fewer than ten chests (lucky); "
        f"for {marks.count(UNKNOWN)} the chests were not recorded. If lucky runs count as unsolved:",
        _list(verdicts(without_luck(rows))),
    ]
    if early:
        parts += [
            f"If runs with unrecorded chests, solved before episode {EARLY}, count as unsolved too ({early} runs here):",
            _list(verdicts(without_luck(rows, early_unknown=True))),
        ]
    return "\n\n".join(parts)


def _list(verdicts: Mapping[str, Verdict]) -> str:
    return "\n".join(f"- {claim}, {verdict.word}: {verdict.because}." for claim, verdict in verdicts.items())
