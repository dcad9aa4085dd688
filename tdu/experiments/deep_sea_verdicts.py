"""The rules by which runs on Deep Sea are judged (claims C1 and C2)."""

from collections.abc import Sequence

from tdu.experiments.experiment import Verdict, at_least, checked, ended, interval_words, judged, p_words, sooner
from tdu.experiments.rows import Row
from tdu.experiments.sea_scores import ENSEMBLES, SIZES, Score, Scores, compared, variant
from tdu.reporting import statistics
from tdu.reporting.statistics import Episodes, Interval

NEARLY, DROP = 0.9, 0.1
"""Bounds of the verdicts."""


def c1(scores: Scores, one: Score) -> Verdict:
    """Both agents at λ = 3, and TDU at λ = 1, solve every deterministic size."""
    mine = [scores[agent, "paper", False] for agent in ENSEMBLES]
    if not all(s.is_whole for s in mine):
        return Verdict("not yet enough data", _lacking(scores, False))
    tdu, bdqn = map(_solved_words, mine)
    words = f"of the deterministic seas at λ = 3 TDU solves {tdu}, and BDQN {bdqn}; at λ = 1 TDU "
    if not one.is_whole:
        return Verdict("not yet enough data", words + "has no seed with all 21 yet")
    return Verdict(judged(*(s.all.estimate == 1 for s in (*mine, one))), words + f"solves {_solved_words(one)}")


def c2(rows: Sequence[Row], scores: Scores) -> Verdict:
    """On stochastic seas BDQN loses and TDU does not."""
    tdu, bdqn = (scores[agent, "paper", True] for agent in ENSEMBLES)
    before = scores["bdqn", "paper", False]
    seeds = [seed for seed in tdu.by_seed if seed in bdqn.by_seed]
    if not (tdu.is_whole and bdqn.is_whole and before.is_whole and seeds):
        return Verdict("not yet enough data", _lacking(scores, True))
    scored = [row for row in rows if row.seed in seeds]
    test = statistics.stratified_logrank([(ended(a), ended(b)) for a, b in compared(scored, stochastic=True)])
    drops = _dropped(bdqn.all, before.all.estimate - DROP)
    recovers = at_least(tdu.all, NEARLY)
    unsolved = [len(mine.by_seed) * len(SIZES) - len(mine.solved) for mine in (tdu, bdqn)]
    at_all = statistics.stratified_logrank([(_at_all(a), _at_all(b)) for a, b in compared(scored, stochastic=True)])
    scores_words = f"{before.all.estimate:.2f} deterministic, {interval_words(bdqn.all)} stochastic"
    checks = {
        f"BDQN loses much of its score ({scores_words})": drops,
        f"TDU recovers nearly all of it ({interval_words(tdu.all)})": recovers,
        f"TDU solves sooner (stratified log-rank z = {test.z:+.2f}, {p_words(test.p)})": sooner(test),
    }
    words = (
        f"{checked(checks)} ({_seeds_words(seeds)}; unsolved are {unsolved[0]} of TDU's runs and {unsolved[1]} of BDQN's, "
        f"{p_words(at_all.p)})"
    )
    if all(checks.values()):
        return Verdict("reproduced", words)
    if sooner(test) or (drops and recovers):
        return Verdict("partly reproduced", words)
    return Verdict("not reproduced" if False in checks.values() else "inconclusive", words)


def _dropped(found: Interval, bound: float) -> bool | None:
    """Whether all of an interval is below a bound."""
    reached = at_least(found, bound)
    return None if reached is None else not reached


def _at_all(rows: Sequence[Row]) -> list[Episodes]:
    """Whether runs were solved, whenever that was."""
    return [Episodes(int(row.solved_episode is None), row.solved_episode is not None) for row in rows]


def _solved_words(mine: Score) -> str:
    seeds = (
        f" on each of {len(mine.by_seed)} seeds" if len(mine.by_seed) > 1 else f" on seed {next(iter(mine.by_seed))}"
    )
    every = len(mine.by_seed) * len(mine.sizes)
    return f"all {len(mine.sizes)}{seeds}" if mine.all.estimate == 1 else f"{sum(mine.by_seed.values())} of {every}"


def _seeds_words(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _lacking(scores: Scores, stochastic: bool) -> str:
    whole = [agent for agent in ENSEMBLES if scores[agent, "paper", stochastic].is_whole]
    return f"a seed with all 21 {variant(stochastic)} sizes is there of {' and '.join(whole) or 'neither agent'}"
