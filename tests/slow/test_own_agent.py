"""A user's own agent on the command line."""

import json
import sys
from pathlib import Path

import pytest

import tdu
from tdu import agents
from tdu.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_bonus.py"
SMALL = ["--hidden-sizes", "4", "--exploiters", "2", "--explorers", "1", "--min-replay", "8", "--batch-size", "8"]
NAME = "python:my_bonus:RANGE"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    text = EXAMPLE.read_text().replace('RANGE = agents.AGENTS["range"] =', "RANGE =")  # hidden from other tests
    (tmp_path / "my_bonus.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def forget(monkeypatch):
    """Removes the agent's module from the imported modules until the test ends."""
    monkeypatch.delitem(sys.modules, "my_bonus")
    agents._of_user.cache_clear()


def refused(capsys, *words):
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_train_evaluate_report_and_plot(here, capsys, monkeypatch):
    train = ["train", "deep_sea:size=4", "--agent", NAME, *SMALL, "--episodes", "12", "--evaluation-episodes", "1"]
    assert main([*train, "--progress", "none", "--beta", "0.5", "--out", "run"]) == 0
    config = json.loads((here / "run" / "config.json").read_text())
    assert (config["agent"], config["config"]["beta"]) == (NAME, 0.5)
    assert tdu.train(config="run", trust=True, progress=None, out="again").result["episodes"] == 12
    assert "unknown option" in refused(capsys, *train, "--betta", "1")

    assert "--trust" in refused(capsys, "evaluate", "run")
    for consent in (["--trust"], ["--agent", NAME]):
        assert main(["evaluate", "run", "--episodes", "2", *consent]) == 0
        assert main(["watch", "run", *consent]) == 0
    tdu.load("run", trust=True).agent.save("agent")
    with pytest.raises(tdu.UserError, match="trust"):
        tdu.load_agent("agent")
    assert tdu.load_agent("agent", trust=True).act(0) in (0, 1)

    (here / "my_bonus.py").write_text("raise SystemExit('imported')")  # reports need no code
    forget(monkeypatch)
    assert main(["report", "run", "--out", "page.html"]) == 0
    page = (here / "page.html").read_text()
    assert NAME in page
    assert f"<span>--agent</span> <span>{NAME}</span>" in page
    assert main(["plot", "run", "--out", "curves.svg"]) == 0


def test_sweep(here, capsys):
    options = ["hidden_sizes=4", "exploiters=2", "explorers=1", "min_replay=8", "batch_size=8", "beta=0.1,1"]
    grid = [word for option in options for word in ("--grid", option)]
    sweep = [
        "sweep",
        "deep_sea:size=4",
        "--agent",
        NAME,
        *grid,
        "--episodes",
        "5",
        "--out",
        "sweep",
        "--progress",
        "none",
    ]
    assert main(sweep) == 0
    assert len(list(here.glob("sweep/*/result.json"))) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("python:my_bonus", "write python:"),
        ("python:missing:AGENT", "no module missing"),
        ("python:my_bonus:RNGE", "RNGE"),
        ("python:my_bonus:make", "not an agents.Entry"),
        ("rnage", "unknown agent"),
    ],
)
def test_what_is_no_agent_is_refused(name, words, capsys):
    assert words in refused(capsys, "train", "deep_sea:size=4", "--agent", name)


def test_an_agent_that_was_loaded_under_another_name_is_not_imported(here, monkeypatch):
    train = ["train", "deep_sea:size=4", "--agent", NAME, *SMALL, "--episodes", "2", "--evaluation-episodes", "0"]
    assert main([*train, "--progress", "none", "--out", "run"]) == 0
    (here / "my_other_bonus.py").write_text((here / "my_bonus.py").read_text())
    forget(monkeypatch)
    (here / "my_bonus.py").write_text("raise SystemExit('imported')")
    other = "python:my_other_bonus:RANGE"
    assert main(["evaluate", "run", "--agent", other, "--episodes", "1"]) == 0
    with pytest.raises(tdu.UserError, match="my_other_bonus:RANGE is not recurrent"):
        tdu.evaluate("run", agent=other, explorers=True)
    with pytest.raises(tdu.UserError, match="trust"):
        tdu.load("run", agent=other).train(episodes=4)
