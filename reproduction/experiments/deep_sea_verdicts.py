"""The rules of claims C1 and C2 (results/RULES.md), and whether the batch size explains the paper's figure."""

from collections.abc import Sequence
from typing import NamedTuple

from reproduction import analysis, wording
from reproduction.deep_sea_runs import (
    ENSEMBLES,
    SIZES,
    DeepSeaScore,
    counts_officially,
    deep_sea_cells,
    group,
    prior_scale_one,
    score,
)  # fmt: skip
from reproduction.experiment import Verdict, Word, select
from reproduction.rows import RunRow
from reproduction.statistics import Paired
from tdu.run.sweeps import Cell

BOUND = 0.9
SEEDS = {"listing": (0, 1, 2), "paper": (0, 1)}
"""Seeds of C2 by preset. Both presets have a verdict; that of `listing` is the experiment's."""
LARGE = tuple(size for size in SIZES if size >= 24)
"""Sizes at which a run is in practice not solved without the chest."""
LARGEST = (44, 46, 48, 50)
"""Sizes of C1's runs with `listing`."""


def listing_prior_scale_one() -> list[Cell]:
    """C1's runs with `listing` and λ = 1."""
    seeds = SEEDS["listing"]
    return deep_sea_cells(["tdu"], seeds, sizes=LARGEST, variants=[False], preset="listing", prior_scale=1.0)


def listing_cells(seeds: Sequence[int] = SEEDS["listing"]) -> list[Cell]:
    """C2's runs with `listing`."""
    return deep_sea_cells(ENSEMBLES, seeds, variants=[True], preset="listing")


def c1(rows: Sequence[RunRow]) -> Verdict:
    """Both agents at λ = 3, and TDU at λ = 1, solve every deterministic size."""
    tdu, bdqn = (score(group(rows, agent, stochastic=False), SIZES) for agent in ENSEMBLES)
    if not (tdu.by_seed and bdqn.by_seed):
        return Verdict("not yet enough data", "no seed has all 21 deterministic sizes with both agents")
    both = [found.all.estimate == 1 for found in (tdu, bdqn)]
    words = f"at λ = 3 TDU solves {_solved_words(tdu)} runs and BDQN {_solved_words(bdqn)}"
    one = score(prior_scale_one(rows), SIZES)
    if one.by_seed:
        with_paper = analysis.judged(*both, one.all.estimate == 1)
        words += f"; at λ = 1 TDU solves {_solved_words(one)} with `paper` ({with_paper})"
    listing, wanted = select(rows, listing_prior_scale_one()), len(listing_prior_scale_one())
    if not listing:
        return Verdict("not yet enough data", f"{words}; with `listing` none of {wanted} runs at λ = 1 is done")
    solved = analysis.solved_count(listing)
    words += f"; at λ = 1 with `listing` it solves {solved} of {len(listing)} on sizes 44 to 50"
    if len(listing) < wanted:
        return Verdict("not yet enough data", f"{words} so far, of {wanted} runs")
    return Verdict(analysis.judged(*both, solved == wanted), words)


def _solved_words(found: DeepSeaScore) -> str:
    return f"{sum(found.by_seed.values())} of {len(found.rows)}"


class OnStochastic(NamedTuple):
    """C2's scores and test on stochastic Deep Sea, with one preset."""

    tdu: DeepSeaScore
    bdqn: DeepSeaScore
    test: Paired

    @property
    def statements(self) -> list[bool | None]:
        """BDQN misses the bound, TDU reaches it, TDU is faster."""
        reached = analysis.at_least(self.bdqn.official, BOUND)
        misses = None if reached is None else not reached
        return [misses, analysis.at_least(self.tdu.official, BOUND), analysis.faster(self.test)]

    @property
    def word(self) -> Word:
        """The verdict."""
        misses, reaches, is_faster = self.statements
        if is_faster or (misses and reaches):
            return analysis.judged(misses, reaches, is_faster)
        return "not reproduced" if False in (misses, reaches, is_faster) else "inconclusive"

    @property
    def words(self) -> str:
        """The scores and the paired test."""
        return (
            f"TDU scores {wording.interval(self.tdu.official)}, BDQN {wording.interval(self.bdqn.official)}, and TDU needs "
            f"{wording.interval(self.test.ratio)} of BDQN's episodes ({wording.p_value(self.test.p)})"
        )


def on_stochastic(rows: Sequence[RunRow], preset: str, sizes: Sequence[int] = SIZES) -> OnStochastic | None:
    """C2 with one preset on some sizes; None while runs are missing."""
    runs = [row for row in rows if row.seed in SEEDS[preset]]
    tdu, bdqn = (group(runs, agent, stochastic=True, preset=preset, sizes=sizes) for agent in ENSEMBLES)
    found = OnStochastic(score(tdu, sizes), score(bdqn, sizes), test) if (test := analysis.paired(tdu, bdqn)) else None
    if found is None or min(len(found.tdu.by_seed), len(found.bdqn.by_seed)) < len(SEEDS[preset]):
        return None
    return found


def c2(rows: Sequence[RunRow]) -> Verdict:
    """On stochastic Deep Sea BDQN loses much of its score and TDU does not."""
    listing, paper = (on_stochastic(rows, preset) for preset in SEEDS)
    done, wanted = (len(found) for found in (select(rows, listing_cells()), listing_cells()))
    words = f"with `listing` {listing.words}" if listing else f"with `listing` {done} of {wanted} runs are done"
    words += f"; with `paper` {paper.words}: {paper.word}" if paper else "; with `paper` runs are missing"
    return Verdict(listing.word if listing else "not yet enough data", words)


def batch_words(rows: Sequence[RunRow]) -> str:
    """Whether the batch size explains the paper's figure; while runs are missing, the runs so far."""
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


def _shared_words(rows: Sequence[RunRow]) -> str:
    """Both presets and both agents on the sizes and seeds that all four have."""
    runs = {
        (preset, agent): {
            (size, row.seed): row
            for size, of_size in group(rows, agent, stochastic=True, preset=preset).items()
            for row in of_size
            if row.seed in SEEDS["listing"]
        }
        for preset in SEEDS
        for agent in ENSEMBLES
    }
    shared = sorted(set.intersection(*map(set, runs.values())))
    if not shared:
        return ""
    solved = {key: sum(counts_officially(found[at]) for at in shared) for key, found in runs.items()}
    tdu, bdqn = ([solved[preset, agent] for preset in SEEDS] for agent in ENSEMBLES)
    words = (
        f"Both presets have {len(shared)} pairs with the same size and seed. Of those TDU solves {tdu[0]} with `listing` and "
        f"{tdu[1]} with `paper`, and BDQN {bdqn[0]} and {bdqn[1]}."
    )
    ratios = []
    for preset in SEEDS:
        test = analysis.paired_runs([(runs[preset, "tdu"][at], runs[preset, "bdqn"][at]) for at in shared])
        ratios.append(f"{wording.interval(test.ratio)} with `{preset}` ({wording.p_value(test.p)})")
    return f"{words} TDU's episodes over BDQN's are {ratios[0]} and {ratios[1]}."
