"""Counters do not overflow: a run continues past 2³¹ and 2³² steps, and reducing 32-bit counters changes nothing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import agents, environments
from tdu.run.runners import interaction
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.protocol import Budget
from tdu.run.trained import TrainedAgent, play
from tdu.values.shape import MAX_COUNT

ENV = environments.make("deep_sea:size=3,mapping_seed=4")
CHUNK = 60
PERIOD = interaction.REBASE_PERIOD


@functools.cache
def agent_of(dense):
    options = {"hidden_sizes": (16,), "batch_size": 8, "min_replay": 16, "replay_capacity": 50, "epsilon": 0.3}
    options |= {"learning_rate": 1e-2, "target_period": 3, "dense": dense}
    return agents.find("dqn").make(ENV.spec, agents.configure("dqn", options))


def runner_of(dense=False, *, steps, seed=0):
    """A run whose clock is at `steps`."""
    runner = CompiledRunner(ENV, agent_of(dense), seed, budget=Budget(None), until="budget", chunk=CHUNK)
    runner._steps = runner._began = steps
    return runner


def best_return(runner):
    trained = TrainedAgent(runner.spec, runner._agent, runner.params())
    return play(ENV, trained, episodes=1).returns[0]


@pytest.mark.parametrize("boundary", [2**31, 2**32, 2**40])
def test_a_run_learns_across_the_end_of_32_bits(boundary):
    runner = runner_of(steps=boundary - 100)
    assert best_return(runner) < 0.1
    rows, clocks = [], []
    while runner.clock.steps < boundary + 900:
        rows += runner.advance()
        clocks.append(runner.clock.steps - boundary)
    assert clocks[:4] == [-40, 0, 60, 120], "a chunk ends where the numbers of the steps begin anew"
    assert best_return(runner) == pytest.approx(0.99)
    assert [row["steps"] for row in rows] == list(range(boundary - 97, boundary + 900, 3))
    assert all(np.isfinite(row["loss"]) for row in rows)
    heads = jax.tree.map(np.asarray, runner.carry.player.learner.values)
    assert 900 < int(heads.step) <= 1000


def test_draws_do_not_repeat_after_two_billion_steps():
    """Two runs start from the same state, one at step 0 and one at step 2³¹. Their episodes differ."""
    one, other = runner_of(steps=0), runner_of(steps=2**31)
    rows = [[row for _ in range(3) for row in runner.advance()] for runner in (one, other)]
    assert len(rows[0]) == len(rows[1]) == 60
    returns = [[row["episode_return"] for row in each] for each in rows]
    assert returns[0] != returns[1]


def late(runner, by):
    """Raises the learner's counters, as if it had made `by` more learning steps."""
    heads = runner.carry.player.learner.values
    heads = heads._replace(step=heads.step + by)
    if hasattr(heads, "table"):
        table = heads.table._replace(touched=heads.table.touched + by, copied=heads.table.copied + by)
        heads = heads._replace(table=table)
    player = runner.carry.player
    runner.carry = runner.carry._replace(player=player._replace(learner=player.learner._replace(values=heads)))


@pytest.mark.parametrize("dense", [False, True])
def test_a_run_is_the_same_with_its_counters_reset(dense, monkeypatch):
    """The run passes 2³⁰ learning steps and a multiple of 2²⁸ environment steps, where counters are reduced."""

    def run():
        runner = runner_of(dense, steps=4 * PERIOD - 2 * CHUNK, seed=1)
        rows = runner.advance()
        by = MAX_COUNT // 3 * 3
        late(runner, by)
        rows += [row for _ in range(6) for row in runner.advance()]
        heads = runner.carry.player.learner.values
        params = runner.params()
        q = jax.jit(jax.vmap(runner._agent.values, in_axes=(None, 0)))(params, jnp.arange(10))
        return rows, int(heads.step), np.asarray(q)

    rows, step, q = run()
    monkeypatch.setattr(interaction, "REBASE_PERIOD", 1 << 62)
    plain_rows, plain_step, plain_q = run()
    assert plain_step > MAX_COUNT > 2 * step - 1000
    assert len(rows) == len(plain_rows) == 7 * CHUNK // 3
    for name in ("episode_return", "loss", "steps"):
        ours, theirs = ([row[name] for row in each] for each in (rows, plain_rows))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(q, plain_q, rtol=1e-6, atol=1e-6)
    assert plain_rows[-1]["loss"] > 0
