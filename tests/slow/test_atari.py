"""Atari games: observations and rewards equal a plain reference on ALE, and games are restored exactly."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import tdu
from tdu import environments
from tdu.environments import atari
from tdu.errors import RunError, UserError

ale_py = pytest.importorskip("ale_py")
cv2 = pytest.importorskip("cv2")

GAMES = ("montezuma_revenge", "breakout", "qbert", "freeway", "skiing")
CAP = 1200
"""Maximum number of frames per episode, so that truncation is tested too."""


class Reference:
    """One game, implemented from the paper's table, without regard to speed."""

    def __init__(self, game, seed):
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(ale_py.roms.get_rom_path(game))

    def grey(self, *screens):
        larger = np.max(np.stack(screens), axis=0)
        return cv2.resize(larger, (84, 84), interpolation=cv2.INTER_AREA)

    def reset(self, noops):
        self.ale.reset_game()
        for _ in range(noops):
            self.ale.act(0)
        self.steps = 0
        nothing = np.zeros((84, 84), np.uint8)
        self.seen = [nothing, nothing, nothing, self.grey(self.ale.getScreenGrayscale())]
        return np.stack(self.seen, axis=-1)

    def step(self, action):
        reward, screens = 0, []
        for _ in range(4):
            reward += self.ale.act(action)
            screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over():
                break
        self.steps += 1
        self.seen = [*self.seen[1:], self.grey(*(screens[2:] if len(screens) == 4 else screens[-1:]))]
        over = self.ale.game_over()
        return np.stack(self.seen, axis=-1), reward, over, over or self.steps * 4 >= CAP


@pytest.fixture(autouse=True)
def _silent():
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_the_plain_reference_step_by_step(game, monkeypatch):
    seeds, noops = [], []
    monkeypatch.setattr(atari, "number", lambda text: _noted(text, seeds, noops))
    env = environments.make(f"atari/{game}:cap={CAP}", 3)
    reference = Reference(game, seeds[0])
    now = env.start()
    np.testing.assert_array_equal(now[0], reference.reset(noops.pop()))
    actions, ends = np.random.default_rng(1), []
    for _ in range(500):
        action = int(actions.integers(18))
        stepped = env.step(np.array([action]))
        observation, reward, over, last = reference.step(action)
        assert stepped.after.reward[0] == reward
        assert (stepped.after.discount[0] == 0, stepped.after.last[0]) == (over, last)
        np.testing.assert_array_equal(stepped.after.observation[0], observation)
        if last:
            ends.append(over)
            np.testing.assert_array_equal(stepped.now[0], reference.reset(noops.pop()))
            assert list(stepped.ended) == [0]
        else:
            np.testing.assert_array_equal(stepped.now[0], observation)
            assert not stepped.ended
    assert ends, "an episode ended"
    if game == "freeway":
        assert not any(ends), "it is cut off, which is no end of the task"


def _noted(text, seeds, noops):
    """The seed of a text. Also records what our code derives from it: ALE's seed or the number of no-op frames."""
    found = environments.python.number(text)
    if text.endswith("noops"):
        noops.append(int(np.random.default_rng(found).integers(31)))
    else:
        seeds.append(found & 0x7FFFFFFF)
    return found


@pytest.mark.parametrize("game", ["montezuma_revenge", "pong"])
def test_ale_s_own_vector_sees_and_pays_the_same(game):
    from ale_py.vector_env import AtariVectorEnv

    env = environments.make(f"atari/{game}:noops=0,cap=800", 0, num_envs=2)
    reference = AtariVectorEnv(
        game, 2, noop_max=0, full_action_space=True, reward_clipping=False, use_fire_reset=False, num_threads=1,
        max_num_frames_per_episode=800, autoreset_mode="SameStep",
    )  # fmt: skip
    seeds = [environments.python.number(f"0/atari/{row}") & 0x7FFFFFFF for row in range(2)]
    observation, _ = reference.reset(seed=np.array(seeds))
    np.testing.assert_array_equal(env.start(), observation.transpose(0, 2, 3, 1))
    actions, truncations = np.random.default_rng(2), 0
    for _ in range(250):
        chosen = actions.integers(0, 18, 2)
        observation, reward, terminated, truncated, _ = reference.step(chosen)
        stepped = env.step(chosen)
        np.testing.assert_array_equal(stepped.after.reward, reward)
        np.testing.assert_array_equal(stepped.after.discount, 1.0 - terminated)
        np.testing.assert_array_equal(stepped.after.last, terminated | truncated)
        np.testing.assert_array_equal(stepped.now, observation.transpose(0, 2, 3, 1))
        truncations += int(truncated.sum())
    assert truncations >= 2
    reference.close()


def play(env, steps, seed):
    draws = np.random.default_rng(seed)
    return [env.step(draws.integers(0, 18, env.size)) for _ in range(steps)]


@pytest.mark.parametrize("game", ["qbert", "yars_revenge", "breakout"])
def test_games_come_back_to_where_they_were(game, monkeypatch, capsys):
    monkeypatch.setattr(atari, "_MANY_STEPS", 10)
    env = environments.make(f"atari/{game}:size=42", 1, num_envs=2)
    env.start()
    play(env, 150, 0)
    arrays, plain = env.save()
    plain = json.loads(json.dumps(plain))
    now = env._now.copy()
    onward = play(env, 120, 1)
    again = environments.make(f"atari/{game}:size=42", 1, num_envs=2)
    np.testing.assert_array_equal(again.restore(arrays, plain), now)
    assert f"steps of atari/{game}:size=42, about" in capsys.readouterr().err
    for one, other in zip(onward, play(again, 120, 1), strict=True):
        for x, y in zip(one.after, other.after, strict=True):
            np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(one.now, other.now)
        assert one.ended == other.ended
    with pytest.raises(RunError, match="install that version of ale-py"):
        again.restore(arrays, plain | {"version": "ale-py 0.1"})
    with pytest.raises(RunError, match="cannot be continued"):
        again.restore(arrays | {"actions_0": arrays["actions_0"][:-9]}, plain)


def test_every_row_and_every_run_has_seeds_of_its_own(monkeypatch):
    texts = []
    monkeypatch.setattr(atari, "number", lambda text: texts.append(text) or environments.python.number(text))
    for seed in (7, 8, "evaluation 7"):
        env = environments.make("atari/freeway:cap=8,size=8", seed, num_envs=2)
        env.start()
        play(env, 4, 0)
    assert len(texts) == len(set(texts)) == 3 * (2 + 2 * 3)
    assert len({environments.python.number(text) for text in texts}) == len(texts)


def test_what_cannot_be_is_refused_in_a_sentence():
    env = environments.make("atari/freeway:size=42,stack=1", 0, num_envs=2)
    assert env.start().shape == (2, 42, 42, 1)
    for actions in ([0, 18], [-1, 0], [0], [0.5, 1.0]):
        with pytest.raises(UserError, match="takes 2 whole numbers from 0 to 17 as actions"):
            env.step(np.asarray(actions))
    for wrong, words in (
        ("atari/montezuma_revenges", "did you mean 'montezuma_revenge'"),
        ("atari/pong:sise=42", "did you mean 'size'"),
        ("atari/pong:size=1", "size must be at least 8"),
        ("atari/pong:size", "is not a setting"),
    ):
        for call in (environments.make, environments.default_episodes):
            with pytest.raises(UserError, match=words):
                call(wrong)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(UserError, match=r"pip install 'tdu\[atari\]'\.$"):
        environments.make("atari/pong")


def test_all_57_games_and_the_paper_s_subsets_have_names():
    assert len(atari.GAMES) == len(set(atari.GAMES)) == 57
    assert all(ale_py.roms.get_rom_path(game) for game in atari.GAMES)
    assert len(environments.expand("atari:57")) == 57
    assert len(environments.expand("atari:exploration")) == 7
    assert environments.expand("atari:ablation:size=42")[1] == "atari/gravitar:size=42"
    assert len(atari.ABLATION) == 8
    assert set(atari.EXPLORATION + atari.ABLATION) <= set(atari.GAMES)
    with pytest.raises(UserError, match="did you mean 'exploration'"):
        environments.expand("atari:exploratoin")


_WITH_MEMORY = {
    "lstm_size": 4, "head_size": 4, "exploiters": 2, "explorers": 1, "trace_length": 6, "burn_in": 2, "replay_period": 4,
    "replay_capacity": 100, "learn_period": 16, "rollout": 7, "filters": (4,), "compress": True,
}  # fmt: skip


@pytest.mark.parametrize(("agent", "more"), [("dqn", {}), ("tdu_r2d2", _WITH_MEMORY)], ids=["dqn", "tdu_r2d2"])
def test_a_run_on_a_game_goes_on_as_if_never_cut_off(agent, more, tmp_path):
    settings = {
        "env": "atari/freeway:size=10,stack=2,cap=200", "agent": agent, "steps": 240, "num_envs": 2, "hidden_sizes": (8,),
        "batch_size": 8, "min_replay": 16, "evaluation_episodes": 0, **more,
    }  # fmt: skip
    tdu.train(**settings, out=tmp_path / "whole")

    def stop(report):
        if report.steps > 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tdu.train(**settings, out=tmp_path / "cut", progress=stop, checkpoint_seconds=0)
    tdu.train(**settings, out=tmp_path / "cut", resume=True)
    logs = []
    for name in ("whole", "cut"):
        with open(next((tmp_path / name).glob("log*.csv")), newline="") as f:
            logs.append([{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(f)])
    assert logs[0] == logs[1]
    assert len(logs[0]) >= 4
    assert Path(tmp_path / "cut" / "config.json").exists()
