"""Deep Seas: their ids, and which of their runs count as solved by luck."""

from collections.abc import Mapping, Sequence

from tdu.experiments.experiment import Verdict
from tdu.experiments.rows import Row

CHESTS = 10
"""A stochastic sea that counts as solved with fewer was solved by luck."""
LUCK, UNKNOWN = "°", "?"
"""How such a run is marked, and one whose chests were not written down."""
ABOUT_LUCK = (
    f"A {LUCK} is a run that counts as solved with fewer than ten chests, a {UNKNOWN} a solved one whose chests were not "
    "written down. bsuite counts an episode as bad if it goes left while still on the diagonal. A stochastic sea's slips "
    "take it off the diagonal, after which nothing is bad: so enough good episodes may come together without the chest."
)


def sea(size: int, *, stochastic: bool) -> str:
    """The id of a sea."""
    return f"deep_sea:size={size}" + (",stochastic=true" if stochastic else "")


def size_of(env: str) -> int:
    """The size in an id."""
    return int(env.partition("size=")[2].partition(",")[0])


def is_stochastic(env: str) -> bool:
    """Whether an id is that of a stochastic sea."""
    return "stochastic=true" in env


def luck(row: Row) -> str:
    """The mark of a run on a stochastic sea that was solved by luck, or may have been."""
    if row.solved_episode is None or not is_stochastic(row.env):
        return ""
    return UNKNOWN if row.successes is None else LUCK if row.successes < CHESTS else ""


def without_luck(rows: Sequence[Row]) -> list[Row]:
    """The same rows, those that were solved by luck taken as unsolved where they stopped."""
    return [row._replace(solved_episode=None, score=0.0) if luck(row) == LUCK else row for row in rows]


def luck_words(rows: Sequence[Row], again: Mapping[str, Verdict]) -> str:
    """How many runs luck solved, and what the verdicts would be without them."""
    marks = [luck(row) for row in rows]
    words = (
        f"Of {sum(row.solved_episode is not None for row in rows)} runs here that count as solved on stochastic seas "
        f"{marks.count(LUCK)} were solved by luck, with fewer than ten chests; of {marks.count(UNKNOWN)} the chests were not "
        "written down. Were the former taken as unsolved, at the episode where they stopped, it would be:"
    )
    lines = [f"- {claim}, {verdict.word}: {verdict.because}." for claim, verdict in again.items()]
    return words + "\n\n" + "\n".join(lines)
