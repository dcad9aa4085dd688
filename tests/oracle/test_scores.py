"""Our scores equal those of bsuite 0.3.6's own code, whose golden values were computed with an old version of pandas."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bsuite import sweep
from bsuite.experiments import summary_analysis
from bsuite.logging import csv_load
from bsuite.utils import wrappers

from reproduction import statistics
from tdu import cli, files
from tdu.errors import UserError
from tdu.report import bsuite_scores, summary
from tdu.run.folder import records

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def logs():
    return pd.read_csv(GOLDEN / "bsuite_logs.csv.gz")


@pytest.fixture(scope="module")
def golden():
    return json.loads((GOLDEN / "bsuite_scores.json").read_text())["agents"]


def test_scores_equal_bsuite_s_own(logs, golden):
    assert len(golden) >= 5
    for agent, expected in golden.items():
        scores = bsuite_scores.score_frame(logs[logs.agent == agent].drop(columns="agent"))
        assert len(scores) == 23
        for score in scores:
            assert score.score == pytest.approx(expected["scores"][score.experiment], abs=1e-12, nan_ok=True), (
                agent,
                score,
            )
            assert score.finished == expected["finished"][score.experiment]
        assert bsuite_scores.by_tag(scores) == pytest.approx(expected["tags"], abs=1e-12, nan_ok=True)


def test_the_golden_agents_differ_and_some_have_not_finished(golden):
    assert not all(golden["unfinished"]["finished"].values())
    assert golden["perfect"]["scores"]["deep_sea"] > 0.9 > golden["poor"]["scores"]["deep_sea"]
    for experiment in golden["good"]["scores"]:
        assert len({round(agent["scores"][experiment], 6) for agent in golden.values()}) > 1, experiment


def test_rows_are_written_when_bsuite_writes_them():
    theirs = {episode for episode in range(1, 12_346) if wrappers._logarithmic_logging(episode)}
    assert bsuite_scores.logged_episodes(12_345) == theirs


def test_csv_is_read_by_bsuite(tmp_path):
    episodes = np.arange(1, 31)
    log = dict.fromkeys(("steps", "total_return", "episode_len", "episode_return", "total_regret"), episodes * 1.0)
    log |= {"episode": episodes, "head": episodes, "bonus": episodes, "loss": episodes, "seconds": episodes}
    bsuite_scores.write_csv(log, "catch/3", tmp_path)
    frame, _ = csv_load.load_bsuite(str(tmp_path))
    assert set(frame.bsuite_id) == {"catch/3"}
    assert set(frame.bsuite_env) == {"catch"}
    assert sorted(frame.episode) == sorted(bsuite_scores.logged_episodes(30))
    assert "head" not in frame


def test_a_log_of_another_version_is_refused(logs):
    frame = logs[(logs.agent == "good") & (logs.bsuite_id == "catch/0")].drop(columns="agent")
    with pytest.raises(UserError, match="not an id of bsuite"):
        bsuite_scores.score_frame(frame.assign(bsuite_id="catch/99"))
    with pytest.raises(UserError, match="lack data that bsuite"):
        bsuite_scores.score_frame(frame.drop(columns="total_regret"))


def test_every_id_is_known():
    assert len(sweep.SWEEP) == 468


def test_the_table_names_the_runs_behind_its_scores():
    scored = {
        "scores": {"catch": 0.9, "bandit": 0.5},
        "by_seed": {"catch": [0.8, 1.0], "bandit": [0.5]},
        "finished": {"catch": True, "bandit": False},
        "settings": {"catch": [20, 20], "bandit": [1, 20]},
        "tags": {"basic": 0.7},
    }
    found = {"runs": 3, "unfinished": [], "unchecked": [], "notes": []}
    found |= {"agents": {"tdu": {"environments": {}, "bsuite": scored}}}
    table = summary.as_text(found, published=True)
    assert "| catch | 0.900 (0.800–1.000) |" in table
    assert "| bandit (1 of 20 settings) * | 0.500 |" in table
    assert "| mean of 2 experiments | 0.700 |" in table
    assert "leave out 21 of 23" in table
    assert "not all episodes" in table
    assert "over all settings" in table


def config_of(env, seed, episodes, until):
    return records.RunConfig(
        env=env, agent="tdu", seed=seed, episodes=episodes, steps=None, num_envs=1, until=until, config={}
    )


def result_of(config, episodes, **others):
    """A result without its log's checksum."""
    return records.RunResult(
        env=config.env, agent=config.agent, config=config.config, seed=config.seed, episodes=episodes, steps=1,
        seconds=1.0, steps_per_second=1, mean_return=0.5, mean_return_episodes=min(episodes, 100), greedy_return=None,
        largest_q=None, possible_return=None, config_sha256=config.sha256(), log_sha256=None, checkpoint_sha256=None,
        **{"has_solved_rule": False, "solved_episode": None} | others,
    )  # fmt: skip


def deep_sea_run(folder, env, seed, *, solved_at, episodes, until):
    """Writes a run on Deep Sea: episodes are bad until shortly before `solved_at`, good up to it, and bad after it."""
    bad_share = 0.8 if "stochastic" in env else 0.9
    episode = np.arange(1, episodes + 1)
    good_from = 1 + int(np.ceil(bad_share * solved_at)) - 1
    bad = (episode < good_from) | (episode > solved_at)
    total_bad = np.cumsum(bad)
    assert total_bad[solved_at - 1] / solved_at < bad_share <= total_bad[solved_at - 2] / (solved_at - 1)
    length = solved_at if until == "solved" else episodes
    columns = {"episode": episode, "steps": 10 * episode, "episode_len": 0 * episode + 10, "episode_return": 1 - bad}
    columns |= {"total_return": np.cumsum(1 - bad), "total_bad_episodes": total_bad, "denoised_return": total_bad * 0}
    folder.mkdir(parents=True)
    config = config_of(env, seed, episodes, until)
    (folder / "config.json").write_text(json.dumps(config.to_file()))
    result = result_of(config, length, has_solved_rule=True, solved_episode=solved_at)
    (folder / "result.json").write_text(json.dumps(result.to_file()))
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / "log.csv").write_text("\n".join(lines[: length + 1]) + "\n")


def scored(folder, capsys):
    assert cli.main(["score", str(folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["agents"]["tdu"]["bsuite"]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_deep_sea_is_scored_at_the_episodes_that_bsuite_logs(tmp_path, capsys, monkeypatch):
    """Runs are solved between two logged episodes, but not at the later one. One that stops early counts as solved there."""
    solved = {"deep_sea/0": 137, "deep_sea/5": 832, "deep_sea_stochastic/0": 311, "deep_sea_stochastic/5": 2257}
    # bsuite's own code needs one method that new versions of pandas do not have.
    monkeypatch.setattr(pd.Series, "append", lambda a, b: pd.concat([a, b]), raising=False)
    for until, value in (("solved", 1.0), ("budget", 0.0)):
        folder, logs = tmp_path / until, tmp_path / f"logs-{until}"
        for env, episode in solved.items():
            deep_sea_run(folder / env.replace("/", "-"), env, 0, solved_at=episode, episodes=10_000, until=until)
        found = scored(folder, capsys)
        assert found["scores"] == {"deep_sea": value, "deep_sea_stochastic": value}
        assert found["every_episode"] == {"deep_sea": 1.0, "deep_sea_stochastic": 1.0}
        assert found["finished"] == {"deep_sea": True, "deep_sea_stochastic": True}
        assert cli.main(["score", str(folder), "--bsuite-csv", str(logs)]) == 0
        table = capsys.readouterr().out
        assert f"| deep_sea (2 of 21 settings) | {value:.3f} |" in table
        assert "| deep_sea, checked at every episode (2 of 21 settings) | 1.000 |" in table
        frame, _ = csv_load.load_bsuite(str(logs / "tdu-seed0"))
        theirs = summary_analysis.bsuite_score(frame)
        assert dict(zip(theirs.bsuite_env, theirs.score, strict=True)) == found["scores"]


def test_a_run_is_counted_at_the_next_logged_episode(tmp_path, capsys):
    """Size 10 has to be solved before episode 1124. bsuite logs 1000 and 1200."""
    deep_sea_run(tmp_path / "run", "deep_sea/0", 0, solved_at=1101, episodes=10_000, until="solved")
    found = scored(tmp_path, capsys)
    assert (found["scores"], found["every_episode"]) == ({"deep_sea": 0.0}, {"deep_sea": 1.0})


def test_an_unsolved_deep_sea_scores_zero_and_is_starred(tmp_path, capsys):
    deep_sea_run(tmp_path / "a" / "run", "deep_sea/0", 0, solved_at=901, episodes=1000, until="budget")
    log = tmp_path / "a" / "run" / "log.csv"
    log.write_text("\n".join(log.read_text().splitlines()[:501]) + "\n")
    path = tmp_path / "a" / "run" / "result.json"
    result = records.RunResult.from_json(json.loads(path.read_text()), path)
    path.write_text(json.dumps(dataclasses.replace(result, episodes=500, solved_episode=None).to_file()))
    found = scored(tmp_path / "a", capsys)
    assert found["scores"] == {"deep_sea": 0.0}
    assert found["finished"] == {"deep_sea": False}


def test_runs_of_other_lengths_and_other_names_are_not_merged(tmp_path, capsys):
    for name, env, episodes in (("a", "catch/0", 5), ("b", "catch/0", 7), ("c", "bsuite:catch/0", 7)):
        made_up_run(tmp_path / name, episodes, env=env, seed=0)
    assert cli.main(["score", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["agents"]) == {"tdu episodes=5", "tdu episodes=7"}
    assert found["agents"]["tdu episodes=5"]["environments"]["catch/0"]["episodes"] == 5
    (note,) = found["notes"]
    assert "bsuite:catch/0 and catch/0 are the same task" in note


def test_the_median_is_the_usual_one_with_the_unsolved_beyond_the_end():
    assert statistics.median_words([5, 49, 89], 10_000) == "49"
    assert statistics.median_words([5, 49, 89, 120], 10_000) == "69"
    assert statistics.median_words([5, None], 10_000) == ">10000"
    assert statistics.median_words([1038, 2122, 2257, None, None], 10_000) == "2257"
    assert statistics.censored_median([10, 11]) == 10.5


def made_up_run(folder, episodes=5, *, env="catch/0", seed=None, finished=True, columns=(), log=None):
    """Writes a run folder as `tdu train` does."""
    folder.mkdir(parents=True)
    config = config_of(env, sum(folder.name.encode()) if seed is None else seed, episodes, "mastered")
    (folder / "config.json").write_text(json.dumps(config.to_file()))
    if finished:
        (folder / "result.json").write_text(json.dumps(result_of(config, episodes).to_file()))
    names = ["episode", "steps", "episode_len", "episode_return", "total_return", "total_regret"]
    rows = [[i, 9 * i, 9, 1.0, i, 0.0] for i in range(1, episodes + 1)]
    kept = [i for i, name in enumerate(names) if name not in columns]
    text = "".join(",".join(str(row[i]) for i in kept) + "\n" for row in [names, *rows])
    if log is None or log:
        (folder / "log.csv").write_bytes(text.encode() if log is None else log)
    return folder


DAMAGES = {
    "no_log": (lambda f: (f / "log.csv").unlink(), "its log has no column steps"),
    "not_text": (lambda f: (f / "log.csv").write_bytes(b"\xff\xfe\x00\n"), "is not a log"),
    "half_a_log": (lambda f: (f / "log.csv").write_text("".join(_lines(f)[:3])), "its log has 2 of its 5 episodes"),
    "not_finite": (
        lambda f: (f / "log.csv").write_text("".join(_lines(f)).replace("\n2,18,9,1.0", "\n2,18,9,nan")),
        "column episode_return has values that are not finite",
    ),
    "garbled_config": (lambda f: (f / "config.json").write_text("{"), "cannot be read"),
    "odd_config": (lambda f: (f / "config.json").write_text('{"env": 3}'), "is not a run's config"),
    "empty_result": (lambda f: (f / "result.json").write_text("{}"), "is not a run's result"),
    "another_version": (
        lambda f: (f / "log.csv").write_text("".join(_lines(f)).replace("total_regret", "regret")),
        "lack data that bsuite 0.3.6 logs",
    ),
}


def _lines(folder):
    return (folder / "log.csv").read_text().splitlines(keepends=True)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_is_named_and_the_others_are_scored(name, tmp_path, capsys):
    harm, words = DAMAGES[name]
    made_up_run(tmp_path / "whole")
    harm(made_up_run(tmp_path / name))
    assert cli.main(["score", str(tmp_path), "--json"]) == 2
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert words in found["damaged"][name]
    assert found["agents"]["tdu"]["bsuite"]["scores"]["catch"] == pytest.approx(1.0)
    assert f"tdu: {name} is left out" in captured.err
    assert captured.err.count("\n") == 1


def test_a_run_that_has_only_just_begun_is_unfinished(tmp_path, capsys):
    made_up_run(tmp_path / "begun", finished=False, log=b"")
    made_up_run(tmp_path / "whole")
    assert cli.main(["score", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unfinished"] == ["begun"]
    assert found["damaged"] == {}


def test_what_score_writes_harms_nothing(tmp_path, capsys):
    made_up_run(tmp_path / "sweep" / "whole")
    figures, logs, file = tmp_path / "figures", tmp_path / "logs", tmp_path / "file"
    file.write_text("mine")
    for flag, place in (("--figures", file), ("--bsuite-csv", file), ("--figures", Path("/proc/x"))):
        assert cli.main(["score", str(tmp_path / "sweep"), flag, str(place)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    for _ in range(2):  # it may overwrite its own files
        arguments = ["--figures", str(figures), "--bsuite-csv", str(logs)]
        assert cli.main(["score", str(tmp_path / "sweep"), *arguments]) == 0
    (figures / "bsuite_bars.png").write_bytes(b"mine")
    assert cli.main(["score", str(tmp_path / "sweep"), "--figures", str(figures)]) == 2
    assert (figures / "bsuite_bars.png").read_bytes() == b"mine"
    (csv,) = logs.rglob("*.csv")
    csv.write_text("mine")
    assert cli.main(["score", str(tmp_path / "sweep"), "--bsuite-csv", str(logs)]) == 2
    assert csv.read_text() == "mine"


def test_changed_runs_are_left_out_and_unchecked_ones_are_reported(tmp_path, capsys):
    made_up_run(tmp_path / "older")
    for name in ("whole", "result", "log"):
        folder = made_up_run(tmp_path / name)
        path = folder / "result.json"
        result = records.RunResult.from_json(json.loads(path.read_text()), path)
        stamped = dataclasses.replace(result, log_sha256=files.sha256(folder / "log.csv")[1]).to_file()
        path.write_text(json.dumps(stamped | ({"mean_return": 0.9} if name == "result" else {})))
    log = tmp_path / "log" / "log.csv"
    log.write_text(log.read_text().replace("\n2,18,9,1.0", "\n2,18,9,2.0"))
    assert cli.main(["score", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "its log cannot be checked" in captured.out
    assert "| last-100 return |" in captured.out
    lines = captured.err.splitlines()
    assert len(lines) == 2
    assert "log.csv was changed after the run wrote it; move" in lines[0]
    assert "result.json was changed after the run wrote it; move" in lines[1]


def with_evaluations(folder, seed, returns):
    """Writes a run of 5 episodes of 9 steps, with evaluations after the first episodes."""
    made_up_run(folder, seed=seed)
    names = "episode,steps,greedy_return,standard_error,evaluation_episodes,mean_length,success_rate"
    rows = [f"{i},{9 * i},{mean},0.1,10,9.0,nan" for i, mean in enumerate(returns, 1)]
    (folder / "evaluations.csv").write_text("\n".join([names, *rows]) + "\n")


def test_evaluations_are_scored_with_interval_best_and_the_steps_to_a_target(tmp_path, capsys):
    for seed, returns in enumerate(([0.0, 0.8, 0.5], [0.1, 0.2, 0.9], [0.0, 0.4, 0.4])):
        with_evaluations(tmp_path / str(seed), seed, returns)
    assert cli.main(["score", str(tmp_path), "--json", "--target", "0.5"]) == 0
    found = json.loads(capsys.readouterr().out)["agents"]["tdu"]["environments"]["catch/0"]
    returned = found["evaluation_return"]
    half = 4.3027 * np.std([0.5, 0.9, 0.4], ddof=1) / np.sqrt(3)
    assert (returned["seeds"], returned["best"]) == (3, 0.9)
    assert returned["mean"] == pytest.approx(0.6)
    assert returned["low"] == pytest.approx(max(0, 0.6 - half), abs=1e-4)
    assert returned["high"] == 1  # cut at the largest return
    assert found["first_reached_step"] == {"0": 18, "1": 27, "2": None}
    assert cli.main(["score", str(tmp_path), "--target", "0.5"]) == 0
    table = capsys.readouterr().out
    assert "evaluation return (95 %)" in table
    assert "27 (18, 27, no)" in table
    assert "solved" not in table  # Catch has no rule for being solved
    assert cli.main(["score", str(tmp_path)]) == 0
    assert "steps to" not in capsys.readouterr().out
