"""What a run in Python shows of itself, and what a narrow terminal leaves of it."""

import pytest

import tdu
from tdu.errors import UserError
from tdu.run import progress

TINY = {
    "env": "deep_sea:size=4", "episodes": 20, "until": "budget", "evaluation_episodes": 0,
    "hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "batch_size": 8, "min_replay": 16,
}  # fmt: skip


def test_a_run_in_python_tells_how_long_it_will_take(capsys, monkeypatch):
    tdu.train(**TINY)
    assert capsys.readouterr().err == ""  # over before the first line was due
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 0.0)
    tdu.train(**TINY, seed=3)
    assert capsys.readouterr().err.startswith("tdu seed 3: episode 20 of 20  at most 0:00 left  last-100 return ")
    tdu.train(**TINY, progress=None)
    assert capsys.readouterr().err == ""
    seen = []
    tdu.train(**TINY, progress=seen.append)
    assert (seen[-1].episode, capsys.readouterr().err) == (20, "")


def test_a_display_that_does_not_exist_is_named_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match="unknown progress 'plane'; did you mean 'plain'"):
        tdu.train(**TINY, progress="plane", out=tmp_path / "run")
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
    assert "20/20 at most 0:00 left  last-100" in shown


@pytest.mark.parametrize(
    ("episodes", "words"),
    [(1, "-1.500 in one episode"), (4, "-1.500 over 4 episodes"), (5, "-1.500 ± 0.250 over 5 episodes")],
)
def test_a_few_episodes_have_no_error_worth_telling(episodes, words):
    assert progress.return_words(-1.5, 0.25, episodes) == words
