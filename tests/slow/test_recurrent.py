"""Runs of recurrent agents: the replay stores what happened, and a restored run continues exactly."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diary import Diary, Sign
from gymnasium.vector import SyncVectorEnv, VectorWrapper

import tdu
from tdu import agents, environments
from tdu.agents.r2d2 import network
from tdu.environments.gymnasium import GymnasiumVector
from tdu.environments.vector import PythonVector
from tdu.errors import UserError
from tdu.run.folder import checkpoints
from tdu.run.folder.log import EMPTY
from tdu.run.plan import resolve
from tdu.run.runners.protocol import Budget
from tdu.run.runners.recurrent import RecurrentRunner
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.run.stored import _acting_on_explorers as on_explorers_of
from tdu.run.trained import TrainedAgent, play
from tdu.types import Actor, Agent, EnvSpec

TINY = {
    "hidden_sizes": (6,), "lstm_size": 4, "head_size": 4, "exploiters": 2, "batch_size": 4, "trace_length": 6,
    "burn_in": 2, "replay_period": 4, "rollout": 7, "learn_period": 16, "min_replay": 6, "replay_capacity": 200,
    "target_period": 3, "mask_prob": 0.7,
}  # fmt: skip
SIZE = 3
ROOM = environments.make("key_door:size=3,limit=7,observation=features")
"""A compiled environment with truncations and terminations."""


@functools.cache
def agent_of(spec, name="tdu_r2d2", **options):
    explorers = {} if name == "r2d2" else {"explorers": 1}
    return agents.find(name).make(spec, agents.configure(name, TINY | explorers | options, "memory"))


def vector_of(kind, size=SIZE, make=Diary):
    """B environments in Python: our vector, or Gymnasium's, which uses one call to begin each episode."""
    parts = [(lambda row=row: make(row) if make is Diary else make()) for row in range(size)]
    together = SyncVectorEnv(parts)
    vector = environments.make(together if kind == "ours" else VectorWrapper(together), 0)
    assert isinstance(vector, PythonVector if kind == "ours" else GymnasiumVector)
    assert vector.skips == (kind == "theirs")
    return vector


def runner_of(env, name="tdu_r2d2", *, seed=0, steps=None, episodes=None, **options):
    agent = agent_of(env.spec, name, **options)
    return RecurrentRunner(env, agent, seed, budget=Budget(episodes, steps), until="budget", num_envs=SIZE)


def finished(runner):
    rows = []
    while not runner.finished:
        rows += runner.advance()
    return rows


def stored(runner):
    """Every sequence in the replay by stream and start: steps [T, …] and memory."""
    replay, found = runner._replay, {}
    for seed in range(50):
        drawn = replay.sample(64, np.random.default_rng(seed))
        for b, id_ in enumerate(drawn.ids.tolist()):
            block = replay._slots[id_ % replay.capacity, 0]
            name, number = replay._names[block].tolist()
            one = jax.tree.map(lambda x, b=b: x[:, b], drawn.steps), jax.tree.map(lambda x, b=b: x[b], drawn.memory)
            found[name, 4 * number] = one
        if len(found) == len(replay):
            break
    assert len(found) == len(replay) > 20
    return found


def assert_true(steps):
    """Asserts that steps and episodes are consecutive, and that each step has the previous action and reward."""
    row, episode, time, length = steps.observation.T
    np.testing.assert_array_equal(steps.first, time == 0)
    ends = ~steps.valid
    np.testing.assert_array_equal(ends, (time == length) & (episode % 2 == 0))
    assert not ((time == length) & (episode % 2 == 1)).any()  # the observation after a termination is not stored
    assert len(set(row)) == 1
    gives = steps.valid
    np.testing.assert_array_equal(steps.reward[gives], steps.action[gives] + 1)
    over = (time + 1 == length) & (episode % 2 == 1)
    np.testing.assert_array_equal(steps.discount[gives], np.where(over, 0.0, 1.0)[gives])
    for t in range(1, len(time)):
        if steps.first[t]:
            assert episode[t] == episode[t - 1] + 1
            assert (steps.previous_action[t], steps.previous_reward[t]) == (-1, 0)
        else:
            assert (episode[t], time[t]) == (episode[t - 1], time[t - 1] + 1)
            assert steps.previous_action[t] == steps.action[t - 1]
            assert steps.previous_reward[t] == steps.reward[t - 1]


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_what_is_stored_is_what_happened_and_what_was_remembered_then(kind):
    """Without learning, a memory recomputed from the previous sequence equals the stored one."""
    runner = runner_of(vector_of(kind), steps=240, min_replay=200)
    rows = finished(runner)
    sequences = stored(runner)
    assert {stream for stream, _ in sequences} == set(range(SIZE))
    for steps, _ in sequences.values():
        assert_true(steps)
    assert len(memories_of(runner, sequences)) > 10
    assert rows[-1]["steps"] <= runner.clock.steps
    assert runner.clock.steps >= 240
    assert [row["episode"] for row in rows] == list(range(1, len(rows) + 1))


_DIARY = EnvSpec("diary", (4,), 2)


@functools.cache
def memory_after(spec=_DIARY, name="tdu_r2d2"):
    """A function that returns the network's memory after several steps."""
    config = agents.configure(name, TINY | {"explorers": 1}, "memory")
    net = network.make(spec, config)
    return jax.jit(lambda params, memory, shown: net.unroll(params, memory, shown)[1])


def remembered(params, memory, steps, *of):
    batched = jax.tree.map(lambda x: x[:, None], steps)
    after = memory_after(*of)(params, jax.tree.map(lambda x: x[None], memory), batched)
    return jax.tree.map(lambda x: x[0], after)


def memories_of(runner, sequences, *of):
    """The stored memories that are not zero. Asserts that each one leads to the memory of the next sequence."""
    params, looked_at = runner.params(), []
    for (stream, start), (steps, memory) in sequences.items():
        if (stream, start + 4) in sequences and not steps.first[4]:  # a new episode resets the memory anyway
            recomputed = remembered(params, memory, jax.tree.map(lambda x: x[:4], steps), *of)
            after = sequences[stream, start + 4][1]
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), recomputed, after)
            if any(np.any(x) for x in jax.tree.leaves(memory)):
                looked_at.append(memory)
    return looked_at


def test_what_priors_remember_in_compiled_environments_is_stored_too():
    runner = runner_of(ROOM, "tdu_r2d2_prior", steps=240, min_replay=200)
    finished(runner)
    memories = memories_of(runner, stored(runner), ROOM.spec, "tdu_r2d2_prior")
    assert {len(jax.tree.leaves(memory)) for memory in memories} == {4}  # two of the network, two of the priors
    assert sum(all(np.any(x) for x in jax.tree.leaves(memory)) for memory in memories) > 5


def test_a_mask_is_drawn_for_every_sequence():
    runner = runner_of(ROOM, steps=420)  # with probability 0.7
    finished(runner)
    masks = runner._replay._mask[: len(runner._replay)]
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert 0.6 < masks.mean() < 0.8
    assert len(np.unique(masks, axis=0)) > 4


def test_counts_are_refused_where_a_call_may_be_no_step():
    with pytest.raises(UserError, match="bonus counts does not work"):
        runner_of(vector_of("theirs"), steps=40, bonus="counts")


@pytest.mark.parametrize("env", ["gym:MiniGrid-Empty-5x5-v0", "gymnax:Breakout-MinAtar"])
def test_environments_that_users_bring(env):
    run = tdu.train(env, "tdu_r2d2", steps=60, num_envs=2, explorers=1, say=lambda words: None, **TINY)
    assert run.result["steps"] == 60
    assert run.config.num_envs == 2


def test_compiled_environments_give_true_streams_too():
    runner = runner_of(ROOM, steps=420)
    rows = finished(runner)
    for steps, _ in stored(runner).values():
        for t in range(1, len(steps.action)):
            if steps.first[t]:
                assert not steps.valid[t - 1] or steps.discount[t - 1] == 0
                assert steps.previous_action[t] == -1
            else:
                assert steps.valid[t - 1]
                assert steps.previous_action[t] == steps.action[t - 1]
                assert steps.previous_reward[t] == steps.reward[t - 1]
    assert runner.clock.steps == 420 == 140 * SIZE
    assert all(row["episode_len"] <= 7 for row in rows)
    learner_rows = runner.learner_rows()
    assert learner_rows[-1]["learning_steps"] == runner._updates > 10
    assert learner_rows[-1]["frames"] == 420
    for words in (
        "420 frames, acting",
        "frames/s",
        "learning steps",
        "replay",
        "σ",
        "exploiters return",
        "explorers return",
    ):
        assert words in runner.status()


def test_the_ratio_of_learning_to_acting_is_held():
    runner = runner_of(ROOM, steps=600)
    while not runner.finished:
        runner.advance()
        if runner._learns_from is not None:
            assert runner._updates == (runner.clock.steps - runner._learns_from) // 16


def state_of(runner):
    saved = runner.save()
    return jax.tree.map(np.asarray, (saved.state, saved.arrays, {**saved.plain, "progress": None}))


@pytest.mark.parametrize("kind", ["compiled", "ours"])
def test_one_seed_twice_is_one_run_and_one_that_is_put_back_goes_on_as_it_would_have(kind, tmp_path):
    def made(seed=1):
        env = ROOM if kind == "compiled" else vector_of("ours")
        return runner_of(env, seed=seed, steps=320, replay_capacity=30)  # small enough to delete old sequences

    whole, twin, other = made(), made(), made(seed=2)
    rows = finished(whole)
    assert finished(other) != rows
    first = [row for _ in range(9) for row in twin.advance()]
    checkpoints.save(
        tmp_path, twin.save(), step=9, run={}, seconds=0.0, log=EMPTY, other_logs={}, versions=[{"tdu": "1"}]
    )  # through real files
    again = made()
    saved, _ = checkpoints.load_latest(tmp_path, again.save(), lambda manifest: None, print)
    assert json.loads(json.dumps(saved.plain)) == saved.plain
    again.restore(saved)
    for goes_on in (twin, again):
        assert first + finished(goes_on) == rows
        jax.tree.map(np.testing.assert_array_equal, state_of(goes_on), state_of(whole))
        assert goes_on.progress.to_plain() == whole.progress.to_plain()
    assert whole._updates > 5


def test_environments_that_cannot_be_restored_begin_new_streams():
    runner = runner_of(vector_of("theirs"), steps=200)
    for _ in range(5):
        runner.advance()
    saved = jax.tree.map(np.array, runner.save().state), dict(runner.save().arrays), runner.save().plain
    again = runner_of(vector_of("theirs"), steps=200)
    again.restore(runner.save()._replace(state=saved[0], arrays={n: x.copy() for n, x in saved[1].items()}))
    assert not again.exact
    finished(again)
    streams = {stream for stream, _ in stored(again)}
    assert streams == set(range(2 * SIZE))


def test_a_run_of_a_memory_task_is_trained_loaded_evaluated_and_acts(tmp_path):
    """Length 3: the last action must repeat the first observation."""
    options = TINY | {"trace_length": 10, "replay_period": 5, "batch_size": 16, "lstm_size": 16, "hidden_sizes": (16,)}
    options |= {
        "exploiters": 1,
        "mask_prob": 1.0,
        "learning_rate": 5e-3,
        "learn_period": 8,
        "head_size": 16,
        "min_replay": 20,
    }
    said = []
    run = tdu.train(
        "bsuite:memory_len/2", "r2d2", seed=3, steps=3000, num_envs=4, out=tmp_path / "run", say=said.append,
        evaluation_episodes=40, evaluate_every=150, discount=0.9, **options,
    )  # fmt: skip
    assert run.result["greedy_return"]["mean"] > 0.9
    assert run.log["episode_return"][:50].mean() < 0.6
    assert any("the replay of 200 sequences will take" in words for words in said)
    loaded = tdu.load(tmp_path / "run")
    evaluated = tdu.evaluate(tmp_path / "run", episodes=50)
    assert evaluated["mean_return"] > 0.9
    assert tdu.load(tmp_path / "run", best=True).agent.spec == loaded.agent.spec
    best, last = ((tmp_path / "run" / place).glob("*/arrays.safetensors") for place in ("best", "checkpoints"))
    assert next(best).stat().st_size < 1000 < next(last).stat().st_size  # stored for acting only, without the replay
    answers = []
    for bit in (-1.0, 1.0):
        loaded.agent.begin_episode()
        for t in range(4):
            shown = np.array([[1 - t / 3, 0, bit if t == 0 else 0]], np.float32)
            value = loaded.agent.values(shown)
            action = loaded.agent.act(shown)
            assert action == np.argmax(value)
        answers.append(action)
    assert answers == [0, 1]
    text = (tmp_path / "run" / "learner.csv").read_text().splitlines()
    assert text[0] == "steps,updates,bonus,loss,gradient_norm,largest_q,frames,learning_steps,sequences"
    assert len(text) > 2


class Listening(TrainedAgent):
    """Counts its actions."""

    acted = 0

    def act_on(self, timestep):
        Listening.acted += 1
        return super().act_on(timestep)


def test_evaluation_in_a_vector_that_waits_does_not_look_at_what_is_over(monkeypatch):
    """Five episodes of two steps are ten actions, whichever way the vector begins its episodes."""
    monkeypatch.setattr("tdu.run.trained.TrainedAgent", Listening)
    spec = vector_of("ours", 1, Sign).spec
    agent = agent_of(spec)
    trained = TrainedAgent(spec, agent, jax.jit(agent.params)(jax.jit(agent.init)(jax.random.key(0))))
    for wrap in (lambda env: env, VectorWrapper):
        monkeypatch.setattr(Listening, "acted", 0)
        assert len(play(wrap(SyncVectorEnv([Sign])), trained, episodes=5).returns) == 5
        assert Listening.acted == 10


def counting_agent(gathers):
    """An agent whose memory counts its actions in the episode. Its learner stores what `observe` receives."""

    def begin(params, key):
        return jnp.zeros((), jnp.int32)

    def act(params, count, timestep, key):
        return jnp.zeros((), jnp.int32), count + 1

    def observe(state, count, transition, key):
        number, log = state
        noted = jnp.append(transition.o_tm1, count.astype(jnp.float32))
        return number + 1, log.at[number].set(noted)

    zero = dict.fromkeys(("loss", "bonus", "updates", "largest_q", "largest_extra"), jnp.zeros(()))
    actor = Actor(begin, act, remembers=True)
    return Agent(
        init=lambda key: (jnp.zeros((), jnp.int32), jnp.zeros((200, 5))),
        params=lambda state: (),
        actor=actor,
        evaluator=actor,
        values=lambda params, observation: jnp.zeros(2),
        observe=observe,
        learn=lambda state, key: (state, zero),
        rebase=lambda state: state,
        head=lambda count: jnp.zeros((), jnp.int32),
        discount=0.9,
        live=not gathers,
    )


@pytest.mark.parametrize("kind", ["ours", "theirs"])
@pytest.mark.parametrize("gathers", [False, True])
def test_the_stepwise_runner_gives_every_step_the_memory_of_its_own(kind, gathers):
    runner = StepwiseRunner(vector_of(kind), counting_agent(gathers), 0, budget=Budget(None, 90), until="budget")
    finished(runner)
    runner.params()
    number, log = jax.tree.map(np.asarray, runner._player.carry.learner)
    log = log[:number]
    assert number >= 90
    np.testing.assert_array_equal(log[:, 4], log[:, 2] + 1)  # acted once for every step of the episode


def test_presets_follow_the_environment_and_are_reported():
    for env, preset, envs in (
        ("deep_sea:size=10", "deep-sea", 8), ("gymnax:Breakout-MinAtar", "minatar", 16), ("memory_len/9", "memory", 8),
        ("gym:CartPole-v1", "memory", 8), ("atari/freeway", "atari-small", 16),
    ):  # fmt: skip
        plan = resolve(env, "tdu_r2d2")
        expected = agents.configure("tdu_r2d2", {}, preset)
        assert agents.configure("tdu_r2d2", plan.config.config) == expected
        assert plan.config.num_envs == envs
        assert plan.note.startswith(f"tdu_r2d2 uses the preset {preset},")
    assert resolve(Diary(), "r2d2").config.num_envs == 1
    assert resolve("deep_sea", "r2d2", num_envs=3).config.num_envs == 3
    with pytest.raises(UserError, match="preset general is for other agents"):
        resolve("deep_sea", "r2d2", preset="general")


def test_a_replay_that_does_not_fit_is_refused_before_anything_starts(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UserError, match=r"needs \d+\.\d GB of memory .* the largest replay_capacity that fits is \d+"):
        tdu.train("deep_sea:size=4", "r2d2", episodes=1, replay_capacity=10**8, out=out, say=lambda words: None)
    assert not out.exists()
    out.mkdir()  # an existing folder is kept
    with pytest.raises(UserError, match="the largest replay_capacity"):
        tdu.train("deep_sea:size=4", "r2d2", episodes=1, replay_capacity=10**8, out=out, say=lambda words: None)
    assert out.exists()


def test_an_object_is_one_environment_and_agents_with_a_memory_are_no_drop_in():
    run = tdu.train(Sign(), "r2d2", steps=40, say=lambda words: None, **TINY)
    assert (run.config.num_envs, run.result["steps"]) == (1, 40)
    import bsuite

    with pytest.raises(UserError, match=r"use tdu\.train"):
        tdu.bsuite_agent(bsuite.load_from_id("catch/0"), "r2d2")


def test_a_run_is_evaluated_on_its_explorers_too(tmp_path):
    quiet = {"say": lambda words: None, "evaluation_episodes": 0}
    ends = {"out": tmp_path / "run", "steps": 200, "num_envs": 2}
    tdu.train("deep_sea:size=4", "tdu_r2d2", **ends, **quiet, **TINY, explorers=1, beta=50.0)
    exploiting, exploring = (
        tdu.evaluate(tmp_path / "run", episodes=20, explorers=explorers) for explorers in (False, True)
    )
    assert exploiting["episodes"] == exploring["episodes"] == 20
    trained = tdu.load(tmp_path / "run").agent
    on_explorers = on_explorers_of(tdu.load(tmp_path / "run"))
    assert not np.allclose(trained.values(np.int32(0)), on_explorers.values(np.int32(0)))
    tdu.train("deep_sea:size=4", "r2d2", **{**ends, "out": tmp_path / "one"}, **quiet, **{**TINY, "exploiters": 1})
    with pytest.raises(UserError, match="evaluate=explorers needs explorers"):
        tdu.evaluate(tmp_path / "one", explorers=True)


def test_a_vector_of_one_s_own_is_trained_on_as_it_is():
    """The run uses all environments of the vector, whatever the preset's number is."""
    run = tdu.train(SyncVectorEnv([Sign] * 3), "r2d2", steps=90, evaluation_episodes=0, say=lambda words: None)
    assert run.result["steps"] >= 90
    assert run.config.num_envs == 3
    with pytest.raises(UserError, match="has 3 environments, not 2"):
        tdu.train(SyncVectorEnv([Sign] * 3), "r2d2", steps=90, num_envs=2)
