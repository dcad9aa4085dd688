"""Observations are stored as they are. A network scales bytes once. States have the numbers of their environment."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments.deep_sea import DeepSea
from diary import Diary
from gymnasium import spaces

from tdu import agents, bonus, environments
from tdu.errors import UserError
from tdu.run.runners.protocol import Budget
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.run.trained import TrainedAgent, play
from tdu.types import EnvSpec, TimeStep, Transition

FAST = {"hidden_sizes": (16,), "batch_size": 16, "min_replay": 16, "replay_capacity": 200, "learning_rate": 1e-2}


class Lamps(gymnasium.Env):
    """Name the lit one of two lamps, three times. Observations are bytes, or the numbers that a network reads for them."""

    action_space = spaces.Discrete(2)

    def __init__(self, dtype):
        self.dtype = dtype
        self.observation_space = spaces.Box(0, 255 if dtype is np.uint8 else 1, (2, 2), dtype)

    def observe(self):
        self.lit = int(self.np_random.integers(2))
        light = np.zeros((2, 2), np.uint8)
        light[self.lit] = self.np_random.integers(100, 256, 2)
        return light if self.dtype is np.uint8 else light.astype(np.float32) / 255

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def step(self, action):
        reward, self.time = float(action == self.lit), self.time + 1
        return self.observe(), reward, self.time == 3, False, {}


@pytest.fixture(scope="module")
def twins():
    """The same run on bytes and on numbers: runner, rows and agent of each."""
    runs = []
    for dtype in (np.uint8, np.float32):
        env = environments.make(Lamps(dtype), 3)
        agent = agents.find("bdqn").make(env.spec, agents.configure("bdqn", FAST | {"exploiters": 2}))
        runner = StepwiseRunner(env, agent, 3, budget=Budget(60), until="budget")
        rows = []
        while not runner.finished:
            rows += runner.advance()
        runs.append((runner, rows, TrainedAgent(env.spec, agent, runner.params())))
    return runs


def test_a_network_learns_from_bytes_what_it_learns_from_their_255th(twins):
    (_, rows, _), (_, same_rows, _) = twins
    for name in ("episode_return", "head", "loss", "bonus"):
        ours, expected = ([row[name] for row in each] for each in (rows, same_rows))
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-5, err_msg=name)
    assert rows[-1]["loss"] > 0
    assert rows[-1]["episode_return"] == 3


def test_the_replay_holds_bytes(twins):
    (runner, _, _), (of_numbers, _, _) = twins
    ring, same_ring = (x._player.carry.learner.replay for x in (runner, of_numbers))
    for name in ("o_tm1", "o_t"):
        held = getattr(ring.data, name)
        assert held.dtype == jnp.uint8
        assert held.max() > 99
        np.testing.assert_allclose(np.asarray(held) / 255, getattr(same_ring.data, name), rtol=1e-6)


def test_a_trained_agent_sees_bytes_as_its_training_did(twins):
    (_, _, agent), (_, _, same) = twins
    rng = np.random.default_rng(0)
    for _ in range(5):
        seen = rng.integers(0, 256, (2, 2)).astype(np.uint8)
        scaled = seen.astype(np.float32) / 255
        np.testing.assert_allclose(agent.values(seen), same.values(scaled), rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(agent.values(seen), agent.values(seen.astype(np.int64)))
        assert agent.act(seen) == int(np.argmax(agent.values(seen)))
        assert np.abs(agent.values(seen) - agent.values(seen // 2)).max() > 1e-3
    with pytest.raises(UserError, match="does not fit into uint8"):
        agent.act(np.full((2, 2), 0.5))


def test_evaluation_sees_bytes_as_training_did(twins):
    (_, _, agent), (_, _, same) = twins
    ours, expected = (
        play(Lamps(np.uint8), agent, episodes=10).returns,
        play(Lamps(np.float32), same, episodes=10).returns,
    )
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(ours, [3.0] * 10)


@pytest.mark.parametrize("name", [name for name, entry in agents.AGENTS.items() if not entry.is_recurrent])
def test_every_agent_holds_bytes(name):
    agent = agents.find(name).make(EnvSpec("bytes", (4, 4, 1), 2, dtype="uint8"), agents.configure(name, {}))
    state = jax.eval_shape(agent.init, jax.random.key(0))
    held = {x.dtype.name for x in jax.tree.leaves(state) if x.shape[1:] == (4, 4, 1)}
    assert held == {"uint8"}


def test_bytes_are_counted_like_numbers_from_0_to_1():
    part = bonus.counts(1.0, EnvSpec("bytes", (2,), 2, dtype="uint8"), resolution=0.1)
    boards = jnp.array([[0, 255], [9, 250], [0, 128], [60, 255]], jnp.uint8)
    number, action = jnp.zeros(4), jnp.zeros(4, jnp.int32)
    batch = Transition(boards, action, number, number, boards, {})
    visits = jax.jit(part.observe)(part.init(jax.random.key(0)), jax.tree.map(lambda x: x[0], batch))
    _, novelty = jax.jit(part.reward)(visits, batch, None)
    np.testing.assert_allclose(novelty, [1.01**-0.5, 1.01**-0.5, 10.0, 10.0], rtol=1e-4)


@functools.cache
def beginner(spec):
    """An untrained agent."""
    agent = agents.find("dqn").make(spec, agents.configure("dqn", FAST))
    return TrainedAgent(spec, agent, jax.jit(agent.params)(jax.jit(agent.init)(jax.random.key(0))))


TASK = environments.make("deep_sea:size=3")


def test_an_empty_observation_is_accepted():
    """A Deep Sea whose second row gives an empty observation, compiled and in Python. An episode's end always gives one."""
    agent = beginner(TASK.spec)
    nothing = agent.agent.values(agent.params, jnp.int32(9))
    np.testing.assert_allclose(agent.values(np.zeros((3, 3))), nothing, rtol=1e-6)
    np.testing.assert_allclose(agent.values(9), nothing, rtol=1e-6)
    assert agent.act(np.zeros((3, 3))) == agent.act(9) == int(np.argmax(nothing))
    cell = np.eye(9)[4].reshape(3, 3)
    np.testing.assert_allclose(agent.values(cell), agent.values(4), rtol=1e-6)
    assert np.abs(agent.values(cell) - nothing).max() > 1e-3

    def step(state, action, key):
        state, after = TASK.step(state, action, key)
        return state, after._replace(observation=jnp.where(state.row == 1, 9, after.observation))

    sea = DeepSea(3, mapping_seed=42)
    see = sea._get_observation
    sea._get_observation = lambda: see() * (sea._row != 1)
    compiled = play(TASK._replace(step=step), agent, episodes=2).returns
    np.testing.assert_allclose(play(sea, agent, episodes=2).returns, compiled, rtol=1e-6)
    for wrong, words in ((10, "states 0 to 8, not 10"), (np.ones((3, 3)), "not one-hot"), (np.eye(9)[4], "shape")):
        with pytest.raises(UserError, match=words):
            agent.act(wrong)


class Floors(gymnasium.Env):
    """States are numbered 10 to 13."""

    observation_space = spaces.Discrete(4, start=10)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.floor = 10
        return self.floor, {}

    def step(self, action):
        self.floor += 1
        return np.int64(self.floor), 1.0, self.floor == 13, False, {}


def test_states_are_what_the_environment_calls_them():
    env = environments.make(Floors())
    assert (env.spec.num_states, env.spec.first_state) == (4, 10)
    assert env.start().tolist() == [0]
    agent = beginner(env.spec)
    for floor in (10, 12, np.int64(13), np.uint8(11)):
        q = agent.agent.values(agent.params, jnp.int32(int(floor) - 10))
        np.testing.assert_array_equal(agent.values(floor), q)
        assert agent.act(floor) == int(np.argmax(q))
    np.testing.assert_array_equal(play(Floors(), agent, episodes=2).returns, [3.0, 3.0])
    for wrong in (0, 9, 14):
        with pytest.raises(UserError, match=f"has states 10 to 13, not {wrong}"):
            agent.act(wrong)


@pytest.mark.parametrize("named", [0.0, 1.0, 3.5, np.float32(2)])
def test_a_state_that_is_not_a_whole_number_is_reported(named):
    """A number 1.0 is not read as a one-hot array."""
    with pytest.raises(UserError, match="must be whole numbers"):
        beginner(environments.make(Floors()).spec).act(named)


def test_a_state_may_be_a_truth():
    spec = EnvSpec("switch", (), 2, num_states=2)
    for named, index in ((False, 0), (np.True_, 1)):
        assert environments.observations.encode(spec, named) == index


def test_evaluation_has_other_episodes_than_any_training():
    def seeds(env, begin):
        begin(env)
        return env.seeds

    agent = beginner(environments.make(Diary()).spec)
    evaluated = [seeds(Diary(), lambda env, s=s: play(env, agent, episodes=6, seed=s).returns) for s in (0, 1)]
    assert [len(x) for x in evaluated] == [7, 7]

    def train(env, seed):
        vector = environments.make(env, seed)
        vector.start()
        for _ in range(60):
            vector.step(np.zeros(1, int))

    trained = [seeds(Diary(), lambda env, s=s: train(env, s)) for s in (0, 1)]
    every = [seed for each in (*evaluated, *trained) for seed in each]
    assert len(set(every)) == len(every) > 40


def test_evaluation_in_python_and_compiled_is_the_same_policy():
    """`act_on` takes the same time steps as training."""
    agent, step = beginner(TASK.spec), jax.jit(TASK.step)
    state, timestep = TASK.reset(jax.random.key(0))
    total = 0.0
    while not timestep.last:
        state, timestep = step(state, jnp.int32(agent.act_on(TimeStep(*timestep))), jax.random.key(0))
        total += float(timestep.reward)
    np.testing.assert_allclose(play(TASK, agent, episodes=2).returns, [total] * 2, rtol=1e-6)
