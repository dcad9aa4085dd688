"""The rules by which rows are judged: made-up rows that settle a claim, contradict it, or leave it open."""

import itertools
import math

import numpy as np
import pytest

from tdu.experiments import (
    binary_tree,
    bsuite,
    catalogue,
    deep_sea,
    deep_sea_grid,
    forgetting,
    pages,
    rows,
    scaling,
    sea_scores,
    seas,
)
from tdu.experiments.experiment import cell
from tdu.experiments.rows import Row
from tdu.reporting import statistics
from tdu.reporting.statistics import Episodes

ROW = Row("deep_sea:size=10", "tdu", "paper", "", 0, 10_000, 49, 49, 490, 1.0, 3, 0.5, "abc1234", "a processor")


def made_up(agent, size, seed, solved, *, stochastic):
    env = seas.sea(size, stochastic=stochastic)
    episodes = solved or 10_000
    return ROW._replace(
        env=env, agent=agent, seed=seed, solved_episode=solved, episodes=episodes, score=float(solved is not None)
    )


def test_the_verdict_on_deep_sea_follows_its_rule():
    def rows_with(bdqn_stochastic):
        found = []
        for size in sea_scores.SIZES:
            for seed in (0, 1):
                found += [made_up(a, size, seed, 20 * size, stochastic=False) for a in ("tdu", "bdqn")]
                found += [made_up("tdu", size, seed, 50 * size, stochastic=True)]
                found += [made_up("bdqn", size, seed, bdqn_stochastic(size), stochastic=True)]
                found += [made_up("tdu", size, seed, 30 * size, stochastic=False)._replace(options="prior_scale=1.0")]
        return found

    worse = deep_sea.report(rows_with(lambda size: 90 * size if size < 40 else None)).verdicts
    assert worse["C1"].word == "reproduced"
    assert worse["C2"].word == "reproduced"
    assert deep_sea.report(rows_with(lambda size: 60 * size)).verdicts["C2"].word == "partly reproduced"
    assert deep_sea.report(rows_with(lambda size: 40 * size)).verdicts["C2"].word == "not reproduced"
    assert deep_sea.report(rows_with(lambda size: 40 * size)[5:]).verdicts["C1"].word == "reproduced"  # seed 1 has all
    of_others = [made_up("bdqn", size, 7, 20, stochastic=True) for size in (20, 30)]
    more = deep_sea.report([*rows_with(lambda size: 60 * size), *of_others]).verdicts["C2"]
    assert more == deep_sea.report(rows_with(lambda size: 60 * size)).verdicts["C2"], (
        "seeds that are not scored do not count"
    )
    assert "does not: BDQN loses much of its score (1.00 deterministic, 1.00 (0.92–1.00) stochastic)" in more.because
    assert "unsolved are 0 of TDU's runs and 0 of BDQN's, p = 1" in more.because
    assert "(seeds 0, 1; unsolved" in more.because
    half = [r for r in rows_with(lambda size: 60 * size) if r.seed == 0 or seas.size_of(r.env) < 48]
    assert "all 21 on seed 0" in deep_sea.report(half).verdicts["C1"].because, "a seed counts once it is whole"
    assert "(seed 0; " in deep_sea.report(half).verdicts["C2"].because
    lost = [
        made_up("tdu", 30, 1, None, stochastic=False)
        if (r.agent, r.env, r.seed, r.options) == ("tdu", "deep_sea:size=30", 1, "")
        else r
        for r in rows_with(lambda size: 60 * size)
    ]
    assert deep_sea.report(lost).verdicts["C1"].word == "partly reproduced", "one of 42 is not all"
    assert "TDU solves 41 of 42" in deep_sea.report(lost).verdicts["C1"].because
    few = [r for r in rows_with(lambda size: 40 * size) if seas.size_of(r.env) < 50]
    assert deep_sea.report(few).verdicts["C1"].word == "not yet enough data"
    one = rows_with(lambda size: 60 * size)
    assert deep_sea.report([r for r in one if not r.options]).verdicts["C1"].word == "not yet enough data", (
        "without λ = 1"
    )
    late = [r._replace(solved_episode=None, episodes=10_000, score=0.0) if r.options and r.seed else r for r in one]
    assert deep_sea.report(late).verdicts["C1"].word == "partly reproduced"
    assert "at λ = 1 TDU solves 21 of 42" in deep_sea.report(late).verdicts["C1"].because


def test_runs_that_luck_has_solved_are_marked_and_the_verdict_without_them_is_told():
    def row(agent, size, solved, chests):
        return made_up(agent, size, 0, solved, stochastic=True)._replace(successes=chests)

    lucky, sober, old = row("tdu", 10, 100, 9), row("tdu", 12, 100, 10), row("bdqn", 12, 100, None)
    assert [seas.luck(r) for r in (lucky, sober, old, row("tdu", 14, None, 0))] == ["°", "", "?", ""]
    assert seas.luck(made_up("tdu", 10, 0, 5, stochastic=False)) == "", "in a deterministic sea it cannot help"
    taken = seas.without_luck([lucky, sober, old])
    assert taken == [lucky._replace(solved_episode=None, score=0.0), sober, old]
    early, late = old, row("bdqn", 14, seas.EARLY, None)
    taken = seas.without_luck([sober, early, late], early_unknown=True)
    assert taken == [sober, early._replace(solved_episode=None, score=0.0), late], (
        "what may be luck and came early, too"
    )
    body = deep_sea.report([lucky, sober, old, row("bdqn", 10, None, 0)]).body
    assert "Of 3 runs here that count as solved on stochastic seas 1 were solved by luck" in body
    assert "of 1 the chests were not written down" in body
    assert "100°" in body
    assert "100?" in body
    assert "taken so too (1 runs here)" in body

    every = [
        made_up(a, n, 0, 900, stochastic=s) for n in sea_scores.SIZES for a in ("tdu", "bdqn") for s in (False, True)
    ]
    as_told = deep_sea.report([r._replace(successes=99 if r.agent == "bdqn" else 0) for r in every])
    assert "(1.00 (0.85–1.00))" in as_told.verdicts["C2"].because
    without = as_told.body.partition("it would be:")[2]
    assert "TDU recovers nearly all of it (0.00 (0.00–0.15))" in without.partition("does not:")[2]


def test_the_grid_s_verdicts_leave_open_what_the_runs_leave_open():
    def verdicts(no_prior, prior, sizes=deep_sea_grid.FEW_SIZES, **others):
        """Episodes by β without priors; with them; of QU and Q+UCB. None is unsolved, and so is size 40 without priors."""
        found = []
        for size, seed in itertools.product(sizes, deep_sea_grid.SEEDS):
            env = seas.sea(size, stochastic=True)
            wanted = {cell(env, agent, seed): episodes for agent, episodes in others.items()}
            for beta, episodes in zip(deep_sea_grid.FEW_BETAS, no_prior, strict=True):
                wanted[deep_sea_grid.ensemble(env, seed, beta=beta, prior=0.0)] = episodes if size < 40 else None
                wanted[deep_sea_grid.ensemble(env, seed, beta=beta, prior=3.0)] = prior
            for one, episodes in wanted.items():
                at = episodes + seed if episodes else None
                row = ROW._replace(env=env, agent=one.agent, options=one.options_text, seed=seed)
                found.append(row._replace(solved_episode=at, episodes=at or 10_000, score=float(bool(at))))
        return deep_sea_grid.report(found).verdicts

    falls, flat = (None, 9000, 5000, 2000), (5000,) * 4
    clear = verdicts(falls, 500, qu=2000, q_ucb=None)
    assert (clear["C4"].word, clear["C5"].word) == ("reproduced", "reproduced")
    half = verdicts(flat, 500, qu=2000, q_ucb=500)
    assert (half["C4"].word, half["C5"].word) == ("partly reproduced", "partly reproduced")
    assert verdicts(flat, 500, qu=500, q_ucb=500)["C5"].word == "inconclusive"
    assert verdicts(flat, 5000, qu=500, q_ucb=5000)["C5"].word == "not reproduced"
    assert "at λ = 0 and 0.00 at λ = 3" in verdicts(flat, None)["C4"].because
    assert verdicts(flat, None)["C4"].word == "not reproduced"
    more = verdicts(falls, 500, (20, 22, 30, 40))["C4"]
    assert "solve 0.00, 0.75, 0.75, 0.75" in more.because, "size 22 counts where every setting has it"
    assert verdicts(falls, 500, (20, 30))["C4"].word == "not yet enough data"


def test_how_much_six_runs_against_six_can_see(monkeypatch):
    """The figures in the grid's rules: two seeds at three sizes, exponential times, cut off at 10,000 episodes."""
    monkeypatch.setattr(statistics, "PERMUTATIONS", 1000)
    generator = np.random.default_rng(0)

    def two(median):
        times = generator.exponential(median / math.log(2), size=2)
        return [Episodes(int(min(time, 10_000)), bool(time < 10_000)) for time in times]

    def seen(times_as_long, draws=400):
        pairs = [[(two(m), two(m * times_as_long)) for m in (1000, 2500, 9000)] for _ in range(draws)]
        found = [statistics.stratified_logrank(pair) for pair in pairs]
        return sum(one.p < 0.05 and one.z > 0 for one in found) / draws

    assert seen(2) == pytest.approx(1 / 12, abs=0.04)
    assert seen(5) == pytest.approx(1 / 3, abs=0.05)
    said = "twice the episodes in one of twelve cases and five times the episodes in one of three"
    assert said in deep_sea_grid.DEEP_SEA_GRID.rules


def test_the_exponent_is_of_what_is_solved_and_says_what_is_not():
    def rows_with(solved_to, sizes=(*sea_scores.SIZES, *scaling.LARGE)):
        cells = [c for c in scaling.cells("laptop") if c.agent == "tdu" and seas.size_of(c.env) in sizes]
        found = []
        for c in cells:
            n = seas.size_of(c.env)
            at = 2 * n**2 + c.seed if n <= solved_to else None
            row = ROW._replace(env=c.env, seed=c.seed, limit=c.episodes or ROW.limit, solved_episode=at)
            found.append(row._replace(episodes=at or row.limit, score=float(bool(at))))
        return found

    verdict = scaling.report(rows_with(60)).verdicts["exponent"]
    assert verdict.word == "answered"
    assert "over sizes 12 to 60, where every run is solved, TDU's exponent is 2.00 (2.00–2.00)" in verdict.because
    assert (
        "of 4 runs at 80 and 100, 4 are not solved in 30,000 episodes, where that law expects 12,7" in verdict.because
    )
    assert "none of those runs met the chest" not in verdict.because, "these met it three times"
    never = scaling.report([r if r.solved_episode else r._replace(successes=0) for r in rows_with(60)])
    assert "it ends there, and none of those runs met the chest even once" in never.verdicts["exponent"].because
    assert "| tdu | 80 | >30000 | >30000, >30000 | 0, 0 | 12,7" in never.body
    assert "| tdu | 12–100 | 46 | 4 |" in scaling.report(rows_with(60)).body
    assert "not solved" not in scaling.report(rows_with(100)).verdicts["exponent"].because
    assert scaling.report(rows_with(60, sea_scores.SIZES)).verdicts["exponent"].word == "not yet enough data"
    assert scaling.report([]).verdicts["exponent"].word == "not yet enough data"


def test_what_cuts_the_tail_is_told_with_what_makes_it_longer():
    def rows_with(**episodes):
        """Episodes by what was changed, and by agent where nothing was."""
        found = []
        for c in forgetting.cells("laptop"):
            (changed,) = dict(c.options) or (c.agent,)
            at = episodes.get(changed, 3000)
            at = at and at + 10 * c.seed
            row = ROW._replace(env=c.env, agent=c.agent, options=c.options_text, seed=c.seed, limit=c.episodes)
            found.append(row._replace(solved_episode=at, episodes=at or 10_000))
        return found

    found = forgetting.report(rows_with(bdqn=None, batch_size=900, replay_capacity=None)).verdicts["tail"]
    assert found.word == "answered"
    assert "0 of 12 unsolved at size 30 (BDQN 12), 0 of 12 unsolved at size 40 (BDQN 12)" in found.because
    sooner, _, later = found.because.partition("sooner than it solve: ")[2].partition("; later: ")
    assert sooner.startswith("TDU, batch 128 (z = +")
    assert later.startswith("TDU, replay 100,000 (z = -")
    assert "λ = 5" not in sooner + later
    alike = forgetting.report(rows_with()).verdicts["tail"].because
    assert alike.endswith("sooner than it solve: none of the changes")
    assert forgetting.report(rows_with()[1:]).verdicts["tail"].word == "not yet enough data"


def test_the_tree_s_verdict_follows_its_rule():
    def rows_with(episodes):
        cells = binary_tree.cells("laptop")
        return [
            ROW._replace(
                env=c.env,
                agent=c.agent,
                options=c.options_text,
                seed=c.seed,
                solved_episode=e,
                episodes=e,
                limit=10_000,
            )
            for c in cells
            for e in [episodes(dict(c.options), c.agent) + c.seed]
        ]

    def better(options, agent):
        beta = 0.0 if agent == "bdqn" else options.get("beta", 1.0)
        return 900 - 100 * int(beta * 2) - 10 * options.get("explorers", 10)

    assert binary_tree.report(rows_with(better)).verdicts["C6"].word == "reproduced"
    assert binary_tree.report(rows_with(lambda options, agent: 500)).verdicts["C6"].word == "inconclusive"

    def worse(options, agent):
        return 1800 - better(options, agent)

    assert binary_tree.report(rows_with(worse)).verdicts["C6"].word == "not reproduced"
    assert binary_tree.report(rows_with(better)[:50]).verdicts["C6"].word == "not yet enough data"


OTHERS = ("catch", "cartpole", "bandit", "discounting_chain", "umbrella_length", "memory_len", "bandit_noise", "bandit_scale",
          "catch_noise", "catch_scale")  # fmt: skip


def of_bsuite(without, with_bonus, bandit, *, elsewhere=(0.7,) * 10):
    """Rows of Mountain Car's settings and of the other experiments, where only the bonus makes a difference."""
    found = []
    unchanged = (0.7,) * len(OTHERS)
    variants = (
        ("bdqn", "", without, unchanged),
        ("tdu", "", with_bonus, elsewhere),
        ("tdu", "head_choice=ucb1", bandit, unchanged),
    )
    for agent, options, cars, other in variants:
        scores = {f"mountain_car/{i}": score for i, score in enumerate(cars)}
        scores |= {f"{name}/0": score for name, score in zip(OTHERS, other, strict=True)}
        for env, score in scores.items():
            run = Row(env, agent, "paper", options, 0, None, None, 1000, 9, score, None, 1.0, "abc1234", "a processor")
            found.append(run)
    return found


def of_seed(seed, rows_there, agent, score):
    """More runs of one agent alone, with another seed."""
    mine = [row for row in rows_there if row.agent == agent and not row.options]
    return [row._replace(seed=seed, score=score) for row in mine]


FIVE = (0.88, 0.9, 0.9, 0.91, 0.92)
WORSE = tuple(score - 0.2 for score in FIVE)
SAME = of_bsuite(FIVE, FIVE, FIVE)


@pytest.mark.parametrize(
    ("rows_there", "word", "words"),
    [
        (of_bsuite(FIVE, WORSE, FIVE), "reproduced", "hurts Mountain Car (change −0.200 (−0.200 to −0.200))"),
        (of_bsuite(FIVE, WORSE, WORSE), "partly reproduced", "does not: the bandit repairs that"),
        (SAME, "partly reproduced", "10 experiments are kept (change 0.000"),
        (of_bsuite(FIVE, FIVE, FIVE, elsewhere=(0.1,) + (0.7,) * 9), "not reproduced", "−0.600, is catch's"),
        (SAME + of_seed(1, SAME, "tdu", 0.1), "partly reproduced", "hurts Mountain Car (change 0.000"),
        (of_bsuite(FIVE, WORSE, FIVE, elsewhere=(0.25,) + (0.7,) * 9), "partly reproduced", "(change −0.045"),
        (of_bsuite(FIVE, (0.1, 1, 1, 1, 1), FIVE, elsewhere=(0.5,) * 10), "not reproduced", "change −0.082"),
        (of_bsuite(FIVE, (0.1, 1, 1, 1, 1), FIVE, elsewhere=(0.3, 0.9) * 5), "inconclusive", "open: a bonus hurts"),
        (of_bsuite(FIVE[:4], WORSE[:4], FIVE[:4]), "not yet enough data", "4 settings of Mountain Car"),
    ],
    ids=["hurt and repaired", "hurt for good", "not hurt", "not hurt, and all else is open",
         "a seed of one variant says nothing", "one experiment is lost", "one bad car shows no harm", "all is noise",
         "too few"],
)  # fmt: skip
def test_what_a_bonus_does_to_bsuite_is_judged_by_pairs_and_intervals(rows_there, word, words):
    verdict = bsuite.report(rows_there).verdicts["C7"]
    assert verdict.word == word
    assert words in verdict.because
    if rows_there is SAME:
        assert "bandit repairs" not in verdict.because, "there is nothing to repair"


def test_bsuite_s_page_is_drawn(tmp_path):
    every = {"bsuite": of_bsuite(FIVE, WORSE, FIVE)}
    pages.write("bsuite", "laptop", every, tmp_path)
    page = (tmp_path / pages.PAGE).read_text()
    assert "| mountain_car | 5 of 20 | 0.902 | 0.702 | 0.902 | 0.93 |" in page
    assert "| memory_len | 1 of 23 | 0.700 | 0.700 | 0.700 | – |" in page, "memory of one step compares with nothing"
    assert "| Mountain Car, bandit less β = 1 | 5 | 0.200 (0.200–0.200) |" in page
    assert {path.name for path in tmp_path.iterdir()} == {pages.PAGE, "bars.svg", "bars.png", "radar.svg", "radar.png"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deep_sea_grid", ["## Deterministic seas of sizes 10, 12", "| QU, β = 5 |", "| β = 0.01, λ = 0 |"]),
        ("bsuite", ["| experiment | β = 0.01 |", "| β = 5 | QU | Q+UCB |"]),
    ],
)
def test_what_the_longer_preset_runs_is_on_its_page(name, words):
    grid = catalogue.grids()[name]
    found = [
        Row(*rows.identity(c), 700, 10_000, 9, 0.5, 50, 1.0, "abc1234", "a processor") for c in grid.cells("paper")
    ]
    body = grid.report(found).body
    assert all(word in body for word in words)
    assert not any(word in grid.report([row for row in found if not row.options]).body for word in words)
