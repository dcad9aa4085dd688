"""Human-normalised scores, their aggregates and the analysis of variance, against values computed by hand or by scipy."""

import json

import numpy as np
import pytest
import scipy.stats

from tdu import cli
from tdu.environments import atari
from tdu.errors import UserError
from tdu.report import atari_scores, summary, variance
from tdu.report.atari_scores import Scored
from tdu.run.folder import RunConfig, RunResult


def test_human_normalised_scores_are_the_paper_s_formula():
    assert set(atari_scores.references()) == set(atari.GAMES)
    assert atari_scores.human_normalised("pong", -20.7) == 0
    assert atari_scores.human_normalised("pong", 14.6) == pytest.approx(1)
    assert atari_scores.human_normalised("private_eye", 40544) == pytest.approx((40544 - 24.9) / (69571.3 - 24.9))
    assert atari_scores.published()["TDU-R2D2"]["montezuma_revenge"] == 5233
    assert "venture" not in atari_scores.published()["DQN-CTS"]
    assert atari_scores.game_of("atari/pong:size=42") == "pong"
    assert atari_scores.game_of("deep_sea/5") is None


def test_anova_by_hand():
    """Two agents on two games, two seeds each.

    The grand mean is 5. The agents' means are 4 and 6, the games' 3 and 7. Sums of squares: agents 8·1 = 8, games 8·4 = 32,
    within cells 4·0.5 = 2, interaction 0, total 42. The model with both factors leaves a residual of 2 with 8 − 3 = 5
    degrees of freedom, so F = 8/(2/5) = 20.
    """
    values = [1.5, 2.5, 5.5, 6.5, 3.5, 4.5, 7.5, 8.5]
    agents, games = ["a"] * 4 + ["b"] * 4, ["x", "x", "y", "y"] * 2
    found = variance.anova(values, agents, games)
    assert found.f == pytest.approx(20)
    assert (found.factor_freedom, found.residual_freedom) == (1, 5)
    assert found.p == pytest.approx(scipy.stats.f.sf(20, 1, 5))
    together = variance.interaction(values, agents, games)
    assert together.f == pytest.approx(0, abs=1e-9)
    assert (together.factor_freedom, together.residual_freedom) == (1, 4)


def test_anova_with_one_game_is_the_one_way_one():
    draws = np.random.default_rng(0)
    groups = [draws.normal(mean, size=size) for mean, size in ((0, 5), (1, 7), (0.3, 4))]
    values = np.concatenate(groups)
    agents = [i for i, group in enumerate(groups) for _ in group]
    theirs = scipy.stats.f_oneway(*groups)
    ours = variance.anova(values, agents, ["x"] * len(values))
    assert (ours.f, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    two = variance.anova(values[:12], agents[:12], ["x"] * 12)
    assert two.f == pytest.approx(scipy.stats.ttest_ind(*groups[:2]).statistic ** 2)


def test_anova_has_the_p_values_that_it_promises():
    """If the agents do not differ, p is uniform: about one in ten is below 0.1."""
    draws = np.random.default_rng(1)
    agents, games = np.repeat([0, 1], 12).tolist(), np.tile([0, 1, 2], 8).tolist()
    found = [variance.anova(draws.normal(size=24) + 5 * np.asarray(games), agents, games).p for _ in range(400)]
    assert scipy.stats.kstest(found, "uniform").pvalue > 0.01


def test_anova_without_enough_data_is_nan():
    assert variance.anova([1, 2, 3], ["a"] * 3, ["x", "y", "x"]) is None, "one agent"
    assert variance.anova([1, 2], ["a", "b"], ["x", "x"]) is None, "nothing left over"
    assert variance.anova([2.0] * 4, ["a", "a", "b", "b"], ["x"] * 4) is None, "no spread"


def test_the_paper_s_f_has_the_paper_s_p():
    """Section 5.2: F = 8.17, p = 0.0045. Four agents, seven games and eight seeds leave 216 degrees of freedom."""
    assert scipy.stats.f.sf(8.17, 1, 4 * 7 * 8 - 8) == pytest.approx(0.0045, abs=0.0003)


def test_intervals_have_their_stated_coverage():
    draws = np.random.default_rng(2)
    held = 0
    for i in range(100):
        low, high = variance.interval_of_groups(
            [draws.normal(game, size=20) for game in range(3)], np.mean, resamples=200, seed=i
        )
        held += low <= 1 <= high
    assert 84 <= held <= 100
    assert variance.interval_of_groups([np.array([2.0])], np.mean) == (2, 2)


def test_aggregates_are_over_games_of_means_over_seeds():
    def row(game, seed, hns):
        return Scored("tdu", "tdu", game, seed, 0.0, hns)

    rows = [row("pong", 0, 1.0), row("pong", 1, 3.0), row("venture", 0, 0.0), row("hero", 0, 10.0)]
    found = atari_scores.aggregate(rows)
    assert (found["mean"], found["median"], found["games"], found["runs"]) == (4, 2, 3, 4)
    low, high = found["mean_interval"]
    assert (low, high) == pytest.approx((11 / 3, 13 / 3)), "only Pong's two seeds can be drawn anew"
    assert atari_scores.aggregate(rows[2:])["mean_interval"] is None


def test_a_curve_is_the_mean_of_the_episodes_since_the_point_before():
    points = atari_scores.POINTS
    log = {"steps": np.array([10, 15, 30]), "episode_return": np.array([1.0, 3.0, 8.0])}
    (seed,) = atari_scores.curve([log], 10 * points)
    assert seed[:4] == [1.0, 3.0, 8.0, None]
    assert atari_scores.frames(10 * points)[:2].tolist() == [40, 80]
    whole = atari_scores.aggregate_curve({"pong": [seed], "venture": [seed]})
    assert whole["point"] == [0, 1, 2]
    expected = (atari_scores.human_normalised("pong", 3.0) + 3.0 / 1187.5) / 2
    assert whole["mean"][1] == pytest.approx(expected)


def atari_run(folder, game, agent, seed, final):
    """Writes a run of 20 episodes, the last ten of which return `final`."""
    episode = np.arange(1, 21)
    columns = {"episode": episode, "steps": 100 * episode, "episode_len": 0 * episode + 100}
    columns["episode_return"] = np.where(episode > 10, final, 0.0)
    columns["total_return"] = np.cumsum(columns["episode_return"])
    out = folder / f"{game}-{agent}-{seed}"
    out.mkdir(parents=True)
    config = RunConfig(f"atari/{game}:size=42", agent, seed, 20, None, 1, "solved", {})
    result = RunResult(
        env=config.env, agent=agent, config={}, seed=seed, episodes=20, steps=2000, seconds=1.0, steps_per_second=1.0,
        mean_return=final, mean_return_episodes=20, has_solved_rule=False, solved_episode=None, optimal_depth=None,
        greedy_depth=None, mastered_episode=None, greedy_return=None, largest_q=None, possible_return=None,
        config_sha256=config.sha256(), log_sha256=None, checkpoint_sha256=None,
    )  # fmt: skip
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    for name, record in (("config.json", config), ("result.json", result)):
        (out / name).write_text(json.dumps(record.to_file()))
    (out / "log.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    scores = {("tdu", "pong"): (10, 14), ("tdu", "venture"): (900, 1000), ("bdqn", "pong"): (-10, -6),
              ("bdqn", "venture"): (0, 100)}  # fmt: skip
    for (agent, game), finals in scores.items():
        for seed, final in enumerate(finals):
            atari_run(tmp_path / "runs", game, agent, seed, float(final))
    return tmp_path / "runs"


def test_a_folder_of_games_is_scored_printed_and_drawn(folder, tmp_path, capsys):
    assert cli.main(["score", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["atari"]
    assert not found["evaluated"]
    hns = [[((10 + 20.7) / 35.3), (14 + 20.7) / 35.3], [900 / 1187.5, 1000 / 1187.5]]
    assert found["agents"]["tdu"]["all"]["mean"] == pytest.approx(np.mean(hns))
    assert found["agents"]["tdu"][atari_scores.HARD]["games"] == 1
    test = found["anova"]["all"]["TDU against other agents, controlling for game"]
    assert (test["factor_freedom"], test["residual_freedom"]) == (1, 5)
    assert test["p"] < 0.01
    figures = tmp_path / "figures"
    assert cli.main(["score", str(folder), "--published", "--figures", str(figures)]) == 0
    out = capsys.readouterr().out
    assert "| pong | -8.0 (0.360) | 12.0 (0.926) |" in out
    assert "| venture | 50.0 (0.042) | 950.0 (0.800) | 1188 | 1970.7 |" in out
    assert "TDU against other agents, controlling for game" in out
    assert sorted(p.name for p in figures.iterdir()) == sorted(atari_scores.FIGURES)
    assert all((figures / name).stat().st_size > 10_000 for name in atari_scores.FIGURES)
    (figures / "atari_hns.png").write_bytes(b"mine")
    with pytest.raises(UserError, match="not drawn by tdu"):
        summary.write_figures(summary.summarise(folder), figures)
