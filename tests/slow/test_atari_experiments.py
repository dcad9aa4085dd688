"""The three Atari experiments: their runs are the paper's, and their verdicts on synthetic rows follow the rules."""

import dataclasses

import numpy as np
import pytest

import tdu
from reproduction import atari_runs, catalogue, pages, rows
from reproduction.experiments import atari, atari_57, atari_ablations
from reproduction.experiments.atari_ablations import explorers_of
from reproduction.rows import RunRow
from tdu import agents, cli
from tdu.environments.atari import ABLATION, DENSE, EXPLORATION, GAMES
from tdu.report import atari_scores
from tdu.report.atari_scores import Scored
from tdu.run import folder as runs

NAMES = ("atari", "atari_ablations", "atari_57")
PLANS = {"atari": atari.PLANS, "atari_ablations": atari_ablations.PLANS, "atari_57": atari_57.PLANS}


def identities(name, preset):
    return {rows.identity(cell) for cell in catalogue.grids()[name].cells(preset)}


def scores(settings, games, value, *, seeds=3, noise=0.01):
    """A run for each setting, game and seed. Its score is `value(setting, game)` plus noise."""
    draws = np.random.default_rng(3)
    return [
        Scored(name, name, game, seed, 0.0, value(name, game) + noise * draws.normal())
        for name in settings
        for game in games
        for seed in range(seeds)
    ]


# Runs


def test_the_main_experiment_has_the_paper_s_runs():
    paper = atari.cells("paper")
    assert len(paper) == len(identities("atari", "paper")) == (7 + 5) * 4 * 8
    assert {cell.steps for cell in paper} == {5 * 10**9}
    assert {cell.seed for cell in paper} == set(range(8))
    assert {cell.num_envs for cell in paper} == {256}
    assert set(DENSE) == {"frostbite", "hero", "ms_pacman", "seaquest", "space_invaders"}
    laptop = atari.cells("laptop")
    assert {cell.env for cell in laptop} == {"atari/freeway", "atari/montezuma_revenge"}
    assert {cell.agent for cell in laptop} == {"r2d2", "b_r2d2", "tdu_r2d2", "tdu_r2d2_prior"}
    assert {cell.seed for cell in laptop} == {0, 1}
    assert len(laptop) == 2 * 4 * 2


def test_the_ablations_have_the_paper_s_runs():
    """Nine pairs of N and λ, two more values of β, and three settings of the explorers' policy, with ten heads each.

    The curves of β, for three values and two policies, have two more points: 10 % and 30 % of the frames.
    """
    cells = atari_ablations.cells("paper")
    assert len(identities("atari_ablations", "paper")) == (9 + 2 + 3) * 8 * 3 + 2 * 6 * 8 * 3
    steps = 5 * 10**9 // 4
    assert {cell.steps for cell in cells} == {steps // 10, 3 * steps // 10, steps}
    assert {cell.steps for cell in cells[: (9 + 2 + 3) * 8 * 3]} == {steps}, "what judges comes first"
    found = set()
    for cell in cells:
        config = agents.configure(cell.agent, dict(cell.options), cell.preset)
        assert config.exploiters + config.explorers == 10
        found.add((config.explorers, config.prior_scale, config.beta, config.evaluate))
    pairs = {(n, scale, 1.0, "exploiters") for n in (2, 3, 5) for scale in (0.0, 0.05, 0.1)}
    policies = {(5, 0.0, beta, who) for beta in (0.1, 1.0, 2.0) for who in ("exploiters", "explorers")}
    assert found == pairs | policies


def test_the_57_games_share_runs_with_the_main_experiment():
    assert len(identities("atari_57", "paper")) == 6 * len(GAMES) * 3
    assert len(identities("atari_57", "paper") & identities("atari", "paper")) == 4 * 12 * 3
    lower = [cell for cell in atari_57.cells("paper") if cell.options]
    assert {cell.options_text for cell in lower} == {"beta=0.1"}
    assert {cell.agent for cell in lower} == {"tdu_r2d2", "tdu_r2d2_prior"}


@pytest.mark.parametrize("name", NAMES)
def test_every_run_can_be_started_alone(name):
    pytest.importorskip("ale_py")
    for preset in ("laptop", "paper"):
        kinds = {(cell.agent, cell.options): cell for cell in catalogue.grids()[name].cells(preset)}
        for cell in kinds.values():
            assert cell.config().steps == cell.steps


def test_runs_evaluated_on_explorers_are_the_same_training():
    both = [
        tdu.train("deep_sea:size=8", agent="tdu_r2d2", episodes=200, min_replay=5, evaluate=who, progress=None)
        for who in ("exploiters", "explorers")
    ]
    for column in ("episode_return", "head", "bonus", "loss"):
        assert both[0].log[column].tolist() == both[1].log[column].tolist()
    assert both[0].log["bonus"][-1] > 0, "it has learned"


# Scores and pages


def test_the_score_of_a_run_is_its_trained_policy_s(tmp_path):
    ended = runs.RunResult(
        env="atari/pong", agent="r2d2", config={}, seed=0, episodes=3, steps=100, seconds=1.0, steps_per_second=100.0,
        mean_return=-20.7, mean_return_episodes=3, has_solved_rule=False, solved_episode=None,
        greedy_return=runs.records.GreedyReturn(14.6, 0.0, 2), largest_q=None, possible_return=None,
        config_sha256=None, log_sha256=None, checkpoint_sha256=None,
    )  # fmt: skip
    assert atari_runs.measure(tmp_path, ended).score == pytest.approx(1)
    assert atari_runs.measure(tmp_path, dataclasses.replace(ended, greedy_return=None)).score == 0
    assert atari_runs.measure(tmp_path, dataclasses.replace(ended, env="cartpole/0")).score is None


def row_of(cell, hns):
    env, agent, preset, options, seed, limit = rows.identity(cell)
    return RunRow(env, agent, preset, options, seed, limit, None, 10, cell.steps, hns, None, 60.0, "abc1234", "some")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_every_row_of_its_plans(name, tmp_path):
    made = [row_of(cell, 0.5 + 0.01 * i) for i, cell in enumerate(catalogue.grids()[name].cells("laptop"))]
    verdicts = pages.write(name, "laptop", {name: made}, tmp_path)
    text = (tmp_path / pages.PAGE).read_text()
    for setting in PLANS[name]["laptop"].settings:
        for game in PLANS[name]["laptop"].games:
            assert f"| {game} | {setting} |" in text
    assert (tmp_path / "laptop.svg").stat().st_size > 1000
    assert (tmp_path / "laptop_beta.svg").exists() == (name == "atari_ablations")
    words = {verdict.word for verdict in verdicts.values()}
    assert words <= {"not yet enough data", "answered"}, "the paper's claims need the paper's runs"
    assert ("answered" in words) == (name == "atari")


def test_a_row_counts_under_the_name_of_its_setting():
    """The row of β = 1 also counts as N = 5, λ = 0. Scores are converted back to the game's unit."""
    plan = atari_ablations.PLANS["laptop"]
    cell = next(cell for name, _, cell in plan.runs() if name == "β = 1")
    found = plan.scored([row_of(cell, 0.25)])
    assert {run.agent for run in found} == {"β = 1", "N = 5, λ = 0"}
    assert atari_scores.human_normalised(found[0].game, found[0].score) == pytest.approx(0.25)
    assert plan.scored([row_of(cell, None)]) == []
    assert plan.scored([row_of(cell._replace(steps=7), 0.25)]) == [], "a run of another length"


def test_curves_have_a_point_for_every_length():
    cells = atari_ablations.cells("laptop")
    made = [row_of(cell, cell.steps / 10**6) for cell in cells if cell.env == "atari/gravitar"]
    drawn = atari_ablations.report(made).figures["laptop_beta"]()
    hard, dense = drawn.axes
    assert len(hard.lines) == 3 * 2
    for line in hard.lines:
        assert line.get_xdata() == pytest.approx([40_000, 120_000, 400_000])
        assert line.get_ydata() == pytest.approx([0.01, 0.03, 0.1])
    assert [line.get_linestyle() for line in hard.lines] == ["-"] * 3 + [":"] * 3
    assert all(len(line.get_xdata()) == 0 for line in dense.lines), "no run on such a game"


# Verdicts


@pytest.mark.parametrize(
    ("gain", "noise", "word"),
    [(0.4, 0.01, "reproduced"), (0.1, 0.01, "partly reproduced"), (0.0, 0.01, "inconclusive"),
     (-0.4, 0.01, "not reproduced"), (0.4, 50.0, "inconclusive")],
)  # fmt: skip
def test_c9_follows_its_rule(gain, noise, word):
    def value(agent, game):
        return (1 + EXPLORATION.index(game)) * (1 + gain * agent.startswith("tdu"))

    found = scores(atari.AGENTS, EXPLORATION, value, noise=noise)
    assert atari.verdict(found).word == word
    few = atari.verdict([r for r in found if (r.agent, r.game, r.seed) != ("b_r2d2", "tennis", 2)])
    assert few.word == "not yet enough data"
    assert few.because.endswith("on tennis")


@pytest.mark.parametrize(("gain", "word"), [(0.0, "reproduced"), (-0.05, "reproduced"), (-0.3, "not reproduced")])
def test_dense_games_may_lose_a_tenth(gain, word):
    found = scores(atari.AGENTS, DENSE, lambda agent, game: 1 + gain * agent.startswith("tdu"))
    assert atari.dense(found).word == word
    noisy = scores(atari.AGENTS, DENSE, lambda agent, game: 1.0, noise=5)
    assert atari.dense(noisy).word == "inconclusive"


def test_small_runs_are_compared_where_one_game_is_never_scored_on():
    """All runs on Montezuma's Revenge may score zero."""
    games = atari.PLANS["laptop"].games

    def value(agent, game):
        return 0.7 + 0.2 * agent.startswith("tdu") if game == "freeway" else 0.0

    found = [r._replace(hns=r.hns * (r.game == "freeway")) for r in scores(atari.AGENTS, games, value, seeds=2)]
    assert "TDU scores more" in atari.small(found).because
    nothing = [r._replace(hns=0.0) for r in found]
    assert "no difference" in atari.small(nothing).because
    assert atari.small(found[1:]).word == "not yet enough data"


@pytest.mark.parametrize(
    ("hard", "dense", "word"),
    [(0.2, -0.2, "reproduced"), (0.2, 0.2, "partly reproduced"), (-0.2, 0.2, "not reproduced"), (0, 0, "inconclusive")],
)
def test_beta_s_verdict_has_two_statements(hard, dense, word):
    def value(setting, game):
        return 1 + (hard if game in EXPLORATION else dense) * (setting == "β = 2")

    assert atari_ablations.beta(scores(("β = 0.1", "β = 2"), ABLATION, value)).word == word


def test_heads_verdict_controls_for_the_other_factor():
    names = [name for name in atari_ablations.SETTINGS if name.startswith("N")]
    flat = scores(names, ABLATION, lambda setting, game: float(ABLATION.index(game)))
    assert atari_ablations.heads(flat).word == "reproduced"
    more = scores(names, ABLATION, lambda setting, game: 1.0 * setting.startswith("N = 5"))
    found = atari_ablations.heads(more)
    assert found.word == "partly reproduced"
    assert found.because.startswith("holds: λ")


@pytest.mark.parametrize(("lost", "word"), [(0.5, "reproduced"), (-0.5, "not reproduced"), (0, "inconclusive")])
def test_explorers_verdict(lost, word):
    names = ("β = 2", explorers_of("β = 2"))
    found = scores(names, DENSE, lambda setting, game: 1 - lost * setting.endswith("policy"))
    assert atari_ablations.explorers(found).word == word


@pytest.mark.parametrize(("gain", "word"), [(0.5, "reproduced"), (-0.5, "not reproduced"), (0, "inconclusive")])
def test_lower_beta_s_verdict(gain, word):
    settings = (*atari.OURS, *atari_57.LOWER)
    found = scores(settings, GAMES, lambda setting, game: 1 + gain * setting.endswith("-L"))
    assert atari_57.lower_beta(found).word == word
    assert atari_57.exploration(found).word == ("not reproduced" if gain < 0 else "reproduced")
    assert atari_57.lower_beta(found[:-1]).word == "not yet enough data"


def test_the_difference_is_the_mean_over_games():
    first = scores(["a"], ("pong", "hero"), lambda _, game: 3.0 if game == "pong" else 1.0, noise=0)
    second = scores(["b"], ("pong", "hero"), lambda _, game: 0.5, noise=0)
    assert atari_runs.difference(first, second) == pytest.approx((1.5, 1.5, 1.5))


# Bad input


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["atari_58"], "atari_57"),
        (["atari", "--preset", "desk"], "laptop"),
        (["atari_57", "--agent", "bdqn"], "tdu_r2d2"),
        (["atari_ablations", "--env", "atari/pong"], "atari/gravitar"),
    ],
)
def test_bad_input_is_one_sentence(arguments, word, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert word in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
