"""`tdu reproduce`: no row is lost or computed twice, runs resume, and equal rows give equal pages."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gate import gated, wait_for_runs

from reproduction import catalogue, deep_sea_runs, pages, reproduce, rows
from reproduction.experiment import Findings, Grid, Own, Verdict, cell, select
from reproduction.experiments import binary_tree, bsuite, deep_sea
from reproduction.rows import FILE, RunRow
from tdu import cli
from tdu.errors import UserError

ROOT = Path(__file__).parents[2]
SMALL = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "min_replay": 16, "batch_size": 8}
ROW = RunRow("deep_sea:size=10", "tdu", "paper", "", 0, 10_000, 49, 49, 490, 1.0, 3, 0.5, "abc1234", "a processor")


OURS = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])}


def text_of(path):
    return path.read_text().splitlines()


# Rows


def test_a_row_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "deep_sea" / FILE
    unsolved = ROW._replace(seed=1, solved_episode=None, episodes=10_000, score=0.0, seconds=None)
    official = ROW._replace(env='catch/0, "x"', limit=None, solved_episode=None, successes=None)
    for row in (ROW, unsolved, official, ROW._replace(seconds=9.0, commit="later")):  # the last one repeats the first
        rows.append(path, row)
    assert rows.read(path, pytest.fail) == [ROW, unsolved, official]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("deep_sea:size=10,tdu,paper,,x,10000,49,49,490,1.0,3,0.5,abc,p,,", "seed is 'x'"),
        ("deep_sea:size=10,tdu,paper,,0,10000,50,49,490,1.0,3,0.5,abc,p,,", "solved at episode 50 of 49"),
        ("deep_sea:size=10,tdu,paper,,0,10000,,49,490,1.0,3,0.5,abc,p,,", "49 of its 10000 episodes"),
        ("deep_sea:size=10,tdu,paper,,0,10000,49,49,490,7,3,0.5,abc,p,,", "score is '7'"),
        ("deep_sea:size=10,ppo,paper,,0,10000,49,49,490,1.0,3,0.5,abc,p,,", "no agent 'ppo'"),
        ("deep_sea:size=10,tdu,paper,,0,100", "number of cells"),
        ("<<<<<<< HEAD", "number of cells"),
        ('"deep_sea:size=50,stoch', "unexpected end of data"),
        ("x" * 200_000 + ",tdu,paper,,0,10000,49,49,490,1.0,3,0.5,abc,p,,", "field larger than field limit"),
    ],
)
def test_a_damaged_row_is_named_and_the_rest_goes_on_and_nothing_is_taken_out(tmp_path, line, words):
    path = tmp_path / FILE
    rows.append(path, ROW)
    with open(path, "a") as f:
        f.write(line)  # the line break is missing too
    said = []
    assert rows.read(path, said.append) == [ROW]
    assert len(said) == 1
    assert words in said[0]
    assert f"line 3 of {path}" in said[0]
    rows.append(path, ROW._replace(seed=5))
    assert line in text_of(path)
    assert [r.seed for r in rows.read(path, said.append)] == [0, 5]


def test_rows_without_the_newest_columns_are_read_and_kept(tmp_path):
    path = tmp_path / FILE
    rows.append(path, ROW)
    old = [line.removesuffix(",,") for line in text_of(path)]
    old[0] = ",".join(rows.COLUMNS[:-2])
    path.write_text("\n".join([*old, "damaged"]) + "\n")
    assert rows.read(path, lambda sentence: None) == [ROW]
    later = ROW._replace(seed=1, mastered_episode=40)
    rows.append(path, later)
    assert rows.read(path, lambda sentence: None) == [ROW, later]
    assert "damaged" in text_of(path)


def test_a_file_that_is_no_table_of_runs_is_named_and_not_touched(tmp_path, capsys):
    path = tmp_path / "deep_sea" / FILE
    path.parent.mkdir()
    path.write_text("name,size\nfish,3\n")
    with pytest.raises(UserError, match="no table of runs"):
        rows.read(path, pytest.fail)
    assert reproduce.read_all(tmp_path)["deep_sea"] == []
    assert "no table of runs" in capsys.readouterr().err
    with pytest.raises(UserError, match="no table of runs"):
        rows.append(path, ROW)
    assert path.read_text() == "name,size\nfish,3\n"


def test_of_two_machines_the_row_that_was_first_counts():
    other = ROW._replace(processor="another", solved_episode=12, episodes=12)
    assert select([ROW, other], [cell("deep_sea:size=10", "tdu", 0)]) == [ROW]


# Grids


def test_a_run_has_one_name_in_every_grid():
    plain = cell("deep_sea:size=20,stochastic=true", "tdu", 0)
    assert cell("deep_sea:size=20,stochastic=true", "tdu", 0, beta=1.0, prior_scale="3") == plain
    assert cell("deep_sea:size=20", "tdu", 0, beta=3).options_text == "beta=3.0"
    shared = {"deep_sea_grid", "forgetting", "bsuite", "deep_sea"}
    sizes = {"deep_sea_grid": 20, "forgetting": 30, "bsuite": 30, "deep_sea": 20}
    for name in shared:
        env = deep_sea_runs.deep_sea_id(sizes[name], stochastic=True)
        assert rows.identity(cell(env, "tdu", 0)) in {rows.identity(c) for c in catalogue.grids()[name].cells("laptop")}


def test_runs_of_different_lengths_are_different_runs(tmp_path, monkeypatch):
    """The step limit is part of a row's identity. Two lengths in one command give one row each."""
    long, short = (deep_sea_3(0)._replace(episodes=None, steps=n) for n in (60, 30))
    tiny(monkeypatch, long, short)
    assert cli.main(asking(tmp_path)) == 0
    found = rows.read(tmp_path / "r" / "tiny" / FILE, pytest.fail)
    assert [row.identity for row in found] == [rows.identity(long), rows.identity(short)]
    assert [row.steps for row in found] == [60, 30]
    assert select(found, [short]) == [found[1]]
    assert select(found[:1], [short]) == []


def test_what_has_to_be_shown_is_in_the_laptop_s_grids():
    """The paper's grid contains the laptop's grid, and both have the expected size."""
    for name, grid in catalogue.grids().items():
        thin, whole = ({rows.identity(c) for c in grid.cells(preset)} for preset in ("laptop", "paper"))
        assert thin < whole or grid.next_cells or name.startswith("atari"), (
            "a laptop's pictures are smaller, its runs shorter"
        )
        assert grid.left_out
        assert grid.claims
    deep_sea_cells = {rows.identity(c) for c in deep_sea.cells("laptop")}
    assert len(deep_sea_cells) == 2 * 2 * 21 * 2 + 2 * 21 + 3 * 21 * 2 + 3 * 4 + 5 * 2 + 2 * 21
    tree = {rows.identity(c) for c in binary_tree.cells("laptop")}
    assert len(tree) == 5 * 4 * 3 + 4 * 2 * 2 * 3
    assert sum(bsuite.SETTINGS.values()) == len(bsuite.ids("paper")) == 468
    assert len([i for i in bsuite.ids("laptop") if i.startswith("mountain_car/")]) == 20


def test_bsuite_s_own_tables_say_the_same():
    from tdu.environments import bsuite as official

    assert sorted(bsuite.ids("paper")) == sorted(official.ids(""))
    from bsuite.experiments import summary_analysis

    for tag, names in bsuite.TAGS.items():
        assert sorted(names) == sorted(n for n, info in summary_analysis.BSUITE_INFO.items() if tag in info.tags)


def test_what_is_missing_comes_in_the_order_of_the_experiments():
    missing = reproduce.missing(list(catalogue.grids()), "laptop", {"deep_sea": [ROW]})
    assert rows.identity(missing[0].cell) == rows.identity(cell("deep_sea:size=10", "bdqn", 0))
    assert len({rows.identity(a.cell) for a in missing}) == len(missing)
    names = list(dict.fromkeys(a.experiment for a in missing))
    assert names == list(catalogue.grids())
    assert [a.experiment for a in missing] == sorted((a.experiment for a in missing), key=names.index), (
        "one after the other"
    )


def test_hours_left_come_from_runs_that_are_alike():
    known = [ROW._replace(env="deep_sea:size=20", seconds=s) for s in (10.0, 20.0, 90.0)]
    known += [ROW._replace(env="deep_sea:size=20,stochastic=true", seconds=500.0)]
    assert reproduce.estimate(cell("deep_sea:size=20", "tdu", 7), known) == 20.0
    assert reproduce.estimate(cell("deep_sea:size=40", "tdu", 7), known) == 80.0
    assert reproduce.estimate(cell("deep_sea:size=40", "qu", 7), known) is None
    game = ROW._replace(env="atari/freeway", options="steps=1000", steps=1000, seconds=3.0)
    assert reproduce.estimate(cell("atari/pong", "tdu", 7)._replace(steps=5000), [game]) == 15.0


# Runs


def tiny(monkeypatch, *cells):
    """Replaces all experiments by one of short runs."""
    grid = Grid(
        summary="short runs", claims={"C0": "short runs end."}, rules="by eye.", cells=lambda preset: list(cells),
        left_out="nothing.", measure=deep_sea_runs.measure,
        report=lambda rows: Findings({"C0": Verdict("reproduced", f"{len(rows)} runs")}, "", {}),
    )  # fmt: skip
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"tiny": grid})


def asking(tmp_path):
    """The command for that experiment, with separate folders for rows and runs."""
    return ["reproduce", "tiny", "--results", f"{tmp_path / 'r'}", "--runs", f"{tmp_path / 's'}", "--progress", "none"]


def deep_sea_3(seed, **options):
    return cell("deep_sea:size=3", "tdu", seed, episodes=20, **SMALL, **options)


def test_runs_leave_rows_one_that_fails_stops_no_other_and_nothing_is_made_twice(tmp_path, monkeypatch, capsys):
    bad = cell("python:not_there:make", "tdu", 0, episodes=20, preset="paper")
    tiny(monkeypatch, bad, deep_sea_3(0), deep_sea_3(1))
    command = asking(tmp_path)
    assert cli.main([*command, "--agent", "bdqn"]) == 2
    assert "no run of tiny is of bdqn; its agents are tdu" in capsys.readouterr().err
    assert cli.main([*command, "--env", "deep_sea:size=4"]) == 2
    assert "no run of tiny is on 'deep_sea:size=4'" in capsys.readouterr().err
    assert cli.main([*command, "--env", "deep_sea:*", "--hours", "1e-9"]) == 0
    assert "2 runs are missing" in capsys.readouterr().err, "on Deep Sea"
    assert cli.main(command) == 1
    said = capsys.readouterr()
    assert "not_there" in said.err
    found = rows.read(tmp_path / "r" / "tiny" / FILE, pytest.fail)
    assert [r.seed for r in found] == [0, 1]
    assert all(r.steps == 3 * r.episodes and r.commit and r.processor and r.successes is not None for r in found)
    assert [rows.identity(deep_sea_3(k)) for k in (0, 1)] == [r.identity for r in found]
    assert "reproduced; 2 runs" in said.out
    assert "2 of 3 runs are done" in (tmp_path / "r" / "tiny" / "README.md").read_text()
    tiny(monkeypatch, deep_sea_3(1), deep_sea_3(0))
    assert cli.main(command) == 0
    assert "no run is missing" in capsys.readouterr().err


def test_a_missing_extra_is_named_and_the_rest_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bsuite", None)
    assert cli.main(["reproduce", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "cannot be run here: this environment needs the extra 'bsuite'" in out
    assert "atari" in out
    tiny(monkeypatch, deep_sea_3(0))
    monkeypatch.setitem(catalogue.EXPERIMENTS, "bsuite", bsuite.BSUITE)
    command = ["reproduce", "all", "--results", str(tmp_path), "--runs", str(tmp_path / "s"), "--progress", "none"]
    assert cli.main(command) == 0
    said = capsys.readouterr()
    assert "bsuite is left out: this environment needs the extra 'bsuite'" in said.err
    assert "tiny, C0: reproduced; 1 runs" in said.out
    assert cli.main(["reproduce", "bsuite", "--results", str(tmp_path)]) == 2


def test_a_run_that_time_or_a_signal_cut_off_goes_on_from_its_checkpoint(tmp_path):
    """The process is interrupted in the middle of a run. Started again, it finishes that run and writes its row."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background processes ignore SIGINT
        "from tdu import cli; from reproduction import catalogue\n"
        "from reproduction.experiment import Grid, Findings, Measured, cell\n"
        "c = cell('python:gate:make', 'dqn', 0, episodes=40, hidden_sizes=(4,), batch_size=4)\n"
        "g = Grid('x', {}, '', lambda p: [c], '', lambda *_: Measured(), lambda r: Findings({}, '', {}))\n"
        "catalogue.EXPERIMENTS.clear(); catalogue.EXPERIMENTS['tiny'] = g\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, *asking(tmp_path)]
    settings = {"text": True, "cwd": gated(tmp_path), "env": OURS}
    with subprocess.Popen(command, stderr=subprocess.PIPE, **settings) as process:
        wait_for_runs(process, tmp_path)
        process.send_signal(signal.SIGINT)
        (tmp_path / "open").touch()
        _, said = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "continue with the same command" in said
    assert not (tmp_path / "r" / "tiny" / FILE).exists()
    (log,) = (tmp_path / "s").glob("*/log.csv")
    before = text_of(log)
    again = subprocess.run(command, capture_output=True, timeout=600, **settings)
    assert again.returncode == 0, again.stderr
    (row,) = rows.read(tmp_path / "r" / "tiny" / FILE, pytest.fail)
    assert (row.episodes, len(text_of(log))) == (40, 41)
    assert 20 <= len(before) < 41
    assert text_of(log)[: len(before)] == before


@pytest.mark.parametrize("what", ["folder", "pipe", "another table"])
def test_a_file_that_no_row_can_be_added_to_is_named_before_anything_is_run(what, tmp_path, monkeypatch, capsys):
    tiny(monkeypatch, deep_sea_3(0))
    monkeypatch.setitem(catalogue.EXPERIMENTS, "other", catalogue.EXPERIMENTS["tiny"]._replace(cells=lambda preset: []))
    path = tmp_path / "tiny" / FILE
    path.parent.mkdir()
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "another table": lambda: path.write_text("a,b\n1,2\n")}[
        what
    ]()
    command = ["reproduce", "--results", str(tmp_path), "--runs", str(tmp_path / "s"), "--progress", "none"]
    assert cli.main([*command, "tiny"]) == 2
    assert f"{path} is no " in capsys.readouterr().err
    assert cli.main([*command, "tiny", "--pages"]) == 2
    assert not (tmp_path / "s").exists()
    assert not (path.parent / "README.md").exists(), "and no page takes the place of a better one"
    assert cli.main([*command, "all"]) == 0
    assert f"tiny is left out: {path} is no " in capsys.readouterr().err
    assert (tmp_path / "other" / "README.md").exists()


def test_what_a_spreadsheet_has_saved_is_read(tmp_path):
    rows.append(tmp_path / FILE, ROW)
    (tmp_path / FILE).write_bytes(b"\xef\xbb\xbf" + (tmp_path / FILE).read_bytes().replace(b"\n", b"\r\n"))
    rows.append(tmp_path / FILE, ROW._replace(seed=1))
    assert [row.seed for row in rows.read(tmp_path / FILE, pytest.fail)] == [0, 1]


def test_unknown_deep_seas_change_neither_list_nor_page(tmp_path, capsys):
    for env in ("deep_sea:size=abc", "deep_sea:size=0", "deep_sea:size=-3,stochastic=true", "deep_sea"):
        rows.append(tmp_path / "deep_sea" / FILE, ROW._replace(env=env))
    assert cli.main(["reproduce", "--results", str(tmp_path)]) == 0
    assert cli.main(["reproduce", "deep_sea", "--pages", "--results", str(tmp_path)]) == 0
    assert "not yet enough data" in capsys.readouterr().out


def test_rows_without_a_score_count_as_what_they_solved():
    old = [ROW._replace(env=deep_sea_runs.deep_sea_id(n, stochastic=False), score=None) for n in deep_sea_runs.SIZES]
    found = deep_sea_runs.score(deep_sea_runs.group(old, "tdu", stochastic=False), deep_sea_runs.SIZES)
    assert found.by_seed == {0: 21}


def test_hours_end_it_cleanly(tmp_path, monkeypatch, capsys):
    tiny(monkeypatch, deep_sea_3(0), deep_sea_3(1))
    assert cli.main([*asking(tmp_path), "--hours", "1e-9"]) == 0
    assert "the time is up; 2 runs are left" in capsys.readouterr().err


# The command


def test_the_list_says_what_is_done_and_missing(tmp_path, capsys):
    rows.append(tmp_path / "deep_sea" / FILE, ROW)
    assert cli.main(["reproduce", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("deep_sea ") and "figure 1" in line]
    assert line.split()[1:3] == ["1", "399"]
    assert "leaves out of the preset paper" in out


@pytest.mark.parametrize("name", list(catalogue.grids()))
def test_a_page_of_no_rows_says_that_nothing_is_there(name, tmp_path):
    """It also gives no warning, which would be an error in the tests."""
    verdicts = pages.write(name, "laptop", {}, tmp_path)
    assert {verdict.word for verdict in verdicts.values()} == {"not yet enough data"}
    assert "no runs yet" in (tmp_path / pages.PAGE).read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pages"], "--pages needs a name"),
        (["deep_sea", "--results", __file__], "--results is a folder"),
        (["deep_see"], "did you mean 'deep_sea'?"),
        (["deep_sea", "--preset", "papre"], "did you mean 'paper'?"),
        (["deep_sea", "--hours", "0"], "hours must be above 0"),
        (["deep_sea", "--address", "x"], "add --engine ray"),
        (["deep_sea", "--agent", "ctz"], "did you mean 'cts'?"),
        (["theory", "--env", "bandit*"], "theory is not a grid of runs"),
        (["--env", "bandit*"], "give its name"),
        (["deep_sea", "--agent", "tdu", "--pages"], "without --pages"),
    ],
)
def test_mistakes_are_one_sentence(arguments, words, capsys):
    assert cli.main(["reproduce", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_an_experiment_may_be_a_function_of_its_own(tmp_path, monkeypatch):
    called = []
    own = Own("numbers", lambda out, *, preset: called.append((out, preset)), called.append)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "numbers", own)
    assert cli.main(["reproduce", "numbers", "--results", str(tmp_path), "--preset", "paper"]) == 0
    assert called == [(tmp_path / "numbers", "paper")]
    assert cli.main(["reproduce", "numbers", "--results", str(tmp_path), "--pages"]) == 0
    assert called[1:] == [tmp_path / "numbers"], "pages alone compute nothing, and are made"
    assert cli.main(["reproduce", "--results", str(tmp_path)]) == 0
