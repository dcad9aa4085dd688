"""Vectors of Python environments: only true transitions are learned from, and runs are restored in mid-episode."""

import functools
import json

import jax
import numpy as np
import pytest
from diary import Diary, Sign
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper

from tdu import agents, environments
from tdu.environments.gymnasium import GymnasiumVector
from tdu.environments.vector import PythonVector
from tdu.errors import EnvironmentFault, RunError, UserError
from tdu.run.runners import interaction, stepwise
from tdu.run.runners.protocol import Budget
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.types import EnvSpec

SPEC = EnvSpec("four numbers", (4,), 2)
FAST = {"hidden_sizes": (16,), "batch_size": 16, "min_replay": 16, "learning_rate": 1e-2, "replay_capacity": 1000}
OPTIONS = {
    "tdu": FAST | {"exploiters": 2, "explorers": 1}, "dqn": FAST, "tdu_ac": {"hidden_sizes": (4,)},
    "bdqn": FAST | {"exploiters": 2, "acting": "live", "return_steps": 3},
}  # fmt: skip
LIVE, FROZEN, JOINED = "dqn", "tdu", "bdqn"


@functools.cache
def agent_of(name):
    return agents.find(name).make(SPEC, agents.configure(name, OPTIONS[name]))


def runner_of(env, name=FROZEN, *, seed=0, steps=None, episodes=None):
    return StepwiseRunner(env, agent_of(name), seed, budget=Budget(episodes, steps), until="budget")


def finished(runner):
    """Advances a run to its end and returns its rows."""
    rows = []
    while not runner.finished:
        rows += runner.advance()
    return rows


def side_by_side(make, size, seed=0, **settings):
    """Environments in this process, stepped one by one."""
    parts = [make(row, **settings) if make is Diary else make() for row in range(size)]
    vector = environments.make(SyncVectorEnv([lambda part=part: part for part in parts]), seed)
    assert isinstance(vector, PythonVector)
    return vector, parts


def stored(runner):
    """The transitions in the replay, as NumPy arrays."""
    runner.params()  # learns from the gathered steps
    ring = runner._player.carry.learner.replay
    return jax.tree.map(lambda x: np.asarray(x)[: int(ring.filled)], ring.data)


def answers(runner):
    """The agent's current greedy actions for the two signs."""
    values = jax.jit(runner._agent.values)
    return [int(np.argmax(values(runner.params(), np.array([sign, 0, 0, 0], np.float32)))) for sign in (-1, 1)]


def assert_true(data, rows, size):
    """Asserts that every transition is one step of one episode, with none missing and none repeated."""
    (row, episode, step, length), after = data.o_tm1.T, data.o_t.T
    np.testing.assert_array_equal(after[[0, 1, 3]], [row, episode, length])
    np.testing.assert_array_equal(after[2], step + 1)
    last = after[2] == length
    np.testing.assert_array_equal(data.d_t, np.where(last & (episode % 2 == 1), 0.0, 1.0))
    np.testing.assert_array_equal(data.r_t, data.a_tm1 + 1)
    met = set(zip(row, episode, step, strict=True))
    assert len(met) == len(row)
    for ended in zip(row[last], episode[last], length[last], strict=True):
        assert met >= {(*ended[:2], float(t)) for t in range(int(ended[2]))}
    assert set(row) == set(range(size))
    assert sorted(r["episode_len"] for r in rows) == sorted(length[last])
    assert len(rows) > 3 * size


def test_several_environments_learn():
    vector, _ = side_by_side(Sign, 4)
    runner = runner_of(vector, episodes=300)
    rows = finished(runner)
    assert [row["episode"] for row in rows] == list(range(1, 301))
    first, last = ([row["episode_return"] for row in rows[part]] for part in (np.s_[:20], np.s_[-60:]))
    assert np.mean(first) < 1.5
    assert np.mean(last) > 1.9
    assert answers(runner) == [0, 1]
    assert runner.clock.steps == 600 == rows[-1]["steps"]


def test_true_last_observations_reach_the_replay_and_every_environment_is_closed():
    vector, parts = side_by_side(Diary, 4)
    runner = runner_of(vector, steps=240)
    rows = finished(runner)
    assert_true(stored(runner), rows, 4)
    assert len(stored(runner).r_t) == 240
    runner.close()
    assert [part.closed for part in parts] == [1] * 4


def test_of_episodes_that_end_together_those_within_the_budget_are_logged():
    """All four episodes end in every second round."""
    for budget, logged in (({"episodes": 6}, 6), ({"steps": 9}, 4), ({"steps": 16}, 8)):
        rows = finished(runner_of(side_by_side(Sign, 4)[0], **budget))
        assert [row["episode"] for row in rows] == list(range(1, logged + 1))


def test_one_seed_twice_is_one_run_and_episodes_have_seeds_of_their_own():
    runs = []
    for seed in (1, 1, 2):
        vector, parts = side_by_side(Diary, 4, seed)
        runner = runner_of(vector, seed=seed, steps=120)
        runs.append((finished(runner), [part.seeds for part in parts], runner.params()))
    assert runs[0][:2] == runs[1][:2]
    jax.tree.map(np.testing.assert_array_equal, runs[0][2], runs[1][2])
    assert runs[0][0] != runs[2][0]
    seeds = [seed for _, parts, _ in runs[1:] for part in parts for seed in part]
    assert len(set(seeds)) == len(seeds) > 40


def test_a_vector_of_one_is_the_environment_alone():
    runs = []
    for env in (Diary(), SyncVectorEnv([Diary])):
        runner = runner_of(environments.make(env, 5), seed=5, steps=60)
        runs.append((finished(runner), runner.params()))
    assert runs[0][0] == runs[1][0]
    jax.tree.map(np.testing.assert_array_equal, runs[0][1], runs[1][1])


def test_an_id_is_made_num_envs_times():
    made = environments.make("gym:CartPole-v1", 0, num_envs=3)
    assert (type(made), made.size) == (PythonVector, 3)
    first = made.start()
    assert len({tuple(row) for row in first}) == 3, "each row has a seed of its own"
    for env, count, words in (
        (Diary(), 2, "an object is one environment"),
        (SyncVectorEnv([Diary] * 3), 2, "has 3 environments, not 2"),
    ):
        with pytest.raises(UserError, match=words):
            environments.make(env, num_envs=count)


class Wrapped(VectorWrapper):
    """A vector that is not split into its environments; it checks the actions."""

    hides_last = False

    def step(self, actions):
        assert actions.shape == (self.num_envs,)
        assert self.action_space.contains(actions)
        observations, reward, terminated, truncated, info = self.env.step(actions)
        return observations, reward, terminated, truncated, {} if self.hides_last else info


def gymnasium_s(mode, size=3):
    vector = Wrapped(SyncVectorEnv([lambda row=row: Diary(row) for row in range(size)], autoreset_mode=mode))
    assert isinstance(vector.action_space, spaces.MultiDiscrete)
    return vector


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("name", [FROZEN, LIVE])
def test_every_way_of_beginning_again_gives_only_true_transitions(mode, name):
    env = gymnasium_s(mode)
    made = environments.make(env, 7)
    assert isinstance(made, GymnasiumVector)
    assert (made.spec.num_actions, made.size, made.exact) == (2, 3, False)
    runner = runner_of(made, name, steps=200)
    rows = finished(runner)
    assert_true(stored(runner), rows, 3)
    assert 200 <= runner.clock.steps == len(stored(runner).r_t) < 203
    runner.close()
    assert [part.closed for part in env.unwrapped.envs] == [1] * 3


def joined(runner, batches=40):
    """Batches that the agent would learn from."""
    learner, draw = runner._player.carry.learner, jax.jit(runner._agent.examiner.remembered)
    return [jax.tree.map(np.asarray, draw(learner, jax.random.key(i))) for i in range(batches)]


def both_ends(drawn):
    """The observations before and after, each [4, N]."""
    return (np.concatenate([getattr(batch, name) for batch in drawn]).T for name in ("o_tm1", "o_t"))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rewards_of_several_steps_are_of_one_episode_of_one_environment(mode):
    runner = runner_of(environments.make(gymnasium_s(mode), 7), JOINED, steps=200)
    rows = finished(runner)
    assert_true(stored(runner), rows, 3)
    drawn = joined(runner)
    (row, episode, step, length), after = both_ends(drawn)
    rewards, worth = (np.concatenate([getattr(d, name) for d in drawn]) for name in ("r_t", "d_t"))
    np.testing.assert_array_equal(after[[0, 1, 3]], [row, episode, length])
    steps = (after[2] - step).astype(int)
    assert set(steps) == {1, 2, 3}
    np.testing.assert_allclose(
        worth, np.where((after[2] == length) & (episode % 2 == 1), 0.0, 0.99 ** (steps - 1)), rtol=1e-6
    )
    least = np.cumsum(0.99 ** np.arange(3))[steps - 1]  # a step pays 1 or 2
    assert np.all((least - 1e-5 < rewards) & (rewards < 2 * least + 1e-5))
    assert len(np.unique(rewards.round(4))) > 4


def test_the_same_steps_are_taken_in_whichever_way_episodes_begin():
    """A call that only begins an episode is not a step, so it changes neither returns nor lengths."""
    for mode in AutoresetMode:
        rows = finished(runner_of(environments.make(gymnasium_s(mode), 7), steps=60))
        assert {row["episode_len"] for row in rows} <= {2, 3, 4, 5}
        assert all(row["episode_len"] <= row["episode_return"] <= 2 * row["episode_len"] for row in rows)


def test_environments_in_processes_of_their_own():
    env = AsyncVectorEnv([functools.partial(Diary, row) for row in range(3)], context="spawn")
    runner = runner_of(environments.make(env, 7), steps=60)
    rows = finished(runner)
    assert_true(stored(runner), rows, 3)
    runner.close()
    assert env.closed


def test_invalid_vectors_are_reported():
    env = gymnasium_s(AutoresetMode.SAME_STEP)
    env.hides_last = True
    with pytest.raises(EnvironmentFault, match="final_obs"):
        finished(runner_of(environments.make(env), steps=60))

    class Several(Diary):
        action_space = spaces.MultiBinary(2)

    with pytest.raises(UserError, match="does not have discrete actions but MultiBinary"):
        environments.make(SyncVectorEnv([Several] * 2))


def test_an_agent_of_one_stream_refuses_several_environments():
    vector, _ = side_by_side(Diary, 2)
    with pytest.raises(UserError, match="use num_envs 1, not 2"):
        runner_of(vector, "tdu_ac", steps=10)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", [FROZEN, LIVE, JOINED])
def test_a_run_is_put_back_in_the_middle_of_an_episode(name, size, monkeypatch):
    monkeypatch.setattr(stepwise, "_MOST_STEPS", 3)  # returns before an episode ends

    def runner():
        return runner_of(side_by_side(Diary, size, 4)[0], name, seed=4)

    whole, cut, again = runner(), runner(), runner()
    rows = [row for _ in range(60) for row in whole.advance()]
    first = [row for _ in range(31) for row in cut.advance()]
    saved = cut.save()
    assert saved.arrays["lengths"].any(), "it is in the middle of an episode"
    again.restore(
        saved._replace(
            state=jax.tree.map(np.array, saved.state),
            arrays={name: x.copy() for name, x in saved.arrays.items()},
            plain=json.loads(json.dumps(saved.plain)),
        )
    )
    assert again.clock == cut.clock
    assert first + [row for _ in range(29) for row in again.advance()] == rows
    a, b = whole.save(), again.save()
    jax.tree.map(np.testing.assert_array_equal, (a.state, a.arrays), (b.state, b.arrays))
    assert a.plain == b.plain
    assert_true(stored(again), rows, size)


def test_environments_that_cannot_be_replayed_are_reported():
    def runner():
        return runner_of(environments.make(Diary(repeatable=False)), steps=40)

    one, other = runner(), runner()
    one.advance()
    with pytest.raises(RunError, match=r"^Diary .* cannot be continued; .*\.$"):
        other.restore(one.save())


def test_environments_that_cannot_be_restored_begin_anew():
    def runner():
        return runner_of(environments.make(gymnasium_s(AutoresetMode.NEXT_STEP), 3), steps=120)

    one, other = runner(), runner()
    for _ in range(8):
        one.advance()
    other.restore(one.save())
    assert other.clock == one.clock
    assert not other.exact
    rows = finished(other)
    assert 120 <= other.clock.steps < 123
    assert {row["episode_len"] for row in rows} <= {2, 3, 4, 5}, "episodes under way are given up, not prolonged"


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rewards_of_an_episode_that_was_abandoned_are_not_joined_with_those_of_the_next(mode):
    one, other = (runner_of(environments.make(gymnasium_s(mode), 3), JOINED, steps=120) for _ in range(2))
    for _ in range(8):
        one.advance()
    other.restore(one.save())
    finished(other)
    before, after = both_ends(joined(other))
    np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])
    assert set((after[2] - before[2]).tolist()) == {1, 2, 3}


def test_an_endless_episode_hands_back_control_and_ends_with_the_budget(monkeypatch):
    monkeypatch.setattr(stepwise, "_MOST_SECONDS", 1e9)
    runner = runner_of(environments.make(Diary(endless=True)), steps=2500)
    taken = []
    while not runner.finished:
        assert runner.advance() == []
        taken.append(runner.clock.steps)
    assert taken == [1000, 2000, 2500]
    logged = runner.learner_rows()
    assert [row["steps"] for row in logged] == [1000, 2000, 2500]
    assert sum(row["updates"] for row in logged) == 2500 - 15
    assert runner.learner_rows() == []
    monkeypatch.setattr(stepwise, "_MOST_SECONDS", 0.0)
    slow = runner_of(environments.make(Diary(endless=True)), steps=2500)
    slow.advance()
    assert slow.clock.steps == 1, "nor is a slow one waited for"


@pytest.mark.parametrize(("name", "size"), [(LIVE, 1), (FROZEN, 1), (FROZEN, 3)])
@pytest.mark.parametrize("age", [1, 2])
def test_a_run_learns_across_the_end_of_32_bits(name, size, age):
    runners = (runner_of(side_by_side(Sign, size)[0], name, seed=seed) for seed in range(20))
    runner = next(runner for runner in runners if answers(runner) != [0, 1])  # it has not learned yet
    boundary = age * (interaction.FOLDED_STEPS // size)
    saved = runner.save()
    plain = saved.plain | {"rounds": boundary - 41, "steps": (boundary - 41) * size}
    runner.restore(saved._replace(state=jax.tree.map(np.array, saved.state), plain=plain))
    rows = []
    while runner.clock.steps < (boundary + 200) * size:
        rows += runner.advance()
    assert rows[-1]["steps"] > boundary * size
    assert all(np.isfinite(row["loss"]) for row in rows)
    assert answers(runner) == [0, 1]
