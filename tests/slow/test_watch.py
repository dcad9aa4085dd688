"""`tdu watch` and `tdu plot`: films, text and figures of real runs."""

import os
import re
import shutil
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from PIL import Image
from small import SIZE, TASK

import tdu
from tdu.cli import main
from tdu.environments import pictures
from tdu.errors import RunError, UserError
from tdu.report import films, learning_figure

SMALL = {"hidden_sizes": (8,), "exploiters": 3, "batch_size": 16, "min_replay": 32, "learning_rate": 5e-3}
HOW = {"until": "budget", "evaluation_episodes": 0, **SMALL}


@pytest.fixture(scope="module")
def deep_sea_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch") / "sea"
    tdu.train(TASK, "tdu", out=folder, episodes=20, explorers=2, **HOW)
    return folder


def frames_of(path):
    with Image.open(path) as film:
        for i in range(film.n_frames):
            film.seek(i)
            yield np.asarray(film.convert("RGB"))


def test_a_film_has_a_frame_for_every_step(deep_sea_run, tmp_path, capsys):
    out = tmp_path / "film.gif"
    assert main(["watch", str(deep_sea_run), "--episodes", "2", "--out", str(out)]) == 0
    frames = list(frames_of(out))
    assert len(frames) <= 2 * (SIZE + 1)  # Pillow merges equal frames
    assert len(frames) > SIZE
    assert frames[0].shape == frames[-1].shape
    assert not np.array_equal(frames[0], frames[1])
    assert "Film:" in capsys.readouterr().out
    assert main(["watch", str(deep_sea_run), "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


def test_deep_sea_plays_as_text(deep_sea_run, capsys):
    assert main(["watch", str(deep_sea_run), "--head", "1"]) == 0
    output = capsys.readouterr().out
    boards = output.split("episode 1, step ")
    assert len(boards) == SIZE + 2
    assert all(board.count("@") == 1 for board in boards[:SIZE])
    assert boards[0].splitlines()[0] == "@"
    assert "head 1, an exploiter: returns" in output


def test_text_and_film_are_of_one_policy(deep_sea_run):
    """Both show the greedy policy's own return."""
    run = tdu.load(deep_sea_run)
    policy, called = films.chosen(run.agent, head=None, explorer=False)
    stage = pictures.stage(run.config.env, 0)
    *_, (episode, step, total, over) = films.played(stage, policy, episodes=1, longest=100)
    assert (episode, step, over) == (0, SIZE, True)
    timestep, expected = stage.reset(0), 0.0
    while not timestep.last:
        timestep = stage.step(run.agent.act_on(timestep))
        expected += float(timestep.reward)
    assert total == pytest.approx(expected)
    assert called.startswith("greedy")
    stage.close()


def test_heads_act_on_their_own_values(deep_sea_run):
    run = tdu.load(deep_sea_run)
    q = run.agent.agent.examiner.q
    for head, explorer, expected in ((0, False, [0, 0]), (None, True, [3, 4])):
        policy, _ = films.chosen(run.agent, head=head, explorer=explorer)
        stage = pictures.stage(run.config.env, 0)
        for episode, number in enumerate(expected):
            act, timestep = policy(episode), stage.reset(episode)
            while not timestep.last:
                assert act(timestep) == int(np.argmax(q(run.agent.params, timestep.observation)[number]))
                timestep = stage.step(act(timestep))


def test_mistakes_are_one_sentence(deep_sea_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    (tmp_path / "file").touch()
    for arguments, words in (
        ([str(deep_sea_run), "--head", "5"], "heads 0 to 4"),
        ([str(deep_sea_run), "--out", str(tmp_path / "film.mov")], "must end with .gif or .mp4"),
        ([str(deep_sea_run), "--out", str(tmp_path / "film.mp4")], "needs ffmpeg"),
        ([str(tmp_path)], "not a run's folder"),
        ([str(deep_sea_run), "--out", str(tmp_path / "file" / "film.gif")], "is a file"),
    ):
        assert main(["watch", *arguments]) == 2
        played, errors = capsys.readouterr()
        assert played == ""
        assert words in errors
        assert errors.count("\n") == 1


@pytest.mark.parametrize(("env", "shape"), [("binary_tree:depth=30", (2, 25)), ("key_door:size=4,limit=6", (4, 4))])
def test_ours_are_drawn(env, shape):
    stage = pictures.stage(env, 0)
    timestep = stage.reset(0)
    rows = stage.text().splitlines()
    assert len(rows) == shape[0]
    assert len(rows[0].split()) == shape[1]
    seen = [stage.frame()]
    while not timestep.last:
        timestep = stage.step(1)
        seen.append(stage.frame())
    assert len({frame.shape for frame in seen}) == 1
    assert seen[0].dtype == np.uint8
    assert all(side % 2 == 0 for side in seen[0].shape[:2])


def test_gymnasium_draws_itself():
    pytest.importorskip("pygame")
    stage = pictures.stage("gym:CartPole-v1", 0)
    stage.reset(0)
    first = stage.frame()
    for _ in range(5):
        stage.step(1)
    assert first.shape == (400, 600, 3)
    assert not np.array_equal(first, stage.frame())
    assert stage.text is None
    stage.close()


STEPS = 6


@pytest.fixture
def freeway():
    """A few steps of a game."""
    pytest.importorskip("ale_py")
    stage = pictures.stage(f"atari/freeway:size=8,stack=1,noops=0,cap={4 * STEPS}", 0)
    yield stage
    stage.close()


def test_a_game_is_filmed_as_mp4(freeway, tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    out = tmp_path / "film.mp4"
    films.check(out)
    shown = [freeway.frame() for _ in films.played(freeway, lambda episode: lambda timestep: 2, episodes=2, longest=99)]
    films.film(shown, out, 5)
    read = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(out), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    film = subprocess.run(read, capture_output=True, check=True)
    assert b" 160x210," in film.stderr
    assert b" 5 fps," in film.stderr
    frames = np.frombuffer(film.stdout, np.uint8).reshape(-1, 210, 160, 3)
    assert len(frames) == len(shown) == 2 * (STEPS + 1)
    assert np.abs(frames.astype(int) - np.stack(shown)).mean() < 8  # colours are coarser in a film


def test_a_game_s_last_picture_is_of_the_episode_that_ended(freeway):
    freeway.reset(0)
    opening = freeway.frame()
    for _ in range(STEPS - 1):
        assert not freeway.step(0).last
    before = freeway.frame()
    assert freeway.step(0).last
    assert np.mean(freeway.frame() != before) < np.mean(opening != before)  # only the cars have moved
    freeway.reset(1)
    np.testing.assert_array_equal(freeway.frame(), opening)


class Undrawn(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}


def test_an_environment_without_pictures_is_reported():
    gymnasium.register("Undrawn-v0", Undrawn)
    with pytest.raises(UserError, match=r"gym:Undrawn-v0 .* cannot be watched"):
        pictures.stage("gym:Undrawn-v0", 0)
    with pytest.raises(UserError, match="cannot make 'Nowhere-v0'"):
        pictures.stage("gym:Nowhere-v0", 0)
    pytest.importorskip("bsuite")
    stage = pictures.stage("bsuite:catch/0", 0)
    stage.reset(0)
    with pytest.raises(UserError, match="cannot be watched"):
        stage.frame()


def test_a_film_ends_before_memory_does(monkeypatch):
    frames = [np.zeros((10, 10, 3), np.uint8)] * 4
    assert not films.is_full(frames)
    monkeypatch.setattr(films, "_MAX_BYTES", 1200)
    assert films.is_full(frames)
    assert not films.is_full(frames[:3])


def test_the_figure_of_a_paper(deep_sea_run, tmp_path, capsys):
    other = tmp_path / "bdqn"
    tdu.train(TASK, "bdqn", out=other, episodes=10, **HOW)
    out = tmp_path / "figure.svg"
    assert main(["plot", str(deep_sea_run), str(other), "--out", str(out), "--axis", "steps", "--smooth", "3"]) == 0
    first = out.read_bytes()
    assert b"<svg" in first
    assert main(["plot", str(deep_sea_run), "--out", str(out), "--by-seed", "--metric", "bad_share"]) == 0
    assert out.read_bytes() != first
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "runs.csv").write_text("env,seed\nsea,1\n")
    assert main(["plot", str(tmp_path / "results"), "--out", str(tmp_path / "new.svg")]) == 2
    assert "there are no runs in these folders" in capsys.readouterr().err
    (tmp_path / "mine.png").write_bytes(b"mine")
    (tmp_path / "mine.svg").write_text("<svg><text>tdu</text></svg>")
    os.mkfifo(tmp_path / "fifo.svg")
    refused = ("mine.png", "mine.svg", "fifo.svg")
    for name, words in (*((name, "not drawn by tdu") for name in refused), ("figure.txt", "must end with")):
        assert main(["plot", str(deep_sea_run), "--out", str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err


def test_the_figure_of_the_greedy_return(deep_sea_run, tmp_path, capsys, monkeypatch):
    out, sweep = tmp_path / "figure.svg", tmp_path / "sweep"
    assert main(["plot", str(deep_sea_run), "--out", str(out), "--metric", "greedy_return"]) == 2
    errors = capsys.readouterr().err
    assert "train with --evaluate-every" in errors
    assert errors.count("\n") == 1
    assert not out.exists()
    how = HOW | {"evaluation_episodes": 2, "evaluate_every": 10}
    output = [tdu.train(TASK, "bdqn", seed=s, out=sweep / str(s), episodes=30, **how).evaluations for s in (0, 1)]
    drawn, line = [], learning_figure._line

    def noted(panel, at, own, *rest):
        drawn.append((at, own.own))
        line(panel, at, own, *rest)
        assert (len(panel.lines), len(panel.collections)) == (3, 0)  # two seeds and their mean, no interval

    monkeypatch.setattr(learning_figure, "_line", noted)
    for axis, column in (("episodes", "episode"), ("steps", "steps")):
        drawn.clear()
        assert (
            main(
                ["plot", str(sweep), str(deep_sea_run), "--out", str(out), "--metric", "greedy_return", "--axis", axis]
            )
            == 0
        )
        ((at, own),) = drawn  # the other run has no evaluations
        for curve, evaluations in zip(own, output, strict=True):
            places = np.searchsorted(at, evaluations[column])
            np.testing.assert_allclose(curve[places], evaluations["greedy_return"])
            assert np.isnan(curve[: places[0]]).all()


def test_a_line_of_one_point_is_seen(deep_sea_run, tmp_path):
    one = tmp_path / "one"
    tdu.train(TASK, "bdqn", out=one, episodes=5, **HOW | {"evaluation_episodes": 1, "evaluate_every": 5})
    assert main(["plot", str(one), "--out", str(tmp_path / "one.png"), "--metric", "greedy_return"]) == 0
    with Image.open(tmp_path / "one.png") as figure:
        height, width, _ = (pixels := np.asarray(figure.convert("RGB"), np.int64)).shape
    panel = pixels[: int(height * 0.7), width // 4 :]
    assert (panel.max(axis=2) - panel.min(axis=2) > 60).any()


def test_an_environment_typed_again_is_watched_in_place_of_the_run_s(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    task = "import gymnasium\n\ndef make(mode=None):\n    return gymnasium.make('CartPole-v1', render_mode=mode)\n"
    (tmp_path / "drawn_task.py").write_text(f"{task}\ndef drawn():\n    return make('rgb_array')\n")
    train = ["train", "python:drawn_task:make", "--steps", "200", "--evaluation-episodes", "0", "--out", "run"]
    assert main([*train, "--hidden-sizes", "8"]) == 0
    assert main(["watch", "run"]) == 2
    assert "--trust" in capsys.readouterr().err
    assert main(["watch", "run", "--trust"]) == 2
    assert "--env" in capsys.readouterr().err
    assert main(["watch", "run", "--env", "python:drawn_task:drawn", "--out", "film.gif"]) == 0
    assert main(["evaluate", "run", "--env", "python:drawn_task:make", "--episodes", "2"]) == 0
    assert main(["evaluate", "run", "--env", "gym:Acrobot-v1", "--trust"]) == 2  # the run's own is not imported
    assert "like python:drawn_task:make" in capsys.readouterr().err


def test_an_environment_that_does_not_fit_the_run_is_refused(deep_sea_run, capsys):
    for command in ("evaluate", "watch"):
        for other, words in (("deep_sea:size=5", r"\(5, 5\)"), ("gym:CartPole-v1", r"observations of shape \(4,\)")):
            assert main([command, str(deep_sea_run), "--env", other]) == 2
            assert re.search(f"trained on {TASK}.* 2 actions, but {other}.*{words}", capsys.readouterr().err)
    run = tdu.load(deep_sea_run)
    with pytest.raises(RunError, match=f"trained on {TASK}.*but gym:CartPole-v1"):
        tdu.evaluate(run, env="gym:CartPole-v1")


@pytest.mark.parametrize("env", ["bsuite:catch/0", "catch/1"])
def test_an_agent_of_a_compiled_environment_plays_the_official_one(env, tmp_path):
    pytest.importorskip("bsuite")
    tdu.train("catch/0", "bdqn", out=tmp_path / "run", episodes=20, **HOW | {"evaluation_episodes": 0})
    assert -1 <= tdu.evaluate(tmp_path / "run", env=env, episodes=3)["mean_return"] <= 1
