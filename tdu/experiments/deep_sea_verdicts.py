"""The rules of claims C1 and C2 (results/RULES.md), and whether the batch size explains the paper's figure."""

from collections.abc import Sequence
from typing import NamedTuple

from tdu.experiments.experiment import (
    Verdict,
    Word,
    at_least,
    cell,
    ended,
    faster,
    interval_words,
    judged,
    paired,
    paired_words,
    select,
)
from tdu.experiments.rows import Row
from tdu.experiments.sea_scores import ENSEMBLES, LARGEST_SIZES, SIZES, Score, at_one, group, score
from tdu.experiments.seas import sea
from tdu.reporting.statistics import Paired
from tdu.sweeps import Cell

BOUND = 0.9
SEEDS = {"listing": (0, 1, 2), "paper": (0, 1)}
"""Seeds of C2 by preset. C1 and C2 have a verdict for each; that of `listing` is the experiment's."""
LARGE = tuple(size for size in SIZES if size >= 24)
"""Where a run is in practice not solved without the chest."""


def listing_at_one() -> list[Cell]:
    """The runs with `listing` and λ = 1 by which C1 is judged."""
    return [
        cell(sea(size, stochastic=False), "tdu", seed, preset="listing", prior_scale=1.0)
        for seed in SEEDS["listing"]
        for size in LARGEST_SIZES
    ]


def c1(rows: Sequence[Row]) -> Verdict:
    """Both agents at λ = 3, and TDU at λ = 1, solve every deterministic size."""
    tdu, bdqn = (score(group(rows, agent, stochastic=False), SIZES) for agent in ENSEMBLES)
    one = score(at_one(rows), SIZES)
    listing = select(rows, listing_at_one())
    wanted = len(listing_at_one())
    words = f"at λ = 3 TDU solves {_solved_words(tdu)} and BDQN {_solved_words(bdqn)}"
    if not (tdu.by_seed and bdqn.by_seed):
        return Verdict("not yet enough data", "no seed has all 21 deterministic sizes with both agents")
    both = [mine.all.estimate == 1 for mine in (tdu, bdqn)]
    solved = sum(time.solved for time in ended(listing))
    words += f"; at λ = 1 with `listing` TDU solves {solved} of {len(listing)} runs on sizes 44 to 50"
    words += f" ({wanted - len(listing)} of {wanted} are missing)" if len(listing) < wanted else ""
    if one.by_seed:
        with_paper = judged(*both, one.all.estimate == 1)
        words += f"; at λ = 1 with `paper` it solves {_solved_words(one)}, so with `paper` C1 is {with_paper}"
    if len(listing) < wanted:
        return Verdict("not yet enough data", words)
    return Verdict(judged(*both, solved == wanted), words)


def _solved_words(mine: Score) -> str:
    return f"{sum(mine.by_seed.values())} of {len(mine.rows)}"


class Stochastic(NamedTuple):
    """What C2 is judged by, on stochastic Deep Sea with one preset."""

    tdu: Score
    bdqn: Score
    test: Paired
    word: Word

    @property
    def words(self) -> str:
        """In one sentence."""
        return (
            f"TDU's official score is {interval_words(self.tdu.official)} and BDQN's {interval_words(self.bdqn.official)}; "
            f"TDU needs {paired_words(self.test)}, of BDQN's episodes in {self.test.pairs} pairs"
        )


def on_stochastic(rows: Sequence[Row], preset: str, sizes: Sequence[int] = SIZES) -> Stochastic | None:
    """C2 by one preset on some sizes; None where runs are missing."""
    runs = [row for row in rows if row.seed in SEEDS[preset]]
    tdu, bdqn = (group(runs, agent, stochastic=True, preset=preset, sizes=sizes) for agent in ENSEMBLES)
    scores = [score(by_size, sizes) for by_size in (tdu, bdqn)]
    test = paired(tdu, bdqn)
    if test is None or any(len(mine.by_seed) < len(SEEDS[preset]) for mine in scores):
        return None
    return Stochastic(scores[0], scores[1], test, _c2_word(*statements(scores[0], scores[1], test)))


def statements(tdu: Score, bdqn: Score, test: Paired) -> list[bool | None]:
    """BDQN misses the bound, TDU reaches it, TDU is faster."""
    reached = at_least(bdqn.official, BOUND)
    return [None if reached is None else not reached, at_least(tdu.official, BOUND), faster(test)]


def _c2_word(misses: bool | None, reaches: bool | None, is_faster: bool | None) -> Word:
    if is_faster or (misses and reaches):
        return judged(misses, reaches, is_faster)
    return "not reproduced" if False in (misses, reaches, is_faster) else "inconclusive"


def c2(rows: Sequence[Row]) -> Verdict:
    """On stochastic Deep Sea BDQN loses much of its score and TDU does not."""
    found = {preset: on_stochastic(rows, preset) for preset in SEEDS}
    words = [
        f"with `{preset}` {mine.words}" + (f" ({mine.word})" if preset == "paper" else "")
        if mine
        else f"with `{preset}` runs are missing"
        for preset, mine in found.items()
    ]
    return Verdict(found["listing"].word if found["listing"] else "not yet enough data", "; ".join(words))


def batch_words(rows: Sequence[Row]) -> str:
    """Whether the batch size explains the paper's figure."""
    listing, paper = (on_stochastic(rows, preset) for preset in SEEDS)
    if listing is None or paper is None:
        return "The answer needs every run with `listing`; some are missing."
    if listing.word == "reproduced" != paper.word:
        return "Yes: C2 is reproduced with `listing` and not with `paper`."
    between = (
        f"{interval_words(listing.tdu.official)} with `listing` and {paper.tdu.official.estimate:.2f} with `paper`"
    )
    if listing.tdu.official.low > paper.tdu.official.estimate:
        return f"Partly: TDU's score is higher, {between}."
    return f"No: TDU's score is {between}."
