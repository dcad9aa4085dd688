"""The verdict rules on synthetic rows that support a claim, contradict it or leave it open."""

import itertools

import numpy as np
import pytest

from reproduction import catalogue, deep_sea_runs, pages, rows
from reproduction.experiment import Verdict, cell
from reproduction.experiments import (
    battery,
    binary_tree,
    bsuite,
    bsuite_best,
    deep_ablation,
    deep_sea,
    deep_sea_grid,
    deep_sea_verdicts,
    forgetting,
    luck,
    scaling,
)
from reproduction.rows import RunRow
from tdu.environments.bsuite_twins import experiments
from tdu.report import bsuite_scores

ROW = RunRow("deep_sea:size=10", "tdu", "paper", "", 0, 10_000, 49, 49, 490, 1.0, 3, 0.5, "abc1234", "a processor")


def made_up(agent, size, seed, solved, *, stochastic):
    env = deep_sea_runs.deep_sea_id(size, stochastic=stochastic)
    episodes = solved or 10_000
    return ROW._replace(
        env=env, agent=agent, seed=seed, solved_episode=solved, episodes=episodes, score=float(solved is not None)
    )


def deep_sea_rows(tdu=50, bdqn=90, bdqn_solves=lambda size: size < 40, preset="listing"):
    """Every run of C1 and C2 with a preset; `tdu` and `bdqn` are episodes divided by the size."""
    found = []
    for size, seed in itertools.product(deep_sea_runs.SIZES, range(3 if preset == "listing" else 2)):
        found += [made_up(a, size, seed, 20 * size, stochastic=False) for a in ("tdu", "bdqn")]
        on_stochastic = [
            made_up("tdu", size, seed, tdu * size, stochastic=True),
            made_up("bdqn", size, seed, bdqn * size if bdqn_solves(size) else None, stochastic=True),
        ]
        prior_scale_one = made_up("tdu", size, seed, 30 * size, stochastic=False)._replace(options="prior_scale=1.0")
        found += [row._replace(preset=preset) for row in on_stochastic]
        found += [prior_scale_one, prior_scale_one._replace(preset="listing")]
    return found


def test_c1_needs_every_run_solved_with_listing_at_prior_scale_one():
    rows_there = deep_sea_rows()
    assert deep_sea.report(rows_there).verdicts["C1"].word == "reproduced"
    at_50 = ("deep_sea:size=50", "tdu", "listing", "prior_scale=1.0", 2)
    lost = [
        row._replace(solved_episode=None, episodes=10_000) if row.identity[:5] == at_50 else row for row in rows_there
    ]
    partly = deep_sea.report(lost).verdicts["C1"]
    assert partly.word == "partly reproduced"
    assert "with `listing` it solves 11 of 12" in partly.because
    assert "with `paper` (reproduced)" in partly.because
    lacking = deep_sea.report([row for row in rows_there if row.identity[:5] != at_50]).verdicts["C1"]
    assert lacking.word == "not yet enough data"
    assert "11 of 11 on sizes 44 to 50 so far, of 12" in lacking.because


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, "reproduced"),
        ({"bdqn": 60, "bdqn_solves": lambda size: True}, "partly reproduced"),
        ({"tdu": 100, "bdqn_solves": lambda size: False}, "reproduced"),
        ({"bdqn": 50, "bdqn_solves": lambda size: True}, "not reproduced"),
        ({"bdqn": 40, "bdqn_solves": lambda size: True}, "not reproduced"),
    ],
    ids=["as claimed", "only faster", "BDQN never", "the same", "slower"],
)
def test_c2_is_judged_by_official_scores_and_pairs(changed, word):
    assert deep_sea.report(deep_sea_rows(**changed)).verdicts["C2"].word == word
    with_paper = deep_sea.report(deep_sea_rows(preset="paper", **changed))
    assert with_paper.verdicts["C2"].word == "not yet enough data"
    assert with_paper.verdicts["C2"].because.endswith(f": {word}"), "the verdict of paper is beside it"
    assert "runs are missing" in with_paper.body


@pytest.mark.parametrize(
    ("paper", "answer"),
    [
        ({"bdqn": 50, "bdqn_solves": lambda size: True}, "Yes"),
        ({}, "No"),
    ],
    ids=["only listing reproduces C2", "both do"],
)
def test_whether_the_batch_size_explains_the_figure(paper, answer):
    rows_there = [*deep_sea_rows(), *deep_sea_rows(preset="paper", **paper)]
    assert deep_sea_verdicts.batch_words(rows_there).startswith(answer)


def test_the_answer_about_the_batch_size_can_be_partly_or_still_open():
    listing, paper = deep_sea_rows(bdqn_solves=lambda size: True), deep_sea_rows(preset="paper")
    worse = [
        row._replace(solved_episode=None, episodes=10_000)
        if (row.agent, row.preset) == ("tdu", "paper")
        and deep_sea_runs.is_stochastic(row.env)
        and deep_sea_runs.size_of(row.env) > 36
        else row
        for row in paper
    ]
    assert deep_sea_verdicts.batch_words([*listing, *worse]).startswith("Partly")
    few = [row for row in listing if row.seed == 0 and deep_sea_runs.size_of(row.env) < 30]
    so_far = deep_sea_verdicts.batch_words([*few, *worse])
    assert so_far.startswith("Runs so far: 20 of 126")
    assert "have 10 pairs" in so_far
    assert "TDU solves 10 with `listing` and 10 with `paper`" in so_far
    assert deep_sea_verdicts.batch_words([]).startswith("Runs so far: 0 of 126")


def test_the_official_score_counts_a_run_at_the_next_logged_episode():
    at = [made_up("tdu", 10, 0, episode, stochastic=False) for episode in (1000, 1001, 1123, None)]
    assert [deep_sea_runs.counts_officially(row) for row in at] == [True, False, False, False]
    found = deep_sea_runs.score({10: [at[1]]}, [10])
    assert (found.all.estimate, found.official.estimate) == (1.0, 0.0)


def test_runs_that_luck_has_solved_are_marked_and_the_verdict_without_them_is_given():
    def row(agent, size, solved, chests):
        return made_up(agent, size, 0, solved, stochastic=True)._replace(successes=chests)

    lucky, sober, old = row("tdu", 10, 100, 9), row("tdu", 12, 100, 10), row("bdqn", 12, 100, None)
    assert [deep_sea_runs.luck(r) for r in (lucky, sober, old, row("tdu", 14, None, 0))] == ["°", "", "?", ""]
    assert deep_sea_runs.luck(made_up("tdu", 10, 0, 5, stochastic=False)) == "", (
        "deterministic Deep Sea has no lucky solves"
    )
    taken = deep_sea_runs.without_luck([lucky, sober, old])
    assert taken == [lucky._replace(solved_episode=None, score=0.0), sober, old]
    early, late = old, row("bdqn", 14, deep_sea_runs.EARLY, None)
    taken = deep_sea_runs.without_luck([sober, early, late], early_unknown=True)
    assert taken == [sober, early._replace(solved_episode=None, score=0.0), late], (
        "what may be luck and came early, too"
    )
    every = [lucky, sober, early, late]
    body = deep_sea_runs.luck_words(
        every, every, lambda rows: {"C": Verdict("inconclusive", f"{sum(r.score for r in rows):g}")}
    )
    assert "Of 4 solved runs" in body
    assert "- C, inconclusive: 3." in body
    assert "- C, inconclusive: 2." in body


def test_the_grid_s_verdicts_leave_open_what_the_runs_leave_open():
    def verdicts(no_prior, prior, sizes=deep_sea_grid.FEW_SIZES, **others):
        """Takes episodes without priors by β, with priors, and of QU and Q+UCB. Without priors, size 40 is unsolved."""
        found = []
        for size, seed in itertools.product(sizes, deep_sea_grid.PAIRED_SEEDS):
            env = deep_sea_runs.deep_sea_id(size, stochastic=True)
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
    assert "without priors and 0.00 at λ = 3" in verdicts(flat, None)["C4"].because
    assert verdicts(flat, None)["C4"].word == "not reproduced"
    more = verdicts(falls, 500, (20, 22, 30, 40))["C4"]
    assert "solve 0.00, 0.75, 0.75, 0.75" in more.because, "size 22 counts where every setting has it"
    assert verdicts(falls, 500, (20, 30))["C4"].word == "not yet enough data"


def test_the_preset_deep_is_judged_by_mastery():
    def rows_with(mastered, solved=lambda n: n * n, cells=None):
        """Rows of all runs or of `cells`; `mastered` and `solved` map a size to an episode, or None for never."""
        found = []
        for c in cells or scaling.cells("laptop"):
            n = deep_sea_runs.size_of(c.env)
            deep = c.preset == "deep"
            m, s = (mastered(n) if deep else None), solved(n)
            ends = max(m, s) if m and s else c.episodes if deep else s
            row = ROW._replace(env=c.env, agent=c.agent, preset=c.preset, seed=c.seed, limit=c.episodes)
            found.append(row._replace(solved_episode=s, mastered_episode=m, episodes=ends or c.episodes))
        return found

    good = scaling.report(rows_with(lambda n: 27 * n))
    assert [v.word for v in good.verdicts.values()] == ["reached", "reached", "reached", "answered"]
    assert "126 of 126 runs are mastered" in good.verdicts["suite"].because
    assert "TDU deep, deterministic: 1.00 (1.00–1.00) up to size 120" in good.verdicts["exponent"].because
    assert "TDU paper, deterministic: 2.00 (2.00–2.00) up to size 100" in good.verdicts["exponent"].because
    assert "| 100 | 2,700, 2,700, 2,700 | 2,700 | 0 s | 2,889 |" in good.body
    slow = scaling.report(rows_with(lambda n: 30 * n)).verdicts
    assert [v.word for v in slow.values()] == ["reached", "reached", "not reached", "answered"]
    ends = scaling.report(rows_with(lambda n: 27 * n if n < 100 else None)).verdicts
    assert [v.word for v in ends.values()] == ["reached", "not reached", "not reached", "answered"]
    assert "0 of 3 at stochastic 100" in ends["large"].because
    late = scaling.report(rows_with(lambda n: 27 * n, solved=lambda n: n * n if n != 30 else None)).verdicts
    assert late["suite"].word == "not reached", "bsuite's rule has to hold as well"
    some = scaling.report(rows_with(lambda n: 27 * n, cells=scaling.cells("laptop")[:5])).verdicts
    assert [v.word for v in some.values()][:3] == ["not yet enough data"] * 3
    assert {v.word for v in scaling.report([]).verdicts.values()} == {"not yet enough data"}


def test_the_ablation_of_deep_gives_the_price_of_each_part():
    def rows_with(cells, batch=None):
        found = []
        for c in cells:
            at = batch if "batch_size=32" in c.options_text else 20 * deep_sea_runs.size_of(c.env) + c.seed
            row = ROW._replace(env=c.env, preset="deep", options=c.options_text, seed=c.seed, limit=c.episodes)
            found.append(row._replace(mastered_episode=at, solved_episode=at, episodes=at or c.episodes))
        return found

    cells = deep_ablation.cells("laptop")
    assert len({rows.identity(c) for c in cells}) == 3 * 2 * len(deep_ablation.PARTS), (
        "every part is one of the preset's"
    )
    found = deep_ablation.report(rows_with(cells))
    assert found.verdicts["parts"].word == "answered"
    assert "batch 32: 12.48 and 8.33 times" in found.verdicts["parts"].because
    assert "6 of 6 not mastered" in found.verdicts["parts"].because
    assert "| batch 32 | >10,000, >10,000, >10,000 |" in found.body
    assert "no bonus (β = 0): 1.00 and 1.00" in found.verdicts["parts"].because
    assert deep_ablation.report(rows_with(cells[1:])).verdicts["parts"].word == "not yet enough data"


def test_the_whole_suite_is_a_mean_over_experiments_and_needs_every_setting():
    """Every experiment has the same weight, whatever its number of settings."""
    cells = bsuite_best.cells("paper")

    def row(c, score):
        return RunRow(*rows.identity(c), None, 1000, 2000, score, None, 1.0, "abc1234", "a processor")

    def rows_with(low):
        return [row(c, low if c.env.startswith("memory_size") else 0.66) for c in cells]

    assert len(cells) == 468
    assert bsuite_best.report(rows_with(0.6)).verdicts["whole suite"].word == "reached"
    found = bsuite_best.report(rows_with(0.5))
    assert found.verdicts["whole suite"].word == "not reached"
    assert f"**{(22 * 0.66 + 0.5) / 23:.3f}**" in found.body
    partly = bsuite_best.report(rows_with(1.0)[1:])
    assert partly.verdicts["whole suite"].word == "not yet enough data"
    assert "preliminary" in partly.body
    assert "preliminary" not in found.body
    assert {c.env.partition("/")[0] for c in cells[:23]} == set(bsuite.SETTINGS)


def test_the_score_of_an_experiment_is_bsuite_s():
    """The scores of single settings combine to the score of all logs. The logs are synthetic, with noise and scale."""
    rng = np.random.default_rng(0)
    episodes = np.array(sorted(bsuite_scores.logged_episodes(10_000)))
    for experiment in ("bandit_noise", "catch_scale", "catch"):
        logs = {}
        for bsuite_id in experiments.ids(experiment):
            regret = rng.random() * episodes * 0.5
            logs[bsuite_id] = {"steps": episodes, "episode": episodes, "total_regret": regret}
            logs[bsuite_id] |= dict.fromkeys(("total_return", "episode_len", "episode_return"), np.ones(len(episodes)))
        (whole,) = bsuite_scores.score_logs(logs)
        single = {i: bsuite_scores.score_logs({i: log})[0].score for i, log in logs.items()}
        assert bsuite_best.official_score(experiment, single) == pytest.approx(whole.score, abs=1e-9)


def test_the_battery_counts_agents_and_shows_returns():
    def row(c):
        at = None if (c.agent, c.env) == ("dqn", "deep_sea:size=10") else 50
        row = ROW._replace(env=c.env, agent=c.agent, options=c.options_text, seed=c.seed, limit=c.episodes)
        return row._replace(solved_episode=at, episodes=at or c.episodes, score=0.75 if c.agent == "su" else 1.0)

    cells = battery.cells("laptop")
    found = battery.report([row(c) for c in cells])
    agents = len(battery.AGENTS_SHOWN)
    assert f"Deep Sea 4 by {agents} and Deep Sea 10 by {agents - 1} of {agents}" in found.verdicts["battery"].because
    assert f"with {agents - 1} agents" in found.verdicts["battery"].because, "SU's return is 0.5"
    assert "| su | 50, 50, 50 | 50, 50, 50 | 0.50 (0.50, 0.50, 0.50) |" in found.body
    assert battery.report([row(c) for c in cells[1:]]).verdicts["battery"].word == "not yet enough data"


def test_lucky_solves_are_marked():
    def row(c, solved, known, score=1.0):
        row = ROW._replace(env=c.env, agent=c.agent, preset=c.preset, options="until=budget", seed=c.seed, limit=2000)
        return row._replace(solved_episode=solved, episodes=2000, score=score, full_depth_episode=known)

    cells = luck.cells("laptop")
    assert len({rows.identity(c) for c in cells}) == 84
    assert rows.identity(cells[0])[3] == "until=budget"
    assert not luck.is_lucky(row(cells[0], 104, 105)), "it may have known the way since the check before"
    assert luck.is_lucky(row(cells[0], 100, 105))
    assert luck.is_lucky(row(cells[0], 100, None))
    assert not luck.is_lucky(row(cells[0], None, None))
    early = [row(c, 100, 400, 0.0) if c.agent == "bdqn" else row(c, 300, 200) for c in cells]
    found = luck.report(early)
    assert "of 84 solved runs 42 are lucky" in found.verdicts["luck"].because
    assert "held in 42 of 84" in found.verdicts["luck"].because
    assert "| 10 | 0 of 3 | 0 of 3 | 3 of 3 | 3 of 3 |" in found.body
    assert luck.report(early[1:]).verdicts["luck"].word == "not yet enough data"


def test_stuck_runs_and_what_helps_are_reported():
    def rows_with(**episodes):
        """Takes episodes by changed option, and by agent if nothing was changed."""
        found = []
        for c in forgetting.cells("laptop"):
            (changed,) = dict(c.options) or (c.agent,)
            at = episodes.get(changed, 3000)
            at = at and at + 10 * c.seed
            row = ROW._replace(env=c.env, agent=c.agent, options=c.options_text, seed=c.seed, limit=c.episodes)
            found.append(row._replace(solved_episode=at, episodes=at or 10_000))
        return found

    found = forgetting.report(rows_with(bdqn=None, batch_size=900, replay_capacity=None))
    assert found.verdicts["tail"].word == "answered"
    assert "; batch 128 (z = +" in found.verdicts["tail"].because
    assert found.verdicts["tail"].because.endswith("solves sooner")
    assert "λ = 5" not in found.verdicts["tail"].because
    assert "it needs 3." in found.body, "the larger replay is compared in pairs"
    alike = forgetting.report(rows_with()).verdicts["tail"].because
    assert alike.endswith("none of the four changes solves sooner")
    stuck = [
        row._replace(solved_episode=None, episodes=10_000)
        if (row.agent, row.options) == ("tdu", "") and row.seed < 2
        else row
        for row in rows_with()
    ]
    assert (
        "at size 30, 10 of 12 runs are solved by episode 3,110 and 2 are stuck"
        in forgetting.report(stuck).verdicts["tail"].because
    )
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
    """Rows of Mountain Car's settings and of the other experiments, on which only the bonus has an effect."""
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
            run = RunRow(
                env, agent, "paper", options, 0, None, None, 1000, 9, score, None, 1.0, "abc1234", "a processor"
            )
            found.append(run)
    return found


def of_seed(seed, rows_there, agent, score):
    """More runs of one agent, with another seed."""
    same = [row for row in rows_there if row.agent == agent and not row.options]
    return [row._replace(seed=seed, score=score) for row in same]


FIVE = (0.88, 0.9, 0.9, 0.91, 0.92)
WORSE = tuple(score - 0.2 for score in FIVE)
SAME = of_bsuite(FIVE, FIVE, FIVE)


@pytest.mark.parametrize(
    ("rows_there", "word", "words"),
    [
        (of_bsuite(FIVE, WORSE, FIVE), "reproduced", "hurts Mountain Car (change −0.200 (−0.200 to −0.200))"),
        (of_bsuite(FIVE, WORSE, WORSE), "partly reproduced", "the bandit does not repair that"),
        (SAME, "partly reproduced", "10 other experiments keep their score (change 0.000"),
        (of_bsuite(FIVE, FIVE, FIVE, elsewhere=(0.1,) + (0.7,) * 9), "not reproduced", "may lose score (change −0.060"),
        (SAME + of_seed(1, SAME, "tdu", 0.1), "partly reproduced", "does not hurt Mountain Car (change 0.000"),
        (of_bsuite(FIVE, FIVE, FIVE, elsewhere=(0.6, 0.62) + (0.7,) * 8), "not reproduced",
         "2 other experiments that are not identical may lose score (change −0.090"),
        (of_bsuite(FIVE, WORSE, FIVE, elsewhere=(0.25,) + (0.7,) * 9), "partly reproduced", "(change −0.045"),
        (of_bsuite(FIVE, (0.1, 1, 1, 1, 1), FIVE, elsewhere=(0.5,) * 10), "not reproduced", "change −0.082"),
        (of_bsuite(FIVE, (0.1, 1, 1, 1, 1), FIVE, elsewhere=(0.3, 0.9) * 5), "inconclusive", "a bonus may hurt"),
        (of_bsuite(FIVE[:4], WORSE[:4], FIVE[:4]), "not yet enough data", "4 settings of Mountain Car"),
    ],
    ids=["hurt and repaired", "hurt for good", "not hurt", "not hurt, and all else is open",
         "a seed of one variant says nothing", "identical experiments do not count",
         "one experiment is lost", "one bad car shows no harm", "all is noise",
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
        ("deep_sea_grid", ["Deterministic Deep Sea 10, 12", "| QU, β = 5 |", "| β = 0.01, λ = 0 |"]),
        ("bsuite", ["| experiment | β = 0.01 |", "| β = 5 | QU | Q+UCB |"]),
    ],
)
def test_what_the_longer_preset_runs_is_on_its_page(name, words):
    grid = catalogue.grids()[name]
    found = [
        RunRow(*rows.identity(c), 700, 10_000, 9, 0.5, 50, 1.0, "abc1234", "a processor") for c in grid.cells("paper")
    ]
    made = grid.report(found)
    assert all(word in made.body + made.details for word in words)
    assert not any(word in grid.report([row for row in found if not row.options]).body for word in words)
