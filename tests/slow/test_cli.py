"""The command line: real processes, exit codes, and one sentence on stderr."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gate import gated, wait_for_runs

from tdu.cli import main, train, training
from tdu.run.plan import resolve

FAST = ["--hidden-sizes", "8", "--exploiters", "2", "--explorers", "1", "--batch-size", "8", "--min-replay", "16"]


def run(*arguments):
    command = [sys.executable, "-m", "tdu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def columns(path):
    return [line.rsplit(",", 1)[0] for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["train"], "an environment is missing, for example deep_sea:size=20"),
        (["train", "dep_sea:size=5"], "unknown environment 'dep_sea'; did you mean 'deep_sea'?"),
        (["train", "gym"], "'gym' alone is not an environment; write gym:CartPole-v1"),
        (["train", "atari", "--episodes", "1"], "'atari' alone is not an environment; write atari/freeway"),
        (["train", "--resume", "--out", "nowhere"], "nowhere does not exist, so there is nothing to resume"),
        (["sweep", "deep_sea:size=5", "--prior-scale", "3"], "--grid prior_scale=VALUE"),
        (["sweep", "deep_sea:size=5", "--bata", "3"], "unexpected argument '--bata'"),
        (["sweep", "deep_sea:size=5", "--grid", "hidden_sizes=64,64"], "with x, as in 64x64."),
        (["reproduce", "deep_sea", "--pages", "--results", "nowhere"], "nowhere does not exist, so there are no rows"),
        (["train", "deep_sea:size=5", "--agent", "tud"], "unknown agent 'tud'; did you mean 'tdu'?"),
        (["train", "deep_sea:size=5", "--bata", "3"], "did you mean '--beta'?"),
        (
            ["train", "deep_sea:size=5", "--agent", "dqn", "--beta", "3"],
            "agent dqn does not have it",
        ),
        (["train", "deep_sea:size=5", "--beta", "-1"], "beta must be at least 0, not -1.0."),
        (["train", "deep_sea:size=5", "--beta", "much"], "beta must be a number, not 'much'."),
        (["train", "deep_sea:size=5", "--discount", "1.1"], "discount must be at least 0 and at most 1"),
        (["train", "deep_sea:size=5", "--exploiters", "1"], "exploiters must be at least 2"),
        (["train", "deep_sea:size=5", "--mask-prob", "0"], "mask_prob must be greater than 0"),
        (["train", "deep_sea:size=1"], "size must be at least 2"),
        (["train", "deep_sea:size=5", "--seed", "-1"], "seed must be a whole number"),
        (["train", "deep_sea:size=5", "--target-period", "3000000000"], "target_period must be at least 1 and at most"),
        (["train", "deep_sea:size=100000000"], "size must be at least 2 and at most 300"),
        (["train", "deep_sea:size=5", "--replay-capacity", "99999999999"], "replay_capacity must be at least 1"),
        (["train", "deep_sea:size=5", "--seed", "x"], "seed must be a whole number from 0 to 4,294,967,295, not 'x'."),
        (["train", "deep_sea:size=5", "--seeds", "0"], "seeds must be a whole number from 1 to 1,000,000, not 0."),
        (["train", "deep_sea:size=5", "--seed", "1", "--seeds", "2"], "not allowed with argument"),
        (
            ["train", "deep_sea:size=5", "--episodes", "1.5"],
            "tdu: episodes must be a whole number from 1 to 2,147,483,647, not 1.5.\n",
        ),
        (["train", "deep_sea:size=5", "--steps", "0"], "tdu: steps must be a whole number from 1 to"),
        (["train", "deep_sea:size=5", "--num-envs", "many"], "tdu: num_envs must be a whole number from 1 to"),
        (["train", "deep_sea:size=5", "--checkpoint-seconds", "x"], "tdu: checkpoint_seconds must be a number"),
        (["train", "deep_sea:size=5", "--resume"], "does not exist, so there is nothing to resume"),
        (["train", "deep_sea:size=5", "--resume", "--seeds", "2"], "does not exist, so there is nothing to resume"),
        (["train", "deep_sea:size=5", "--seeds", "2", "--until-return", "1"], "add --evaluate-every"),
        (["train", "deep_sea:size=5", "--episodes", "0"], "episodes must be a whole number from 1"),
        (["train", "deep_sea:size=5", "--episodes", "3000000000"], "episodes must be a whole number from 1"),
        (["train", "deep_sea:size=5", "--checkpoint-seconds", "-1"], "checkpoint_seconds must be at least 0"),
        (["train", "deep_sea:size=5", "--preset", "papers"], "did you mean 'paper'?"),
        (["train", "deep_sea:size=5", "here"], "unexpected argument 'here'"),
    ],
)
def test_a_user_s_mistake_is_one_sentence_and_exit_code_2(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.startswith("tdu: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_help_is_for_newcomers(capsys):
    assert main([]) == 0
    assert "tdu train deep_sea:size=20" in capsys.readouterr().out
    for arguments, shown, hidden in (
        (["--help"], "examples:", "--prior-scale"),
        (["train", "--help"], "--beta", "--resume-if-there"),
        (["train", "--agent", "bdqn", "--help"], "--prior-scale", "--beta"),
    ):
        with pytest.raises(SystemExit, match=r"^0$"):
            main(arguments)
        options = capsys.readouterr().out
        assert shown in options
        assert hidden not in options.split("examples:")[0]


def test_list_names_agents_and_environments(capsys):
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("tdu", "bdqn", "dqn", "binary_tree", "mapping_seed"))
    lines = text.splitlines()
    assert "  tdu_r2d2_prior  TDU-R2D2 with random prior functions." in lines
    settings = [line for line in lines if line.startswith("    ")]
    assert {re.match(r" +\S+ +", line).end() for line in settings} == {26}
    assert {re.match(r" +\S+ +", line).end() for line in lines if re.match(r"  \S", line)} == {18}


def test_descriptions_have_one_percent_sign(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["plot", "--help"])
    assert "its 95 % interval" in " ".join(capsys.readouterr().out.split())


def test_seeds_are_runs_like_any_other(tmp_path, capsys):
    shared = ["deep_sea:size=5", "--episodes", 40, "--until", "budget", *FAST, "--beta", 2]
    many = run("train", *shared, "--seeds", 2, "--out", tmp_path / "many")
    assert many.returncode == 0, many.stderr
    assert "2 of 2 runs" in many.stdout
    assert main(["train", *map(str, shared), "--seed", "1", "--out", str(tmp_path / "one")]) == 0
    assert columns(tmp_path / "many" / "seed_1" / "log.csv") == columns(tmp_path / "one" / "log.csv")
    assert columns(tmp_path / "many" / "seed_0" / "log.csv") != columns(tmp_path / "one" / "log.csv")
    result = json.loads((tmp_path / "one" / "result.json").read_text())
    assert result["config"]["beta"] == 2.0
    capsys.readouterr()
    for arguments, code, words in (
        ([*shared, "--seeds", 2, "--out", tmp_path / "many"], 2, "already exists"),
        (["deep_sea:size=5", "--out", tmp_path / "one", "--resume"], 0, "finished already"),
        (["deep_sea:size=5", "--out", tmp_path / "one", "--resume", "--beta", 3], 2, "beta=2.0 and not 3.0"),
    ):
        assert main(["train", *map(str, arguments)]) == code
        assert words in capsys.readouterr().err


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path):
    """A file size limit simulates the full disk: the system refuses the write in the same way."""
    out = tmp_path / "run"
    shared = ["deep_sea:size=20", "--episodes", 100, "--until", "budget", "--out", out, *FAST]

    limited = ["bash", "-c", 'ulimit -f 96 && exec "$@"', "bash", sys.executable, "-m", "tdu", "train"]
    command = [*limited, *map(str, shared), "--checkpoint-seconds", "0"]
    uncached = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}  # the limit would truncate the shared cache
    full = subprocess.run(command, capture_output=True, text=True, timeout=300, env=uncached)
    assert full.returncode == 2, full.stderr
    assert "saved earlier is unchanged" in full.stderr
    assert "Traceback" not in full.stderr
    assert not list((out / "checkpoints").iterdir())
    assert main(["train", *map(str, shared), "--resume"]) == 0
    assert main(["train", *map(str, [*shared, "--out", tmp_path / "whole"])]) == 0
    assert columns(out / "log.csv") == columns(tmp_path / "whole" / "log.csv")


def test_a_path_that_cannot_be_a_folder_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for extra in (["--out", str(tmp_path / "file" / "run")], ["--seeds", "2", "--out", str(tmp_path / "file")]):
        assert main(["train", "deep_sea:size=5", *extra]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "is a file" in error
    assert (tmp_path / "file").read_text() == "mine"


def test_a_foreign_config_is_reported(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    assert main(["train", "deep_sea:size=5", "--out", str(tmp_path), "--resume"]) == 2
    assert "is not a run's config" in capsys.readouterr().err


def test_a_flag_does_not_swallow_the_environment():
    parsed, given = train.parse(["--dense", "deep_sea:size=5"])
    assert parsed.env == "deep_sea:size=5"
    assert given == {"dense": True}


TALKS = """\
import os

import gymnasium


class Talks(gymnasium.Wrapper):
    def step(self, action):
        print({"a": 1})
        os.write(1, b"from C\\n")
        return self.env.step(action)


def make():
    print("here I am")
    return Talks(gymnasium.make("FrozenLake-v1"))
"""


def test_what_an_environment_prints_spoils_no_json(tmp_path, monkeypatch):
    (tmp_path / "talks.py").write_text(TALKS)
    monkeypatch.chdir(tmp_path)
    shared = ["python:talks:make", "--episodes", 3, "--out", "run", "--progress", "json", "--evaluation-episodes", 2]
    trained = run("train", *shared, *FAST)
    assert trained.returncode == 0, trained.stderr
    lines = [json.loads(line) for line in trained.stdout.splitlines()]
    assert [line["episode"] for line in lines] == [1, 2, 3]
    assert lines[-1]["share"] == 1.0
    assert all(words in trained.stderr for words in ("here I am", "{'a': 1}", "from C"))
    evaluated = run("evaluate", "run", "--trust", "--episodes", 2, "--json")
    assert json.loads(evaluated.stdout)["episodes"] == 2
    assert "from C" in evaluated.stderr


def test_ctrl_c_saves_and_the_run_goes_on(tmp_path):
    """Uses a real process and a real signal, and checks the exit code that a shell expects."""
    out = tmp_path / "run"
    words = "train python:gate:make --episodes 40 --agent dqn --out run --hidden-sizes 4 --batch-size 4 --progress none"
    heeding = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); import tdu.cli as c; "
    command = [sys.executable, "-c", heeding + "sys.exit(c.main(sys.argv[1:]))", *words.split()]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    settings = {"cwd": gated(tmp_path), "env": os.environ | {"PYTHONPATH": paths}, "text": True}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings)
    try:
        wait_for_runs(process, tmp_path)
        process.send_signal(signal.SIGINT)
        (tmp_path / "open").touch()
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    saved = re.search(
        r"tdu: interrupted and saved at episode (\d+) .*; continue with the same command and --resume", errors
    )
    assert saved, errors
    assert int(saved[1]) == len((out / "log.csv").read_text().splitlines()) - 1
    assert [p.name.isdigit() for p in (out / "checkpoints").iterdir()] == [True]


def test_a_default_folder_is_one_run_s(tmp_path, monkeypatch):
    """Different options that give the same file name are different runs."""
    monkeypatch.chdir(tmp_path)
    places = [training.default_out(*train.parse(["deep_sea:size=5", "--beta", beta])) for beta in ("1e-3", "1e+3")]
    assert places[0] != places[1]
    assert len({place.name[:-8] for place in places}) == 1
    parsed, given = train.parse(["deep_sea:size=5", "--beta", "2"])
    config = resolve(**training.run_settings(parsed, given)).config
    assert training.default_out(parsed, given).name == f"deep_sea-size=5-tdu-beta=2-seed0-{config.digest()}"


def test_the_demo_leaves_a_table_a_picture_and_a_page(tmp_path, capsys):
    out = tmp_path / "demo"
    assert main(["demo", "--depth", "3", "--episodes", "60", "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert "one policy in 2^3" in output
    lines = (out / "table.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| TDU", "| Bootstrapped DQN", "| DQN, ε-greedy"]
    assert lines[2].split(" | ")[2] == "3", "it got to the top"
    assert (out / "demo.png").stat().st_size > 10_000
    assert "Binary Tree of depth 3" in (out / "report.html").read_text()
