"""Progress of a run in Python, also on a narrow terminal, and tracking with TensorBoard or wandb."""

import math
import sys
from types import SimpleNamespace

import pytest

import tdu
from tdu.errors import UserError
from tdu.run import progress, track

TINY = {
    "env": "deep_sea:size=4", "episodes": 20, "until": "budget", "evaluation_episodes": 0,
    "hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "batch_size": 8, "min_replay": 16,
}  # fmt: skip


def test_a_run_in_python_estimates_its_time(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 1e9)
    tdu.train(**TINY)
    assert capsys.readouterr().err == ""  # over before the first line was due
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 0.0)
    tdu.train(**TINY, seed=3)
    assert capsys.readouterr().err.startswith("tdu seed 3: episode 20 of 20  about 0:00 left  last-100 return ")
    for nothing in (None, False):
        tdu.train(**TINY, progress=nothing)
        assert capsys.readouterr().err == ""
    tdu.train(**TINY, progress=True)
    assert "20 of 20" in capsys.readouterr().err
    seen = []
    tdu.train(**TINY, progress=seen.append)
    assert (seen[-1].episode, capsys.readouterr().err) == (20, "")


def test_an_unknown_display_is_refused_before_the_run(tmp_path):
    with pytest.raises(UserError, match="unknown progress 'plane'; did you mean 'plain'"):
        tdu.train(**TINY, progress="plane", out=tmp_path / "run")
    for wrong in ({"out": 5}, {"say": 3}):
        with pytest.raises(UserError, match=f"{next(iter(wrong))} must be"):
            tdu.train(**TINY | {"progress": "none"} | wrong)
    assert not (tmp_path / "run").exists()


def test_a_narrow_terminal_still_shows_the_name_the_episode_and_the_time_left(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    reports = []
    tdu.train(**TINY, progress=reports.append)
    bars = progress.Bars()
    bars.show("tdu seed 0", progress.facts(reports[-1]))
    bars.close()
    shown = capsys.readouterr().err
    assert shown.startswith("tdu seed 0 ━")
    assert "20/20 about 0:00 left  last-100" in shown


@pytest.mark.parametrize(
    ("episodes", "words"),
    [(1, "-1.500 in one episode"), (4, "-1.500 over 4 episodes"), (5, "-1.500 ± 0.250 over 5 episodes")],
)
def test_a_few_episodes_have_no_error_estimate(episodes, words):
    assert progress.return_words(-1.5, 0.25, episodes) == words


def test_the_time_left_follows_the_speed_of_the_second_half(monkeypatch):
    """The first 100 steps are quick, because nothing is learned yet. Then a step takes a second."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    pace = progress.Pace(0, 0)
    now = 1.0
    assert pace.seconds_left(100, 0, most_steps=200, most_episodes=None) is None  # too early
    for now in range(2, 51):
        left = pace.seconds_left(99 + now, 0, most_steps=200, most_episodes=1000)
    assert left == pytest.approx(200 - 149)
    assert pace.seconds_left(200, 0, most_steps=200, most_episodes=None) == 0
    assert progress.Pace(5, 0).seconds_left(5, 0, most_steps=9, most_episodes=None) is None


class Written:
    """A writer that stores its rows."""

    def __init__(self):
        self.rows = []

    def write(self, values, steps):
        self.rows.append((steps, values))

    def close(self):
        self.rows.append("closed")


def test_a_tracker_has_episodes_and_evaluations_over_steps(tmp_path, monkeypatch):
    writer = Written()
    monkeypatch.setattr(track, "_TensorBoard", lambda folder: writer)
    how = TINY | {"evaluation_episodes": 5, "evaluate_every": 8}
    run = tdu.train(**how, out=tmp_path / "run", track="tensorboard")
    assert writer.rows.pop() == "closed"
    episodes = [(steps, values) for steps, values in writer.rows if "episode" in values]
    assert [steps for steps, _ in episodes] == run.log["steps"].tolist()
    assert [values["episode_return"] for _, values in episodes] == run.log["episode_return"].tolist()
    assert all("seconds" not in values for _, values in episodes)
    evaluations = [(steps, values) for steps, values in writer.rows if "evaluation/return" in values]
    *during, (last, at_the_end) = evaluations
    assert [steps for steps, _ in during] == run.evaluations["steps"].tolist()
    assert (last, at_the_end["evaluation/return"]) == (run.result["steps"], run.result["greedy_return"]["mean"])
    for (_, values), mean, error in zip(
        during, run.evaluations["greedy_return"], run.evaluations["standard_error"], strict=True
    ):
        assert values["evaluation/return"] == mean
        assert values["evaluation/return_high"] - values["evaluation/return_low"] == pytest.approx(2 * 1.96 * error)
    assert during[-1][1]["evaluation/best_return"] == run.evaluations["greedy_return"].max()


def test_tensorboard_has_steps_on_its_axis(tmp_path):
    pytest.importorskip("tensorboardX")

    run = SimpleNamespace(folder=SimpleNamespace(path=tmp_path), last_evaluation=None, best_return=0.9)
    tracker = track.Tracker(run, "tensorboard")
    tracker.start()
    tracker.episode({"episode": 3, "steps": 1234, "episode_return": 0.5})
    run.last_evaluation = {"episode": 3, "steps": 1240, "greedy_return": 0.7, "standard_error": 0.1, "mean_length": 9.0,
                           "success_rate": math.nan}  # fmt: skip
    for _ in range(2):
        tracker.advanced([])
    tracker.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert {(name, step) for name, step, _ in scalars(file)} == {
        ("episode", 1234), ("episode_return", 1234), ("evaluation/return", 1240), ("evaluation/return_low", 1240),
        ("evaluation/return_high", 1240), ("evaluation/best_return", 1240), ("evaluation/length", 1240),
    }  # fmt: skip


def scalars(file):
    """(name, step, value) of every scalar in an event file. A record is length, checksum, event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, at = file.read_bytes(), 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        event = Event.FromString(data[at + 12 : at + 12 + size])
        at += 16 + size
        yield from ((value.tag, event.step, value.simple_value) for value in event.summary.value)


@pytest.mark.parametrize("words", [["train"], ["train", "--seeds", "2"], ["sweep"]])
def test_a_missing_package_is_named_before_anything_begins(words, tmp_path, monkeypatch, capsys):
    from tdu.cli import main

    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    assert main([*words, "deep_sea:size=4", "--track", "wandb"]) == 2
    said = capsys.readouterr().err
    assert "tdu[track]" in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_passes_track_on(tmp_path, monkeypatch):
    from tdu.cli import main
    from tdu.run import progress as displays

    jobs = []
    monkeypatch.setattr(displays, "run_jobs", lambda some, *rest, **how: jobs.extend(some) or [])
    assert main(["sweep", "catch/0", "--track", "tensorboard", "--seeds", "2", "--out", str(tmp_path / "s")]) == 0
    assert [job.arguments.count("--track") for job in jobs] == [1, 1]
    assert all(job.arguments[job.arguments.index("--track") + 1] == "tensorboard" for job in jobs)
