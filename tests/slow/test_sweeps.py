"""Sweeps, locally and on a real Ray cluster: plans, resuming, and failures that do not affect other runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from gate import gated, wait_for_runs

import tdu
from tdu import cli, environments
from tdu.cluster import sweep as distributed
from tdu.errors import UserError
from tdu.run import folder as runs
from tdu.run import processes as parallel
from tdu.run import progress, sweeps
from tdu.run.plan import resolve
from tdu.run.progress import Report

SMALL = ["--grid", "hidden_sizes=4", "--grid", "exploiters=2", "--grid", "explorers=1", "--grid", "batch_size=4"]


OURS = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(Path(tdu.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
}


def run(*arguments, folder=None, check=0):
    command = [sys.executable, "-m", "tdu", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder, env=OURS)
    assert found.returncode == check, found.stderr
    return found


def test_sweep_targets_are_parsed():
    assert len(environments.expand("bsuite")) == 468
    assert environments.expand("deep_sea") == [f"deep_sea/{i}" for i in range(21)]
    assert "catch/0" in environments.expand("bsuite:testing")
    assert set(environments.expand("bsuite:memory")) >= {"memory_len/0", "memory_size/16"}
    assert environments.expand("deep_sea:size=7") == ["deep_sea:size=7"]
    assert environments.expand("bsuite:catch/3") == ["bsuite:catch/3"]
    with pytest.raises(UserError, match="did you mean 'cartpole'"):
        environments.expand("cartpol")


def test_compiled_twins_need_no_extra(monkeypatch):
    assert environments.expand("deep_sea_stochastic") == environments.bsuite.ids("deep_sea_stochastic")
    monkeypatch.setitem(sys.modules, "bsuite", None)
    assert len(sweeps.plan(["deep_sea", "deep_sea_stochastic", "catch", "mnist_noise"], ["tdu"])) == 82
    with pytest.raises(UserError, match="needs the extra 'bsuite'"):
        sweeps.plan(["bsuite:catch/0"], ["tdu"])


def test_a_plan_is_every_combination_and_checks_its_grid():
    cells = sweeps.plan(["deep_sea:size=4", "catch/0"], ["tdu", "qu"], seeds=2, grid={"beta": ["0", "1"]})
    assert len(cells) == 2 * 2 * 2 * 2
    assert len({c.job(sweeps.Path("x")).out for c in cells}) == len(cells)
    with pytest.raises(UserError, match="unknown option of agent bdqn 'beta'"):
        sweeps.plan(["catch/0"], ["bdqn"], grid={"beta": ["1"]})
    with pytest.raises(UserError, match="beta must be at least 0"):
        sweeps.plan(["catch/0"], ["tdu"], grid={"beta": ["-1"]})
    assert sweeps.parse_grid(["hidden-sizes=64x64,32", "beta=1"]) == {"hidden_sizes": ["64,64", "32"], "beta": ["1"]}
    for bad in (["beta"], ["beta="], ["beta=1", "beta=2"]):
        with pytest.raises(UserError, match="grid"):
            sweeps.parse_grid(bad)


def test_a_spread_sweep_has_some_of_every_experiment_from_the_start():
    cells = sweeps.plan(["catch_noise", "deep_sea", "deep_sea:size=4"], ["tdu"])
    ordered = sweeps.spread(cells)
    assert sorted(cells) == sorted(ordered)
    assert [cell.env for cell in ordered[:3]] == ["catch_noise/0", "deep_sea/0", "deep_sea:size=4"]
    noises = [int(cell.env.partition("/")[2]) // 4 for cell in ordered if "noise" in cell.env]
    assert set(noises[:5]) == set(range(5)), "the first five have five sizes of noise"


def test_a_run_s_folder_has_a_name_that_every_file_system_takes(tmp_path):
    long = sweeps.Cell("python:" + "very." * 60 + "long:make", "tdu", "general")
    names = {cell.job(tmp_path).out.name for cell in (long, long._replace(seed=1))}
    assert len(names) == 2
    assert max(map(len, names)) < 255


def test_runs_whose_names_look_alike_are_two_runs(tmp_path):
    cells = sweeps.plan(["deep_sea:size=4"], ["tdu"], grid={"beta": ["1e-3", "1e+3", "0.001"]})
    assert [dict(cell.options)["beta"] for cell in cells] == ["1e-3", "1e+3"]  # the same run twice counts once
    places = [cell.job(tmp_path).out for cell in cells]
    assert len({sweeps.file_name(cell.name) for cell in cells}) == 1
    assert len(set(places)) == 2
    for changed in (
        {"until": "budget"},
        {"episodes": 5},
        {"steps": 5},
        {"num_envs": 2},
        {"seed": 1},
        {"preset": "boot_dqn"},
    ):
        assert cells[0]._replace(**changed).job(tmp_path).out not in places


def test_a_run_is_missing_until_its_own_result_is_there(tmp_path):
    (cell,) = sweeps.plan(["deep_sea:size=4"], ["tdu"], grid={"hidden_sizes": ["4"]}, episodes=3)
    (job,) = sweeps.missing([cell], tmp_path)
    tdu.train(**SETTINGS, episodes=3, hidden_sizes="4", out=job.out)
    assert sweeps.missing([cell], tmp_path) == []
    for changed in ({"until": "budget"}, {"options": (("hidden_sizes", "8"),)}, {"episodes": 7}):
        other = cell._replace(**changed)
        other.job(tmp_path).out.mkdir()
        assert len(sweeps.missing([other], tmp_path)) == 1
        shutil.copytree(job.out, other.job(tmp_path).out, dirs_exist_ok=True)
        assert len(sweeps.missing([other], tmp_path)) == 1, "another run's result does not count"


def test_a_job_s_config_file_gives_the_cell_s_config(tmp_path):
    """Presets, strings, lists and flags are read from the file as they were planned."""
    grid = {"hidden_sizes": ["4,4"], "beta": ["0.5"], "dense": [True]}
    cells = sweeps.plan(["deep_sea:size=4", "key_door:size=3"], ["tdu"], seeds=2, grid=grid, until="budget")
    cells += sweeps.plan(["deep_sea:size=4"], ["tdu_r2d2"], steps=100, num_envs=3)
    for cell in cells:
        job = cell.job(tmp_path).with_file(tmp_path / "settings.json")
        assert job.arguments[:2] == ["--config", str(tmp_path / "settings.json")]
        resolved = resolve(config=tmp_path / "settings.json")
        assert resolved.config == cell.config()
        assert resolved.note is None
        assert resolved.options == dict(cell.options)


SETTINGS = {"env": "deep_sea:size=4", "evaluation_episodes": 0, "progress": None}


def test_a_sweep_goes_on_and_one_failure_harms_no_other(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "import gymnasium\n\nclass Bad(gymnasium.Wrapper):\n"
        "    def step(self, action):\n        raise OSError('unplugged')\n\n"
        "def make():\n    return Bad(gymnasium.make('FrozenLake-v1'))\n"
    )
    (tmp_path / "talks.py").write_text(
        "import gymnasium\n\nclass Talks(gymnasium.Wrapper):\n"
        "    def step(self, action):\n        print({'a': 1})\n        print('{\"b\": 2}')\n"
        "        return self.env.step(action)\n\n"
        "def make():\n    return Talks(gymnasium.make('FrozenLake-v1'))\n"
    )
    out = tmp_path / "sweep"
    targets = ["deep_sea:size=3", "python:mine:make", "python:talks:make"]
    monkeypatch.chdir(tmp_path)

    def run(*arguments, check=0):
        capsys.readouterr()
        assert cli.main([*arguments]) == check  # its runs are separate processes
        return capsys.readouterr()

    arguments = ["sweep", *targets, "--episodes", "20", "--out", str(out), *SMALL]
    failed = run(*arguments, check=1)
    assert "python:mine:make" in failed.err
    assert "unplugged" in failed.err
    assert "Traceback" not in failed.err
    seeds = ["train", "python:mine:make", "--seeds", "1", "--out", str(tmp_path / "seeds")]
    assert "unplugged" in run(*seeds, check=1).err
    kept = {p: p.stat().st_mtime_ns for p in out.glob("*/result.json")}
    assert len(kept) == 2
    (garbled,) = out.glob("deep_sea*/result.json")
    garbled.write_text("{")
    again = run(*arguments, check=1)
    assert "1 of 3 runs are finished already" in again.err
    assert "result.json cannot be read" in again.err
    assert "Traceback" not in again.err
    garbled.unlink()
    assert "2 of 3 runs are in" in run(*arguments, check=1).out
    assert {p: p.stat().st_mtime_ns for p in out.glob("python*/result.json")} == {
        p: t for p, t in kept.items() if p != garbled
    }
    (shorter,) = out.glob("deep_sea*")
    before = (shorter / "log.csv").read_bytes()
    other = run("sweep", "deep_sea:size=3", "--episodes", "30", "--out", str(out), *SMALL)
    assert "1 of 1 runs are in" in other.out  # another run, in its own folder
    assert len(list(out.glob("deep_sea*"))) == 2
    assert (shorter / "log.csv").read_bytes() == before
    scores = json.loads(run("score", str(out), "--json").out)
    finished = {name: agent["environments"] for name, agent in scores["agents"].items()}
    by_budget = {name.split(" episodes=")[1]: envs for name, envs in finished.items() if "deep_sea:size=3" in envs}
    assert by_budget.keys() == {"20", "30"}
    assert by_budget["30"]["deep_sea:size=3"]["finished"] == by_budget["20"]["deep_sea:size=3"]["finished"] == 1
    assert ["python" in name for name in scores["unfinished"]] == [True]
    table = run("score", str(out)).out
    assert "`python:talks:make`" in table
    assert "1 of 4 runs have not finished" in table


GATED = [
    "sweep", "python:gate:make", "--seeds", "2", "--episodes", "40", "--agent", "dqn", "--preset", "paper", "--grid",
    "hidden_sizes=4", "--grid", "batch_size=4", "--progress", "plain", "--out", "sweep",
]  # fmt: skip
"""Its runs wait halfway until their folder has a file `open`."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = gated(tmp_path_factory.mktemp("sweeps"))
    (folder / "open").touch()
    assert "2 of 2 runs" in run(*GATED, folder=folder).stdout
    return folder / "sweep"


def assert_same_logs(one, other):
    assert {folder.name for folder in one.iterdir()} == {folder.name for folder in other.iterdir()}
    for folder in one.iterdir():
        assert _log(folder) == _log(other / folder.name)


def test_a_sweep_on_ray_outlives_a_killed_worker(tmp_path, undisturbed):
    """Uses real Ray. The logs equal those of one machine, although a worker is killed halfway."""
    command = [sys.executable, "-m", "tdu", *GATED, "--engine", "ray"]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": gated(tmp_path), "env": OURS}
    process = subprocess.Popen(command, **settings)
    try:
        os.kill(wait_for_runs(process, tmp_path)[0], signal.SIGKILL)
        (tmp_path / "open").touch()
        out, err = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 0, err
    assert "2 of 2 runs" in out
    assert_same_logs(undisturbed, tmp_path / "sweep")


def test_what_a_run_reports_is_what_a_sweep_reads():
    shown = progress.facts(Report(None, 1, 2, 3, None, 4.0, 9.0, None, True, None, None, None))
    assert set(shown) == parallel._NUMBERS | parallel._OPTIONAL_NUMBERS | {"status", "may_end_early"}
    assert {name for name, fact in shown.items() if fact is None} <= parallel._OPTIONAL_NUMBERS
    assert "trained policy" not in progress.sentence(shown)
    evaluation = {"episode": 200, "greedy_return": 1.0, "mean_length": 3.0, "success_rate": 0.5}
    tried_out = Report(None, 250, 300, 900, None, 4.0, 9.0, 200.0, True, None, 0.4, None, evaluation=evaluation)
    said = progress.sentence(progress.facts(tried_out))
    assert said.startswith("at most 3:20 left  last-100 return 0.400  trained policy 1.000")
    assert "length 3.0, success rate 0.50 at episode 200  bonus" in said


def test_workers_report_their_progress(monkeypatch):
    monkeypatch.setattr(distributed, "time", SimpleNamespace(monotonic=lambda: 100.0))
    latest = distributed._shipped()[0]()
    output = distributed._text_stream(distributed._ReportingOutput(lambda report: latest.put("run", report)))
    report = dict.fromkeys(parallel._NUMBERS | parallel._OPTIONAL_NUMBERS, 3)
    for text in ("{'a': 1}", '{"episode": 2}', "\n", json.dumps(report), json.dumps(report | {"episode": 4})):
        print(text, file=output)  # an environment's output is not progress, and the last report comes too soon
    output.buffer.write(b"\xff\n")
    assert latest.take() == {"run": report}
    assert latest.take() == {}


def test_ctrl_c_leaves_a_sweep_that_can_be_continued(tmp_path, undisturbed):
    """As in a terminal, every foreground process receives the signal."""
    # Tests in the background ignore SIGINT; a terminal's programs do not.
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", heeding, sys.executable, "-m", "tdu", *GATED]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": gated(tmp_path), "env": OURS}
    process = subprocess.Popen(command, start_new_session=True, **settings)
    try:
        wait_for_runs(process, tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        (tmp_path / "open").touch()
        _, err = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130
    assert "tdu: interrupted; continue with the same command." in err
    assert "Traceback" not in err
    with pytest.raises(ProcessLookupError):  # no process is left in the group
        os.killpg(process.pid, 0)
    out = tmp_path / "sweep"
    assert not all((run / "result.json").exists() for run in out.iterdir())
    assert "2 of 2 runs" in run(*GATED, folder=tmp_path).stdout
    assert_same_logs(undisturbed, out)


def _log(folder):
    """A run's log without its wall times."""
    return [line.rsplit(",", 1)[0] for line in (folder / "log.csv").read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["deep_sea:size=4", "--address", "1.2.3.4:5"], "add --engine ray"),
        (
            ["deep_sea:size=4", "--engine", "ray", "--address", "a:1", "--address", "b:1"],
            "one cluster, not on a:1 and b:1",
        ),
        (["deep_sea:size=4", "--grid", "bata=1"], "did you mean 'beta'"),
        (["deep_sea:size=4", "--grid", "beta=1", "--paper-grid"], "not both"),
        (["deep_sea:size=4", "--agent", "tdv"], "did you mean 'tdu'"),
        (["deep_sea:size=4", "--seeds", "0"], "seeds must be"),
        (["deep_sea:size=4", "--workers", "0"], "workers must be"),
        (["nothing_like_it"], "unknown bsuite experiment"),
        ([""], "a target is empty"),
        (["catch/99"], "catch/0 to catch/19 do"),
        (["deep_sea:size=1"], "size must be at least 2"),
        (["deep_sea:size=4,size=5"], "gives size twice"),
        (["deep_sea/²"], "deep_sea/0 to deep_sea/20 do"),
        (["deep_sea:size=4", "--episodes", "-1"], "episodes must be"),
        (["deep_sea:size=4", "--out", ""], "must not be empty"),
        (["deep_sea:size=4", "--until-return", "1", "--out", "NEW"], "add --evaluate-every"),
        (
            ["deep_sea:size=4", "--engine", "ray", "--address", "127.0.0.1:1", "--out", "NEW"],
            "no Ray cluster answers at 127",
        ),
        (["deep_sea:size=4", "--engine", "ray", "--address", "here", "--out", "NEW"], "write host:port"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, words, capsys, tmp_path):
    arguments = [str(tmp_path / "new") if word == "NEW" else word for word in arguments]
    assert cli.main(["sweep", *arguments]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1


def test_scores_of_nothing(tmp_path, capsys):
    assert cli.main(["score", str(tmp_path)]) == 2
    assert "no runs in it" in capsys.readouterr().err
    assert cli.main(["score", str(tmp_path / "nowhere")]) == 2
    (tmp_path / "file").write_text("")
    assert cli.main(["sweep", "deep_sea:size=4", "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_one_task_has_one_name_however_it_is_written(tmp_path, capsys):
    cells = sweeps.plan(
        ["deep_sea:size=5", "deep_sea:size=05,", "deep_sea: size=5", "deep_sea:stochastic=True"], ["tdu"]
    )
    assert [c.env for c in cells] == ["deep_sea:size=5", "deep_sea:stochastic=true"]
    assert str(environments.parse("key_door:limit=80,size=5").canonical()) == "key_door:limit=80,size=5"
    for other in ("deep_sea", "deep_sea/5", "bsuite:catch/0", "gym:CartPole-v1", "python:a:b", "atari/freeway"):
        assert str(environments.parse(other).canonical()) == other
    run = tmp_path / "run"
    tdu.train(
        "deep_sea:size=04,", out=run, episodes=2, evaluation_episodes=0, hidden_sizes="4x4", exploiters=2, explorers=1
    )
    assert (runs.read_config(run).env, runs.read_config(run).config["hidden_sizes"]) == ("deep_sea:size=4", [4, 4])
    assert cli.main(["score", str(run)]) == 2
    assert "is a single run" in capsys.readouterr().err
    assert cli.main(["score", str(tmp_path), "--bsuite-csv", str(tmp_path / "logs")]) == 2
    assert "no runs on bsuite's ids" in capsys.readouterr().err


def test_a_sweep_passes_evaluate_every_to_its_runs(tmp_path):
    out = tmp_path / "sweep"
    arguments = ["sweep", "key_door:size=3,limit=12", "--seeds", "2", "--episodes", "20", "--out", str(out), *SMALL]
    assert cli.main([*arguments, "--evaluate-every", "5", "--workers", "1", "--progress", "none"]) == 0
    evaluations = [(folder / "evaluations.csv").read_text().splitlines() for folder in out.iterdir()]
    assert [len(lines) for lines in evaluations] == [5, 5]
    figure = tmp_path / "figure.svg"
    assert cli.main(["plot", str(out), "--metric", "greedy_return", "--out", str(figure)]) == 0
    assert figure.exists()
