"""Statistics over seeds, against values computed by hand or by scipy."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from reproduction import statistics
from reproduction.statistics import Episodes


def runs(*episodes, limit=100):
    return [Episodes(limit, False) if e is None else Episodes(e, True) for e in episodes]


def test_a_median_whose_upper_end_the_unsolved_reach():
    assert statistics.median_interval([30, 20, 10, 40, None, 50, None]) == (40, 10, math.inf)
    assert statistics.median_interval([7, 7, 7]) == (7, 0, math.inf), "three runs say nothing at 95 %"
    assert statistics.median_interval([1, None]).estimate == math.inf
    # With 12 runs, fewer than 3 are on one side with probability (1 + 12 + 66) / 4096. Twice that is 0.039.
    assert [statistics.median_rank(n) for n in (1, 5, 6, 8, 9, 12)] == [0, 0, 1, 1, 2, 3]
    assert statistics.median_interval(list(range(1, 13))) == (6.5, 3, 10)


def test_a_bootstrap_is_the_same_twice_and_covers_a_known_spread():
    values = np.random.default_rng(3).normal(5, 2, 400)
    found = statistics.bootstrap(values, lambda x: x.mean(axis=1))
    assert found == statistics.bootstrap(values, lambda x: x.mean(axis=1))
    assert found.estimate == pytest.approx(values.mean())
    error = values.std() / 20
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.25 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.25 * error)


def test_a_mean_has_student_s_interval():
    by_scipy = stats.ttest_1samp([0.1, -0.2, 0.4, 0.0, 0.3], 0).confidence_interval(0.95)
    assert statistics.mean_interval([0.1, -0.2, 0.4, 0.0, 0.3]) == pytest.approx((0.12, by_scipy.low, by_scipy.high))


def test_a_bootstrap_of_five_values_holds_their_mean_in_84_of_100():
    """Student's interval contains the mean in 95 of 100. This is why `mean_interval` uses it."""
    samples = np.random.default_rng(0).normal(size=(2000, 5))
    held = np.zeros(2)
    for values in samples:
        both = (statistics.bootstrap(values, lambda x: x.mean(axis=1), draws=500), statistics.mean_interval(values))
        held += [found.low <= 0 <= found.high for found in both]
    assert held / len(samples) == pytest.approx([0.84, 0.95], abs=0.015)


def test_a_share_is_wilson_s():
    assert statistics.share(0, 0)[1:] == (0.0, 1.0)
    z2 = stats.norm.ppf(0.975) ** 2
    assert statistics.share(21, 21) == pytest.approx((1, 21 / (21 + z2), 1))
    by_scipy = stats.binomtest(7, 20).proportion_ci(method="wilson")
    assert statistics.share(7, 20) == pytest.approx((0.35, by_scipy.low, by_scipy.high))


def test_logrank_by_hand():
    """Runs solved at 1 and 2, against one solved at 3 and one censored at 4: O − E = 2 − (1/2 + 1/3) = 7/6.

    The runs' own O − E are 9/12, 5/12, −1/12 and −13/12. Their squares sum to 276/144. If the four runs are permuted between
    the groups, the variance of a group's sum is a third of that.
    """
    first, second = runs(1, 2), runs(3, None, limit=4)
    found = statistics.stratified_logrank([(first, second)])
    assert found.z == pytest.approx((7 / 6) / math.sqrt(276 / 144 / 3))
    assert found.p == pytest.approx(2 / 6, abs=0.015), "of the six ways to deal them out two differ as much"
    assert statistics.stratified_logrank([(second, first)]).z == pytest.approx(-found.z)
    assert statistics.stratified_logrank([(runs(None), runs(None, None))]) == (0, 1, 1)


def test_one_run_each_per_task_is_a_sign_test():
    """Each task adds ±1/2 to O − E and 1/4 to V, so z is the surplus of wins divided by the root of the number of tasks."""
    tasks = [(runs(i), runs(i + 1)) for i in range(1, 8)] + [(runs(9), runs(5)), (runs(None), runs(5))]
    tasks += [(runs(3), [])]  # no run to compare with
    found = statistics.stratified_logrank(tasks)
    assert found.z == pytest.approx((7 - 2) / math.sqrt(9))
    assert found.strata == 9
    assert found.p == pytest.approx(stats.binomtest(7, 9).pvalue, abs=0.015)
    assert statistics.stratified_logrank([(runs(5), runs(5))]).z == 0


def test_one_task_is_scipy_s_logrank():
    generator = np.random.default_rng(0)
    first, second = (
        [Episodes(int(e), e < 80) for e in np.minimum(generator.integers(1, top, 40), 80)] for top in (90, 110)
    )

    def censored(group):
        solved = [e.episode for e in group if e.solved]
        return stats.CensoredData(uncensored=solved, right=[e.episode for e in group if not e.solved])

    by_scipy = stats.logrank(censored(first), censored(second))
    found = statistics.stratified_logrank([(first, second)])
    assert found.z == pytest.approx(by_scipy.statistic, rel=0.05), "whose variance is Mantel's"
    assert found.p == pytest.approx(by_scipy.pvalue, abs=0.01)
    assert 0.001 < found.p < 0.2


def test_a_trend_over_groups():
    rising = [[runs(40), runs(30), runs(20)], [runs(None), runs(70), runs(10)]]
    found = statistics.stratified_trend(rising)
    assert found.z > 0
    assert found.p == pytest.approx(2 / 36, abs=0.01), "of the 36 orders this one and its mirror image are as far"
    assert statistics.stratified_trend([groups[::-1] for groups in rising]).z == pytest.approx(-found.z)
    assert statistics.stratified_trend([[runs(5), runs(5)]]) == (0, 1, 1)
    pairs = [(runs(i), runs(i + 1, i + 3)) for i in range(1, 6)]
    as_pairs = statistics.stratified_trend([(second, first) for first, second in pairs])
    assert as_pairs.p == pytest.approx(statistics.stratified_logrank(pairs).p, abs=0.01)


def test_ratio_of_medians():
    assert statistics.ratio_of_medians([([10], [20])] * 3) == pytest.approx((0.5, 0.5, 0.5))
    medians = statistics.ratio_of_medians([([10, 12, 90], [24]), ([8], [20, 1, 99])])
    assert medians.estimate == pytest.approx(math.sqrt(0.5 * 0.4))
    assert statistics.ratio_of_medians([([10], [20])]) == (0.5, 0, math.inf), "one task says nothing of others"


def test_a_ratio_s_interval_holds_it_in_95_of_100():
    """Five tasks with three runs per group. In logs, the standard deviation is 1 within a group and 0.5 between groups."""
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        logs = generator.normal(size=(5, 2, 3)) + generator.normal(scale=0.5, size=(5, 2, 1))
        found = statistics.ratio_of_medians([tuple(np.exp(task)) for task in logs])
        held += found.low <= 1 <= found.high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_a_power_law_is_found_again():
    sizes = [10, 20, 30, 40, 50]
    factor, exponent = statistics.power_law(sizes, [Episodes(round(1e6 * n**1.45), True) for n in sizes])
    assert factor == pytest.approx(1e6, rel=1e-4)
    assert exponent == pytest.approx((1.45, 1.45, 1.45), abs=1e-4)
    _, noisy = statistics.power_law(sizes * 2, [Episodes(k * n**2, True) for k in (1, 2) for n in sizes])
    assert noisy.estimate == pytest.approx(2)
    assert noisy.low < 2 < noisy.high


def test_a_power_law_accounts_for_unsolved_runs(monkeypatch):
    monkeypatch.setattr(statistics, "DRAWS", 500)
    rng = np.random.default_rng(0)
    sizes = np.repeat([10, 20, 40, 80], 50)
    times = 3 * sizes**2.0 * np.exp(0.5 * rng.normal(size=200))
    limit = 12_000  # two thirds of the largest take longer
    cut = [Episodes(int(min(time, limit)), bool(time < limit)) for time in times]
    assert 0.1 < np.mean([not run.solved for run in cut]) < 0.3
    _, power = statistics.power_law(sizes, cut)
    assert power.low < 2 < power.high
    _, naive = statistics.power_law(sizes, [run._replace(solved=True) for run in cut])
    assert naive.high < 1.95, "at their last episode they are too early"
    x, y, beyond = np.log(sizes), np.log([run.episode for run in cut]), np.array([not run.solved for run in cut])

    def unlikely(line):
        start, slope, log_spread = line
        z = (y - start - slope * x) / np.exp(log_spread)
        return -np.where(beyond, stats.norm.logsf(z), stats.norm.logpdf(z) - log_spread).sum()

    best = optimize.minimize(unlikely, [0.0, 2.0, 0.0], method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-9})
    assert power.estimate == pytest.approx(best.x[1], abs=2e-3)


def test_the_shape_of_waiting_is_found_again():
    draws = np.random.default_rng(0)

    def waited(shape, count):
        """Two strata with different scales, censored at 6000."""
        times = [np.ceil(scale * draws.weibull(shape, count)) for scale in (1000, 5000)]
        return [[Episodes(int(min(t, 6000)), bool(t <= 6000)) for t in group] for group in times]

    for shape in (0.5, 1.0, 2.0):
        assert statistics.waiting_shape(waited(shape, 400)).estimate == pytest.approx(shape, rel=0.1)
    intervals = [statistics.waiting_shape(waited(1.0, 12)) for _ in range(300)]
    assert 0.9 < np.mean([found.low < 1 < found.high for found in intervals]) < 0.99
    from scipy import stats

    times = [100, 300, 500, 700, 1500]
    expected = stats.weibull_min.fit(times, floc=0)[0]
    ours = statistics.waiting_shape([[Episodes(t, True) for t in times]])
    assert ours.estimate == pytest.approx(expected, rel=0.01)
    assert statistics.waiting_shape([[Episodes(10 * t, True) for t in times]]) == ours, "in whatever unit"


def test_psi_is_found_again():
    outcomes = [(n, round(10_000 * (1 - (1 - 0.87**n) ** 20)), 10_000) for n in (10, 20, 30, 40)]
    found = statistics.fit_psi(outcomes, 20)
    assert found.estimate == pytest.approx(0.87, abs=5e-4)
    assert found.low < 0.87 < found.high
    # One size, one head, 1 of 4: ψ = (1/4)^(1/size) exactly.
    assert statistics.fit_psi([(2, 1, 4)], 1).estimate == pytest.approx(0.5)
    everything = statistics.fit_psi([(50, 2, 2)], 20)
    assert everything.estimate == pytest.approx(1)
    assert 0.8 < everything.low < 0.99
    assert everything.high == pytest.approx(1)


def test_pairs_of_runs_are_compared_by_flipping_their_signs():
    def pairs(*both):
        return [(Episodes(a, True), Episodes(b, True)) for a, b in both]

    found = statistics.sign_flip(pairs((10, 20), (10, 40), (30, 30)))
    assert found.ratio.estimate == pytest.approx(math.exp(-math.log(8) / 3))
    assert (found.pairs, found.first_faster, found.second_faster) == (3, 2, 0)
    assert found.p == pytest.approx(0.5, abs=0.02), "of eight flips four have a mean as far from 0"
    ten = statistics.sign_flip(pairs(*[(10, 11 + i) for i in range(10)]))
    assert ten.p == pytest.approx(2 / 1024, abs=0.001)
    assert ten.ratio.high < 1
    assert statistics.sign_flip(pairs((5, 5), (7, 7))).p == 1
    other = statistics.sign_flip(pairs((20, 10), (40, 10), (30, 30)))
    assert (other.p, other.ratio.estimate) == (found.p, pytest.approx(1 / found.ratio.estimate))
    assert statistics.sign_flip([(Episodes(100, True), Episodes(10_000, False))]).ratio.estimate == pytest.approx(0.01)


def test_stuck_runs_are_distinguished_from_one_law():
    body = [2122, 2257, 1038, 2688, 1929, 2403, 2633, 4083, 2393, 2338]
    runs = [Episodes(episode, True) for episode in body] + [Episodes(10_000, False)] * 2
    found = statistics.stuck_runs(runs)
    assert found.p == pytest.approx(2.9e-5, rel=0.05), "a grid over shape, scale and share gives this"
    assert found.share == pytest.approx(2 / 12, abs=0.01)
    assert found.shape == pytest.approx(3.45, abs=0.1)
    assert statistics.stuck_runs(runs[:10]).p == 1, "all are solved"

    generator = np.random.default_rng(0)
    draws = [np.ceil(5000 * generator.weibull(1.5, size=12)).astype(int) for _ in range(80)]
    one_law = [[Episodes(min(int(t), 10_000), bool(t < 10_000)) for t in times] for times in draws]
    assert np.mean([statistics.stuck_runs(runs).p < 0.05 for runs in one_law]) < 0.1
