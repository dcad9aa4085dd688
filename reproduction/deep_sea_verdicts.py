"""The rules of claims C1 and C2 (results/RULES.md), and whether the batch size explains the paper's figure."""

from collections.abc import Sequence
from typing import NamedTuple

from reproduction.deep_sea_runs import sea
from reproduction.deep_sea_scores import ENSEMBLES, LARGEST_SIZES, SIZES, Score, at_one, counts_officially, group, score
from reproduction.experiment import (
    Verdict,
    Word,
    at_least,
    cell,
    ended,
    faster,
    interval_words,
    judged,
    p_words,
    paired,
    select,
)
from reproduction.rows import Row
from tdu.report import statistics
from tdu.report.statistics import Paired
from tdu.run.sweeps import Cell

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
    if not (tdu.by_seed and bdqn.by_seed):
        return Verdict("not yet enough data", "no seed has all 21 deterministic sizes with both agents")
    both = [mine.all.estimate == 1 for mine in (tdu, bdqn)]
    words = f"at λ = 3 TDU solves {_solved_words(tdu)} runs and BDQN {_solved_words(bdqn)}"
    one = score(at_one(rows), SIZES)
    if one.by_seed:
        with_paper = judged(*both, one.all.estimate == 1)
        words += f"; at λ = 1 TDU solves {_solved_words(one)} with `paper` ({with_paper})"
    listing, wanted = select(rows, listing_at_one()), len(listing_at_one())
    if not listing:
        return Verdict("not yet enough data", f"{words}; with `listing` none of {wanted} runs at λ = 1 is done")
    solved = sum(time.solved for time in ended(listing))
    words += f"; at λ = 1 with `listing` it solves {solved} of {len(listing)} on sizes 44 to 50"
    if len(listing) < wanted:
        return Verdict("not yet enough data", f"{words} so far, of {wanted} runs")
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
        """The scores and the paired test."""
        return (
            f"TDU scores {interval_words(self.tdu.official)}, BDQN {interval_words(self.bdqn.official)}, and TDU needs "
            f"{interval_words(self.test.ratio)} of BDQN's episodes ({p_words(self.test.p)})"
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
    listing, paper = (on_stochastic(rows, preset) for preset in SEEDS)
    done, wanted = (len(found) for found in (select(rows, listing_cells()), listing_cells()))
    words = f"with `listing` {listing.words}" if listing else f"with `listing` {done} of {wanted} runs are done"
    words += f"; with `paper` {paper.words}: {paper.word}" if paper else "; with `paper` runs are missing"
    return Verdict(listing.word if listing else "not yet enough data", words)


def listing_cells(seeds: Sequence[int] = SEEDS["listing"]) -> list[Cell]:
    """The runs with `listing` by which C2 is judged."""
    return [
        cell(sea(size, stochastic=True), agent, seed, preset="listing")
        for seed in seeds
        for size in SIZES
        for agent in ENSEMBLES
    ]


def batch_words(rows: Sequence[Row]) -> str:
    """Whether the batch size explains the paper's figure; while runs are missing, what the runs so far are."""
    listing, paper = (on_stochastic(rows, preset) for preset in SEEDS)
    if listing is None or paper is None:
        done, wanted = len(select(rows, listing_cells())), len(listing_cells())
        answer = f"Runs so far: {done} of {wanted} with `listing`, so there is no answer yet."
    elif listing.word == "reproduced" != paper.word:
        answer = "Yes: C2 is reproduced with `listing` and not with `paper`."
    elif listing.tdu.official.low > paper.tdu.official.estimate:
        answer = "Partly: TDU's score is higher with `listing`, but C2 is not reproduced with `listing` alone."
    else:
        answer = "No: the interval of TDU's score with `listing` contains its score with `paper`."
    return " ".join(filter(None, [answer, _shared_words(rows)]))


def _shared_words(rows: Sequence[Row]) -> str:
    """Both presets and both agents on the sizes and seeds that all four have."""
    runs = {
        (preset, agent): {
            (size, row.seed): row
            for size, mine in group(rows, agent, stochastic=True, preset=preset).items()
            for row in mine
            if row.seed in SEEDS["listing"]
        }
        for preset in SEEDS
        for agent in ENSEMBLES
    }
    shared = sorted(set.intersection(*(set(mine) for mine in runs.values())))
    if not shared:
        return ""
    solved = {key: sum(counts_officially(mine[at]) for at in shared) for key, mine in runs.items()}
    tdu, bdqn = ([solved[preset, agent] for preset in SEEDS] for agent in ENSEMBLES)
    words = (
        f"Both presets have {len(shared)} pairs with the same size and seed. Of those TDU solves {tdu[0]} with `listing` and "
        f"{tdu[1]} with `paper`, and BDQN {bdqn[0]} and {bdqn[1]}."
    )
    ratios = []
    for preset in SEEDS:
        times = [ended([runs[preset, agent][at] for agent in ENSEMBLES]) for at in shared]
        test = statistics.sign_flip([(time[0], time[1]) for time in times])
        ratios.append(f"{interval_words(test.ratio)} with `{preset}` ({p_words(test.p)})")
    return f"{words} TDU's episodes over BDQN's are {ratios[0]} and {ratios[1]}."
