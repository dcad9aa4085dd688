"""`tdu reproduce`: rows are neither lost nor made twice, runs go on, pages come out the same from the same rows."""

import csv
import io
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tdu import cli
from tdu.errors import UserError
from tdu.experiments import binary_tree, bsuite, catalogue, deep_sea, deep_sea_grid, pages, reproduce, rows
from tdu.experiments.experiment import Grid, Own, Report, Verdict, cell, select
from tdu.experiments.rows import FILE, Row
from tdu.reporting.statistics import success_rate

ROOT = Path(__file__).parent.parent
SMALL = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "min_replay": 16, "batch_size": 8}
ROW = Row("deep_sea:size=10", "tdu", "paper", "", 0, 10_000, 49, 49, 490, 1.0, 3, 0.5, "abc1234", "a processor")


def text_of(path):
    return path.read_text().splitlines()


# Rows


def test_a_row_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "deep_sea" / FILE
    unsolved = ROW._replace(seed=1, solved_episode=None, episodes=10_000, score=0.0, seconds=None)
    official = ROW._replace(env='catch/0, "x"', limit=None, solved_episode=None, successes=None)
    for row in (ROW, unsolved, official, ROW._replace(seconds=9.0, commit="later")):  # the last is the first again
        rows.append(path, row)
    assert rows.read(path, pytest.fail) == [ROW, unsolved, official]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("deep_sea:size=10,tdu,paper,,x,10000,49,49,490,1.0,3,0.5,abc,p", "seed is 'x'"),
        ("deep_sea:size=10,tdu,paper,,0,10000,50,49,490,1.0,3,0.5,abc,p", "solved at episode 50 of 49"),
        ("deep_sea:size=10,tdu,paper,,0,10000,,49,490,1.0,3,0.5,abc,p", "49 of its 10000 episodes"),
        ("deep_sea:size=10,tdu,paper,,0,10000,49,49,490,7,3,0.5,abc,p", "score is '7'"),
        ("deep_sea:size=10,ppo,paper,,0,10000,49,49,490,1.0,3,0.5,abc,p", "no agent 'ppo'"),
        ("deep_sea:size=10,tdu,paper,,0,100", "number of cells"),
        ("<<<<<<< HEAD", "number of cells"),
    ],
)
def test_a_damaged_row_is_named_and_the_rest_goes_on_and_nothing_is_taken_out(tmp_path, line, words):
    path = tmp_path / FILE
    rows.append(path, ROW)
    with open(path, "a") as f:
        f.write(line)  # and the line's end is missing too
    said = []
    assert rows.read(path, said.append) == [ROW]
    assert len(said) == 1
    assert words in said[0]
    assert f"line 3 of {path}" in said[0]
    rows.append(path, ROW._replace(seed=5))
    assert line in text_of(path)
    assert [r.seed for r in rows.read(path, said.append)] == [0, 5]


def test_rows_of_an_older_version_are_read_and_kept(tmp_path):
    path = tmp_path / FILE
    path.write_text(
        "env,preset,agent,seed,size,solved_episode,episodes,steps,commit,processor\n"
        "deep_sea:size=10,paper,tdu,0,10,5,5,50,eab4571,AMD EPYC\n"
    )
    (old,) = rows.read(path, pytest.fail)
    assert old.identity == ROW.identity
    assert (old.solved_episode, old.seconds, old.processor) == (5, None, "AMD EPYC")
    rows.append(path, ROW._replace(seed=1))
    assert [(r.seed, r.solved_episode) for r in rows.read(path, pytest.fail)] == [(0, 5), (1, 49)]
    assert next(csv.DictReader(io.StringIO(path.read_text())))["size"] == "10"


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
        env = deep_sea.sea(sizes[name], stochastic=True)
        assert rows.identity(cell(env, "tdu", 0)) in {rows.identity(c) for c in catalogue.grids()[name].cells("laptop")}


def test_what_has_to_be_shown_is_in_the_laptop_s_grids():
    """The published grid holds the thinned one, and both are as large as they should be."""
    for name, grid in catalogue.grids().items():
        thin, whole = ({rows.identity(c) for c in grid.cells(preset)} for preset in ("laptop", "paper"))
        assert thin < whole or name == "atari", "a laptop plays Freeway, which is none of the published games"
        assert grid.left_out
        assert grid.claims
    sea = {rows.identity(c) for c in deep_sea.cells("laptop")}
    assert len(sea) == 2 * 2 * 21 * 2 + 6 * 5 * 2 + 2 * 21
    tree = {rows.identity(c) for c in binary_tree.cells("laptop")}
    assert len(tree) == 5 * 4 * 3 + 4 * 2 * 2 * 3
    assert sum(bsuite.SETTINGS.values()) == len(bsuite.ids("paper")) == 468
    assert len([i for i in bsuite.ids("laptop") if i.startswith("mountain_car/")]) == 20


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
        (SAME + of_seed(1, SAME, "tdu", 0.1), "partly reproduced", "hurts Mountain Car (change 0.000"),
        (of_bsuite(FIVE, WORSE, FIVE, elsewhere=(0.25,) + (0.7,) * 9), "partly reproduced", "(change −0.045"),
        (of_bsuite(FIVE, (0.1, 1, 1, 1, 1), FIVE, elsewhere=(0.5,) * 10), "not reproduced", "change −0.082"),
        (of_bsuite(FIVE, (0.1, 1, 1, 1, 1), FIVE, elsewhere=(0.3, 0.9) * 5), "inconclusive", "open: a bonus hurts"),
        (of_bsuite(FIVE[:4], WORSE[:4], FIVE[:4]), "not yet enough data", "4 settings of Mountain Car"),
    ],
    ids=["hurt and repaired", "hurt for good", "not hurt", "a seed of one variant says nothing", "one experiment is lost",
         "one bad car shows no harm", "all is noise", "too few"],
)  # fmt: skip
def test_what_a_bonus_does_to_bsuite_is_judged_by_pairs_and_intervals(rows_there, word, words):
    verdict = bsuite.report(rows_there).verdicts["C7"]
    assert verdict.word == word
    assert words in verdict.because


def test_bsuite_s_page_is_drawn(tmp_path):
    every = {"bsuite": of_bsuite(FIVE, WORSE, FIVE)}
    pages.write("bsuite", "laptop", every, tmp_path)
    page = (tmp_path / pages.PAGE).read_text()
    assert "| mountain_car | 5 of 20 | 0.902 | 0.702 | 0.902 | 0.93 |" in page
    assert "| Mountain Car, bandit less β = 1 | 5 | 0.200 (0.200–0.200) |" in page
    assert {path.name for path in tmp_path.iterdir()} == {pages.PAGE, "bars.svg", "bars.png", "radar.svg", "radar.png"}


def test_bsuite_s_own_tables_say_the_same():
    from tdu.environments import bsuite as official

    assert sorted(bsuite.ids("paper")) == sorted(official.ids(""))
    from bsuite.experiments import summary_analysis

    for tag, names in bsuite.TAGS.items():
        assert sorted(names) == sorted(n for n, info in summary_analysis.BSUITE_INFO.items() if tag in info.tags)


def test_what_is_missing_comes_in_order_and_large_batches_last():
    asked = reproduce.missing(list(catalogue.grids()), "laptop", {"deep_sea": [ROW]})
    assert rows.identity(asked[0].cell) == rows.identity(cell("deep_sea:size=10", "bdqn", 0))
    assert len({rows.identity(a.cell) for a in asked}) == len(asked)
    large = [a.cell.config().config["batch_size"] > 64 for a in asked]
    assert large == sorted(large)
    assert asked[-1].cell.config().config["batch_size"] == 128


def test_hours_left_come_from_runs_that_are_alike():
    known = [ROW._replace(env="deep_sea:size=20", seconds=s) for s in (10.0, 20.0, 90.0)]
    known += [ROW._replace(env="deep_sea:size=20,stochastic=true", seconds=500.0)]
    assert reproduce.estimate(cell("deep_sea:size=20", "tdu", 7), known) == 20.0
    assert reproduce.estimate(cell("deep_sea:size=40", "tdu", 7), known) == 80.0
    assert reproduce.estimate(cell("deep_sea:size=40", "qu", 7), known) is None


# Runs


def tiny(monkeypatch, *cells):
    """An experiment of short runs in place of all others."""
    grid = Grid(
        summary="short runs", claims={"C0": "short runs end."}, rules="by eye.", cells=lambda preset: list(cells),
        left_out="nothing.", measure=deep_sea.measure,
        report=lambda rows: Report({"C0": Verdict("reproduced", f"{len(rows)} runs")}, "", {}),
    )  # fmt: skip
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"tiny": grid})


def sea(seed, **options):
    return cell("deep_sea:size=3", "tdu", seed, episodes=20, **SMALL, **options)


def test_runs_leave_rows_one_that_fails_stops_no_other_and_nothing_is_made_twice(tmp_path, monkeypatch, capsys):
    bad = cell("python:not_there:make", "tdu", 0, episodes=20, preset="paper")
    tiny(monkeypatch, bad, sea(0), sea(1))
    command = [
        "reproduce",
        "tiny",
        "--results",
        str(tmp_path / "r"),
        "--runs",
        str(tmp_path / "s"),
        "--progress",
        "none",
    ]
    assert cli.main([*command, "--agent", "bdqn"]) == 0
    assert "no run is missing" in capsys.readouterr().err, "of that agent"
    assert cli.main(command) == 2
    said = capsys.readouterr()
    assert "not_there" in said.err
    found = rows.read(tmp_path / "r" / "tiny" / FILE, pytest.fail)
    assert [r.seed for r in found] == [0, 1]
    assert all(r.steps == 3 * r.episodes and r.commit and r.processor and r.successes is not None for r in found)
    assert [rows.identity(sea(k)) for k in (0, 1)] == [r.identity for r in found]
    assert "reproduced; 2 runs" in said.out
    assert "2 of 3 runs are done" in (tmp_path / "r" / "tiny" / "README.md").read_text()
    tiny(monkeypatch, sea(1), sea(0))
    assert cli.main(command) == 0
    assert "no run is missing" in capsys.readouterr().err


def test_a_missing_extra_is_named_and_the_rest_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bsuite", None)
    assert cli.main(["reproduce", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "not known here: this environment needs the extra 'bsuite'" in out
    assert "atari" in out
    tiny(monkeypatch, sea(0))
    monkeypatch.setitem(catalogue.EXPERIMENTS, "bsuite", bsuite.BSUITE)
    command = ["reproduce", "all", "--results", str(tmp_path), "--runs", str(tmp_path / "s"), "--progress", "none"]
    assert cli.main(command) == 0
    said = capsys.readouterr()
    assert "bsuite is left out: this environment needs the extra 'bsuite'" in said.err
    assert "tiny, C0: reproduced; 1 runs" in said.out
    assert cli.main(["reproduce", "bsuite", "--results", str(tmp_path)]) == 2


def test_a_run_that_time_or_a_signal_cut_off_goes_on_from_its_checkpoint(tmp_path):
    """The process is ended in the middle of a run; started again it ends with the row that it would have had."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "from tdu import cli; from tdu.experiments import catalogue, deep_sea\n"
        "from tdu.experiments.experiment import Grid, Report, cell\n"
        f"small = {SMALL!r}\n"
        "c = cell('deep_sea:size=12', 'tdu', 0, episodes=4000, **small)\n"
        "g = Grid('x', {}, '', lambda p: [c], '', deep_sea.measure, lambda r: Report({}, '', {}))\n"
        "catalogue.EXPERIMENTS.clear(); catalogue.EXPERIMENTS['tiny'] = g\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    arguments = [
        "reproduce",
        "tiny",
        "--results",
        str(tmp_path / "r"),
        "--runs",
        str(tmp_path / "s"),
        "--progress",
        "none",
    ]
    log = []
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not log:
            log = [p for p in (tmp_path / "s").glob("*/log.csv") if len(text_of(p)) > 50]
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with the same command" in said
    assert not (tmp_path / "r" / "tiny" / FILE).exists()
    before = len(text_of(log[0]))
    assert 50 < before < 4000
    again = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    (row,) = rows.read(tmp_path / "r" / "tiny" / FILE, pytest.fail)
    assert row.episodes == len(text_of(log[0])) - 1
    assert row.episodes > before - 1


def test_hours_end_it_cleanly(tmp_path, monkeypatch, capsys):
    tiny(monkeypatch, sea(0), sea(1))
    command = ["reproduce", "tiny", "--results", str(tmp_path / "r"), "--runs", str(tmp_path / "s"), "--hours", "1e-9"]
    assert cli.main([*command, "--progress", "none"]) == 0
    assert "the time is up; 2 runs are left" in capsys.readouterr().err


# The command


def test_the_list_says_what_is_done_and_missing(tmp_path, capsys):
    rows.append(tmp_path / "deep_sea" / FILE, ROW)
    assert cli.main(["reproduce", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("deep_sea ") and "figure 1" in line]
    assert line.split()[1:3] == ["1", "269"]
    assert "leaves out of the published grid" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["deep_see"], "did you mean 'deep_sea'?"),
        (["deep_sea", "--preset", "papre"], "did you mean 'paper'?"),
        (["deep_sea", "--hours", "0"], "hours must be above 0"),
        (["deep_sea", "--address", "x"], "add --engine ray"),
        (["deep_sea", "--agent", "ctz"], "did you mean 'cts'?"),
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


# Verdicts


def made_up(agent, size, seed, solved, *, stochastic):
    env = deep_sea.sea(size, stochastic=stochastic)
    episodes = solved or 10_000
    return ROW._replace(
        env=env, agent=agent, seed=seed, solved_episode=solved, episodes=episodes, score=float(solved is not None)
    )


def test_the_verdict_on_deep_sea_follows_its_rule():
    def rows_with(bdqn_stochastic):
        found = []
        for size in deep_sea.SIZES:
            for seed in (0, 1):
                found += [made_up(a, size, seed, 20 * size, stochastic=False) for a in ("tdu", "bdqn")]
                found += [made_up("tdu", size, seed, 50 * size, stochastic=True)]
                found += [made_up("bdqn", size, seed, bdqn_stochastic(size), stochastic=True)]
        return found

    worse = deep_sea.report(rows_with(lambda size: 90 * size if size < 40 else None)).verdicts
    assert worse["C1"].word == "reproduced"
    assert worse["C2"].word == "reproduced"
    assert worse["C3"].word == "not yet enough data"
    assert deep_sea.report(rows_with(lambda size: 60 * size)).verdicts["C2"].word == "partly reproduced"
    assert deep_sea.report(rows_with(lambda size: 40 * size)).verdicts["C2"].word == "not reproduced"
    assert deep_sea.report(rows_with(lambda size: 40 * size)[4:]).verdicts["C1"].word == "reproduced"  # seed 1 has all
    of_others = [made_up("bdqn", size, 7, 20, stochastic=True) for size in (20, 30)]
    more = deep_sea.report([*rows_with(lambda size: 60 * size), *of_others]).verdicts["C2"]
    assert more == deep_sea.report(rows_with(lambda size: 60 * size)).verdicts["C2"], (
        "seeds that are not scored do not count"
    )
    assert "does not: BDQN loses much of its score (1.00 deterministic, 1.00 stochastic)" in more.because
    assert "(seeds 0, 1)" in more.because
    half = [r for r in rows_with(lambda size: 60 * size) if r.seed == 0 or deep_sea.size_of(r.env) < 48]
    assert "all 21 on seed 0" in deep_sea.report(half).verdicts["C1"].because, "a seed counts once it is whole"
    assert "(seed 0)" in deep_sea.report(half).verdicts["C2"].because
    lost = [
        made_up("tdu", 30, 1, None, stochastic=False)
        if (r.agent, r.env, r.seed) == ("tdu", "deep_sea:size=30", 1)
        else r
        for r in rows_with(lambda size: 60 * size)
    ]
    assert deep_sea.report(lost).verdicts["C1"].word == "partly reproduced", "one of 42 is not all"
    assert "TDU solves 41 of 42" in deep_sea.report(lost).verdicts["C1"].because
    few = [r for r in rows_with(lambda size: 40 * size) if deep_sea.size_of(r.env) < 50]
    assert deep_sea.report(few).verdicts["C1"].word == "not yet enough data"


def test_the_verdict_on_the_other_methods_counts_what_holds():
    scores = {"tdu": (1, 1), "bdqn": (1, 0), "cts": (0, 0), "rnd": (0, 0), "su": (1, 0), "nns": (0, 0), "qex": (0, 0)}

    def verdict(**changed):
        found = []
        for agent, both in (scores | changed).items():
            for size in deep_sea.FEW_SIZES:
                found += [made_up(agent, size, 0, 100 if works else None, stochastic=s) for s, works in enumerate(both)]
        return deep_sea.report(found).verdicts["C3"]

    assert verdict().word == "reproduced"
    assert verdict(qex=(1, 0)).word == "partly reproduced"
    assert verdict(tdu=(1, 0), su=(0, 0)).word == "not reproduced", "that NNS and QEX fail is not enough"
    assert "QEX does not work" in verdict(qex=(1, 0)).because.partition("does not:")[2]
    assert "SU collapses" in verdict(su=(0, 0)).because.partition("does not:")[2], "what never worked cannot collapse"


def test_the_grid_s_verdicts_leave_open_what_the_runs_leave_open():
    def verdicts(no_prior, prior, sizes=deep_sea_grid.FEW_SIZES, **others):
        """Episodes by β without priors; with them; of QU and Q+UCB. None is unsolved, and so is size 40 without priors."""
        found = []
        for size, seed in itertools.product(sizes, deep_sea_grid.SEEDS):
            env = deep_sea.sea(size, stochastic=True)
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
    assert binary_tree.report(rows_with(lambda options, agent: 500)).verdicts["C6"].word == "not reproduced"
    assert binary_tree.report(rows_with(better)[:50]).verdicts["C6"].word == "not yet enough data"


# Pages


@pytest.mark.parametrize("name", list(catalogue.grids()))
def test_every_page_and_figure_is_made_again_bit_for_bit(name, tmp_path):
    """From as many committed rows as the page says it was made from; later rows do not change that."""
    page = ROOT / "results" / name / pages.PAGE
    preset, counts = pages.made_from(page)
    every = reproduce.read_all(ROOT / "results", pytest.fail)
    assert all(len(every[other]) >= count for other, count in counts.items())
    made = tmp_path / name
    pages.write(name, preset, {other: theirs[: counts.get(other, 0)] for other, theirs in every.items()}, made)
    for path in sorted(made.iterdir()):
        committed = page.parent / path.name
        if path.suffix == ".png":
            import matplotlib.image

            assert (matplotlib.image.imread(path) == matplotlib.image.imread(committed)).all(), path.name
        else:
            assert path.read_bytes() == committed.read_bytes(), path.name
    kept = {p.name for p in page.parent.iterdir() if p.suffix in (".svg", ".png")}
    assert kept == {p.name for p in made.iterdir() if p.suffix != ".md"}


def test_the_committed_rows_are_all_understood():
    for name in catalogue.grids():
        assert rows.read(ROOT / "results" / name / FILE, pytest.fail) or name not in ("deep_sea", "binary_tree")


def test_the_readme_s_scores_are_the_page_s():
    page = text_of(ROOT / "results" / "deep_sea" / pages.PAGE)
    start = page.index(next(line for line in page if line.startswith("| method | sea |")))
    table = page[start : page.index("", start)]
    readme = (ROOT / "README.md").read_text()
    assert "\n".join(table) in readme, "copy the page's table of scores into README.md"


def test_the_readme_s_verdicts_are_the_pages():
    readme = (ROOT / "README.md").read_text()
    for name, grid in catalogue.grids().items():
        page = (ROOT / "results" / name / pages.PAGE).read_text()
        for claim in (claim for claim in grid.claims if re.fullmatch(r"C\d", claim)):
            word = re.search(rf"^- \*\*{claim}: (.*?)\.\*\*", page, re.MULTILINE).group(1)
            told = next(line for line in readme.splitlines() if line.startswith(f"| {claim} |"))
            assert f"[{word}](results/{name}/README.md)" in told


def test_the_readme_s_speeds_are_the_files():
    readme = (ROOT / "README.md").read_text()
    speed = json.loads((ROOT / "results" / "bench.json").read_text())
    steps, ratios = speed["steps_per_second"]["single"], speed["ratio_to_bsuite"]
    times = [f"{1000 / steps[size]:.2f}" for size in ("10", "20", "50")]
    assert f"takes {times[0]}, {times[1]} and {times[2]} ms on one core" in readme
    for where, words in (
        ("single", "{:.0f}×, {:.0f}× and {:.0f}× the speed"),
        ("per core", "{:.0f}×, {:.0f}× and {:.0f}× with a run"),
    ):
        assert words.format(*(ratios[where][size] for size in ("10", "20", "50"))) in readme
    stepwise = json.loads((ROOT / "results" / "stepwise_speed.json").read_text())["ratio_to_bsuite"]
    words = (
        f"{stepwise['cartpole/0']}× boot_dqn on `cartpole/0`, {min(stepwise.values())}× to {max(stepwise.values())}×"
    )
    assert words in readme


def test_reference_lines():
    assert dict(deep_sea.published()["DP-DQN"])[20] == 407
    assert "HyperAgent" not in deep_sea.published(), "budgets are not what it took"
    assert success_rate(0.87, 30, 20) == pytest.approx(0.27, abs=0.01)
