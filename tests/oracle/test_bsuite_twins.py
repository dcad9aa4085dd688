"""Compiled twins of bsuite's environments equal the official ones for the same random draws.

A twin plays first. Its state contains its draws, and the official environment gets the same draws.
"""

import gzip
import struct
import warnings
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdu
from tdu import cli, environments
from tdu.environments.bsuite_twins import cartpole, experiments, tasks
from tdu.environments.vector import PythonVector, total
from tdu.errors import UserError
from tdu.report import bsuite_scores
from tdu.types import Environment, TimeStep

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from bsuite import sweep
    from bsuite.environments.cartpole import CartpoleState as OfficialCartpoleState

STEPS = 500
"""Steps played in each distinct setting."""
TWINS = [name for name in experiments.SETTINGS if not name.startswith("deep_sea")]
PHYSICS = ("cartpole", "cartpole_swingup", "mountain_car")
SMALL = {
    "hidden_sizes": (8,),
    "exploiters": 2,
    "explorers": 1,
    "min_replay": 8,
    "batch_size": 4,
    "evaluation_episodes": 0,
}


class Script:
    """Replaces bsuite's random generator and returns given numbers."""

    def __init__(self):
        self.draws = deque()

    def next(self, *args, **kwargs):
        return self.draws.popleft()

    uniform = randint = binomial = randn = next


@pytest.fixture(scope="module", autouse=True)
def digits(tmp_path_factory):
    """A small MNIST in the original format, with every value of a byte."""
    folder, rng = tmp_path_factory.mktemp("mnist"), np.random.default_rng(0)
    for part, count in (("train", 50), ("t10k", 2)):
        pixels, labels = rng.permutation(np.arange(count * 784) % 256), rng.integers(10, size=count)
        images = struct.pack(">IIII", 2051, count, 28, 28) + pixels.astype(np.uint8).tobytes()
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        names = struct.pack(">II", 2049, count) + labels.astype(np.uint8).tobytes()
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(names))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDU_MNIST", str(folder))
        yield folder


def experiment(bsuite_id):
    return bsuite_id.partition("/")[0]


def family(bsuite_id):
    return experiment(bsuite_id).removesuffix("_noise").removesuffix("_scale")


def different_settings(name):
    return [bsuite_id for bsuite_id in experiments.ids(name) if experiments.copy_number(bsuite_id) == 0]


def official(bsuite_id):
    """bsuite's environment, and the scripts for its own draws and for its reward noise."""
    env = environments.make(f"bsuite:{bsuite_id}").environments[0]._env
    raw = getattr(env, "raw_env", env)
    raw._rng, noise = Script(), Script()
    if env is not raw:
        env._rng = noise
    return env, raw._rng, noise


def drawn_at_first(name, state, first):
    """The draws with which the official environment begins an episode as the twin did."""
    if name == "cartpole":
        return [float(x) for x in state.pole[:4]]
    if name == "cartpole_swingup":
        x, x_dot, theta, theta_dot = (float(x) for x in state.pole[:4])
        return [x, x_dot, theta % (2 * np.pi) - np.pi, theta_dot]
    if name == "catch":
        return [int(state.ball_column)]
    if name.startswith("memory"):
        return [state.bits, int(state.query)]
    if name == "mnist":
        return [int(state.digit)]
    if name == "mountain_car":
        return [float(state.position)]
    if name.startswith("umbrella"):
        return [int(state.needed), int(state.taken), first.observation[0, 3:]]
    return []


def drawn_at_step(name, after):
    """The draws of a step, without noise."""
    if not name.startswith("umbrella"):
        return []
    return [*([] if after.last else [(after.reward + 1) / 2]), after.observation[0, 3:]]


def at_random(observation, action):
    return action


def play(env, policy, steps):
    """Plays a twin over several episodes: (first state and time step), actions, (begun, its time step, after, noise, info).

    `begun` is the state of a new episode, which replaces the current one after an end.
    """

    def one(now, given):
        state, observation = now
        key, action = given
        key_step, key_reset = jax.random.split(key)
        action = jnp.asarray(policy(observation, action), jnp.int32)
        noise = jax.random.normal(jax.random.split(key_step)[1])
        state, after = env.step(state, action, key_step)
        begun, first = env.reset(key_reset)
        next_state, seen = jax.tree.map(
            lambda new, old: jnp.where(after.last, new, old), (begun, first.observation), (state, after.observation)
        )
        return (next_state, seen), (action, (begun, first, after, noise, env.info(state)))

    @jax.jit
    def run(keys, actions):
        state, first = env.reset(keys[0])
        return (state, first), *jax.lax.scan(one, (state, first.observation), (keys[1:], actions))[1]

    # This kind of key compiles quickly. The drawn numbers do not matter here.
    keys = jax.random.split(jax.random.key(3, impl="unsafe_rbg"), steps + 1)
    actions = np.random.default_rng(1).integers(env.spec.num_actions, size=steps)
    return jax.tree.map(np.asarray, run(keys, actions.astype(np.int32)))


def assert_equal(bsuite_id, policy=at_random, steps=STEPS, tolerance=0.0):
    """Compares a twin with the official environment for the same draws; returns the lengths of the finished episodes."""
    name, noisy = family(bsuite_id), experiment(bsuite_id).endswith("_noise")
    env = environments.make(bsuite_id)
    reference, own, noise = official(bsuite_id)
    begun_with, actions, (begun, firsts, afters, normals, info) = play(env, policy, steps)

    def begin(state, first):
        own.draws.extend(drawn_at_first(name, state, first))
        np.testing.assert_allclose(first.observation, reference.reset().observation, rtol=tolerance, atol=tolerance)

    def at(t, tree):
        return jax.tree.map(lambda leaf: leaf[t], tree)

    begin(*begun_with)
    answers, ends, totals = [], [], dict.fromkeys(env.spec.info_names, 0.0)
    for t, action in enumerate(actions.tolist()):
        own.draws.extend(drawn_at_step(name, TimeStep(*(leaf[t] for leaf in afters))))
        noise.draws.extend([float(normals[t])] if noisy else [])
        answers.append(reference.step(action))
        assert not own.draws
        assert not noise.draws
        assert answers[-1].last() == afters.last[t], f"{bsuite_id}, step {t}"
        if answers[-1].last():
            totals = {key: total(key, [so_far, info[key][t].item()]) for key, so_far in totals.items()}
            assert totals == pytest.approx(reference.bsuite_info(), rel=1e-6)
            ends.append(t + 1)
            begin(*at(t, (begun, firsts)))
    observations = np.stack([answer.observation for answer in answers])
    assert observations.dtype == afters.observation.dtype == reference.observation_spec().dtype
    assert observations.shape[1:] == reference.observation_spec().shape == env.spec.observation_shape
    np.testing.assert_allclose(afters.observation, observations, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(afters.discount, [answer.discount for answer in answers])
    rewards = np.array([answer.reward for answer in answers], np.float32)
    inexact = noisy or experiment(bsuite_id) == "bandit_scale"
    np.testing.assert_allclose(afters.reward, rewards, rtol=2e-7 * inexact, atol=2e-6 * noisy)
    return np.diff(ends, prepend=0).tolist()


@pytest.mark.parametrize("name", [name for name in TWINS if name != "cartpole_swingup"])
def test_a_twin_is_equal_to_the_official_environment(name):
    """Whole trajectories of every setting are equal bit for bit, noisy rewards and positions up to rounding."""
    for bsuite_id in different_settings(name):
        lengths = assert_equal(bsuite_id, tolerance=2e-5 * (family(name) in PHYSICS))
        assert lengths or family(name) == "mountain_car"


def balance(observation, action):
    x, x_dot, sin, _, theta_dot, _ = observation[0]
    return jnp.where(10 * sin + 2 * theta_dot + 0.3 * x + 0.5 * x_dot > 0, 2, 0)


def follow_speed(observation, action):
    return jnp.where(observation[0, 1] >= 0, 2, 0)


def stay(observation, action):
    return 1


@pytest.mark.parametrize(
    ("bsuite_id", "policy", "shortest", "longest"),
    [
        ("cartpole_swingup/0", stay, 1001, 1001),
        ("mountain_car/0", stay, 1000, 1000),
        ("mountain_car_scale/0", follow_speed, 100, 140),
    ],
)
def test_long_episodes_are_equal(bsuite_id, policy, shortest, longest):
    """Time limits are terminations. The pole's clock ends an episode one step late, because 0.01 is not exact in binary."""
    lengths = assert_equal(bsuite_id, policy, steps=1010, tolerance=2e-4)
    assert shortest <= min(lengths) <= max(lengths) <= longest


def test_a_pole_is_balanced_for_as_long_as_the_official_one():
    """An upright pole is unstable, so the policy acts on each environment's own observations."""
    *_, (_, _, afters, _, info) = play(environments.make("cartpole/0"), balance, 1010)
    assert np.flatnonzero(afters.last).tolist() == [1000]
    reference, own, _ = official("cartpole/0")
    own.draws.extend([0.01] * 4)
    answer = reference.reset()
    steps = 0
    while not answer.last():
        answer = reference.step(int(balance(answer.observation, None)))
        steps += 1
    assert steps == 1001
    assert reference.bsuite_info() == {key: int(values[1000]) for key, values in info.items()}


def test_every_step_of_a_pole_is_equal_from_any_state():
    """Balancing and all settings of the swing-up. Each comparison is one step long, because many steps are chaotic."""
    rng, count = np.random.default_rng(2), 400
    low, high = np.float32([-3.1, -4, -0.8, -4]), np.float32([3.1, 4, 0.8, 4])
    drawn = rng.uniform(low, high, (count, 4)).astype(np.float32)
    drawn[::2, 2] = rng.uniform(-np.pi, np.pi, count // 2)
    drawn[::5, 0] /= 50
    drawn[::3, 3] /= 4
    time, actions = rng.integers(cartpole.MOST_STEPS, size=count), rng.integers(3, size=count)
    time[:20] = cartpole.MOST_STEPS - 1
    pole = cartpole.Pole(*drawn.T, time.astype(np.int32))
    seen = set()
    for bsuite_id in ("cartpole/0", *experiments.ids("cartpole_swingup")):
        env, (reference, _, _) = environments.make(bsuite_id), official(bsuite_id)
        empty = jax.eval_shape(env.reset, jax.random.key(0))[0]
        state = type(empty)(pole, *(np.zeros(count, np.int32) for _ in empty[1:]))
        _, after = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))(state, actions.astype(np.int32), jax.random.key(0))
        answers = []
        for x, x_dot, theta, theta_dot, at, action in zip(*drawn.T.astype(float), time, actions, strict=True):
            reference._reset_next_step = False
            reference._state = OfficialCartpoleState(x, x_dot, theta % (2 * np.pi), theta_dot, cartpole.clock()[at])
            answers.append(reference.step(action))
        observations = np.stack([answer.observation for answer in answers])
        np.testing.assert_allclose(after.observation, observations, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(after.observation[:, 0, 5:], observations[:, 0, 5:])
        np.testing.assert_array_equal(after.last, [answer.last() for answer in answers])
        np.testing.assert_array_equal(after.discount, [answer.discount for answer in answers])
        np.testing.assert_array_equal(after.reward, np.float32([answer.reward for answer in answers]))
        seen |= set(zip(after.reward.tolist(), after.last.tolist(), strict=True))
    assert len(seen) == 8  # upright or not, moved or not, at the end or not


def test_every_step_of_the_car_is_equal_from_any_state():
    rng, count = np.random.default_rng(3), 2000
    position, velocity = (
        rng.uniform(-1.2, 0.6, count).astype(np.float32),
        rng.uniform(-0.07, 0.07, count).astype(np.float32),
    )
    position[:300] = rng.uniform(-1.2, -1.15, 300)
    time, actions = rng.integers(1000, size=count).astype(np.int32), rng.integers(3, size=count).astype(np.int32)
    env, (reference, _, _) = environments.make("mountain_car/0"), official("mountain_car/0")
    state = tasks.MountainCarState(position, velocity, time)
    _, after = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))(state, actions, jax.random.key(0))
    answers = []
    for place, speed, at, action in zip(position.astype(float), velocity.astype(float), time, actions, strict=True):
        reference._reset_next_step = False
        reference._position, reference._velocity, reference._timestep = place, speed, at
        answers.append(reference.step(action))
    observations = np.stack([answer.observation for answer in answers])
    np.testing.assert_allclose(after.observation, observations, rtol=0, atol=3e-7)
    assert (observations[:, 0, 0] == np.float32(-1.2)).sum() > 20
    np.testing.assert_array_equal(after.last, [answer.last() for answer in answers])
    np.testing.assert_array_equal(after.reward, [answer.reward for answer in answers])


def test_draws_are_distributed_as_in_bsuite():
    """First observations against the same number from the official environment, and reward noise against its moments."""
    count = 3000
    keys = jax.random.split(jax.random.key(0, impl="unsafe_rbg"), count)
    for bsuite_id in ("cartpole/0", "cartpole_swingup/0", "catch/0", "memory_size/6", "mnist/0", "mountain_car/0",
                      "umbrella_length/5"):  # fmt: skip
        env = environments.make(bsuite_id)
        ours = np.asarray(jax.vmap(lambda key, env=env: env.reset(key)[1].observation)(keys)).reshape(count, -1)
        reference = environments.make(f"bsuite:{bsuite_id}").environments[0]
        official = np.stack([reference.reset(i).observation.reshape(-1) for i in range(count)])
        spread = np.maximum(official.std(0), 1e-4)
        assert np.abs(ours.mean(0) - official.mean(0)).max() < 6 * spread.max() * (2 / count) ** 0.5
        np.testing.assert_allclose(ours.std(0), official.std(0), rtol=0.1, atol=1e-4)
        np.testing.assert_allclose(ours.max(0), official.max(0), atol=0.02 * spread.max())
        np.testing.assert_allclose(ours.min(0), official.min(0), atol=0.02 * spread.max())
    env = environments.make("catch_noise/12")
    state, _ = env.reset(keys[0])
    noise = jax.vmap(lambda key: env.step(state, 1, key)[1].reward)(keys)
    assert float(noise.std()) == pytest.approx(3.0, rel=0.05)
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.25)


def test_settings_and_episodes_are_bsuites():
    known = [bsuite_id for name in experiments.SETTINGS for bsuite_id in experiments.ids(name)]
    assert known == list(sweep.SWEEP)
    for bsuite_id in known:
        name, index = experiments.split(bsuite_id)
        given = {key: value for key, value in sweep.SETTINGS[bsuite_id].items() if key != "seed"}
        assert experiments.SETTINGS[name][index] == given
        assert environments.default_episodes(bsuite_id) == sweep.EPISODES[bsuite_id]
    assert environments.make("cartpole/3").spec.default_episodes == 1000


def test_an_id_without_prefix_is_the_twin():
    for name in TWINS:
        ours, reference = environments.make(f"{name}/0"), environments.make(f"bsuite:{name}/0")
        assert isinstance(ours, Environment)
        assert isinstance(reference, PythonVector)
        assert ours.spec.info_names == reference.spec.info_names
        assert environments.identify(ours).is_of_the_paper
    assert environments.make("catch_noise/4") is environments.make("catch_noise/7")  # only their seeds differ


@pytest.mark.parametrize("bsuite_id", ["bandit/3", "discounting_chain/3"])
def test_an_agent_has_the_same_run_on_the_twin(bsuite_id):
    """Without random draws, the compiled and the stepwise run have the same log."""
    ours, reference = (tdu.train(env, "tdu", episodes=6, **SMALL).log for env in (bsuite_id, f"bsuite:{bsuite_id}"))
    assert ours.keys() == reference.keys()
    for column in ours.keys() - {"seconds"}:
        np.testing.assert_allclose(ours[column], reference[column], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("agent", "num_envs"), [("tdu", 1), ("tdu", 2), ("r2d2", 2)])
def test_the_log_has_bsuites_columns(agent, num_envs):
    """Totals exclude reward noise, `best_episode` is a running maximum, and bsuite's score uses these columns."""
    settings = {k: v for k, v in SMALL.items() if k != "explorers"} | {"lstm_size": 4} if agent == "r2d2" else SMALL
    log = tdu.train("cartpole_noise/0", agent, episodes=30, num_envs=num_envs, say=str, **settings).log
    np.testing.assert_array_equal(np.diff(log["raw_return"], prepend=0), log["episode_len"] - 1)
    np.testing.assert_array_equal(log["best_episode"], np.maximum.accumulate(log["episode_len"] - 1))
    assert not np.array_equal(log["episode_return"], log["episode_len"] - 1)
    (score,) = bsuite_scores.score_logs({"cartpole_noise/0": log})
    assert 0 < score.score < 1


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("cartpol/0", "did you mean 'cartpole'"),
        ("cartpole_swingup/20", "cartpole_swingup/0 to cartpole_swingup/19"),
        ("memory_len/01", "memory_len/0 to memory_len/22"),
        ("umbrella_length/-1", "umbrella_length/0 to"),
        ("cartpole", "cartpole/0"),
        ("bsuite:cartpol/0", "did you mean 'cartpole'"),
    ],
)
def test_an_unknown_id_is_one_sentence(env_id, words, capsys):
    assert cli.main(["train", env_id]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_missing_or_damaged_digits_are_one_sentence(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("TDU_MNIST", str(tmp_path))
    with pytest.raises(UserError, match="train-images"):
        environments.make("mnist_noise/3")
    for file in digits.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    environments.make("mnist/0")
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("TDU_MNIST", str(tmp_path / "other"))
    for file in digits.iterdir():
        (tmp_path / "other" / file.name).write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match="cannot be read"):
        environments.make("mnist/0")
