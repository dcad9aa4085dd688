"""(d) The agents' own networks during training, compared with the true posterior given the same transitions.

At every checkpoint, σ(Q) and σ(δ) of the exploiters at every reachable state-action pair are compared with the
standard deviations of Q_π and δ under the posterior p(M), where π is greedy on the exploiters' mean. The measure is
Spearman's rank correlation over pairs. δ_k = r + γ·max_a Q_k(s', a) − Q_k(s, a) on the pair's likeliest transition is
what TDU's bonus uses. `td_of_policy` is like for like with the truth: each member values the policy's next action,
not its own best one.

The truth is sampled; `…_error` is the jackknife error of a correlation over ten groups of draws.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reproduction.theory.statements import MAPPING_SEED, Advance, TableRow
from tdu import agents, environments, values
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.environments.binary_tree import onward_actions
from tdu.environments.deep_sea import action_mapping
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.protocol import Budget
from tdu.theory import families
from tdu.theory.mdp import MDP, Real, greedy, next_values
from tdu.theory.posterior import Data, Posterior, prior
from tdu.types import Agent, Environment

AGENTS = ("tdu", "bdqn")
STEPS_PER_CHUNK = 100
SEA_SIZE, TREE_DEPTH = 6, 10
COMPARED = (("q", "q"), ("td", "td"), ("td", "q"), ("td_of_policy", "td"), ("q", "td"))
"""Spread of the exploiters, spread of the truth."""
GROUPS = 10


class Training(NamedTuple):
    """How much is trained."""

    seeds: int
    checkpoints: tuple[int, ...]
    """Environment steps, multiples of STEPS_PER_CHUNK."""
    samples: int
    options: dict[str, object]
    """Options of the agents."""


class KnownTask(NamedTuple):
    """An agents' task as an MDP with a prior."""

    env: str
    task: MDP
    prior: Posterior
    pairs: Any
    """Which pairs can be reached, [S, A]."""


TASKS = ("deep_sea", "tree", "deep_sea_stochastic")


def known(task: str) -> KnownTask:
    """Deep Sea, deterministic or stochastic, or the tree. The prior of rewards is N(0, 1)."""
    if task == "tree":
        tree = families.binary_tree(onward_actions(TREE_DEPTH, MAPPING_SEED))
        before = prior(families.binary_tree_support(TREE_DEPTH), noise_sd=0.1)
        env = f"binary_tree:depth={TREE_DEPTH},seed={MAPPING_SEED}"
        return KnownTask(env, tree, before, np.ones(tree.rewards.shape, bool))
    stochastic = task == "deep_sea_stochastic"
    right = action_mapping(SEA_SIZE, MAPPING_SEED)
    cells = np.repeat(families.deep_sea_reachable(SEA_SIZE)[:, None], 2, axis=1)
    env = f"deep_sea:size={SEA_SIZE},mapping_seed={MAPPING_SEED},stochastic={str(stochastic).lower()}"
    before = prior(families.deep_sea_support(SEA_SIZE), noise_sd=1.0 if stochastic else 0.1)
    return KnownTask(env, families.deep_sea(right, stochastic=stochastic), before, cells)


def rows(task: str, training: Training, progress: Advance) -> Iterator[TableRow]:
    """A row for each agent, seed and checkpoint."""
    for i, agent in enumerate(AGENTS):
        for seed, rows in enumerate(_runs(known(task), agent, training)):
            yield from ({"task": task, "agent": agent, "seed": seed} | row for row in rows)
            progress((i + (seed + 1) / training.seeds) / len(AGENTS))


def _runs(known: KnownTask, agent_name: str, training: Training) -> Iterator[Iterator[TableRow]]:
    """The rows of every seed; compiled functions are shared."""
    env = environments.make(known.env)
    assert isinstance(env, Environment)
    config = agents.configure(agent_name, training.options)
    assert isinstance(config, EnsembleConfig)
    agent = agents.find(agent_name).make(env.spec, config)
    ensemble = values.make(env.spec, assemble.shape(config, heads=config.heads, prior_scale=config.prior_scale))
    evaluate = jax.jit(jax.vmap(ensemble.noiseless_q, in_axes=(None, 0)))
    assert isinstance(agent, Agent)
    budget = Budget(steps=training.checkpoints[-1], episodes=None)

    def exploiters(runner: CompiledRunner) -> Real:
        """Q of each exploiter, [K, S, A]."""
        q = np.asarray(evaluate(runner.params().values, jnp.arange(known.task.states)), np.float64)
        return np.moveaxis(q, 1, 0)[: config.exploiters]

    for seed in range(training.seeds):
        runner = CompiledRunner(env, agent, seed, budget=budget, until="budget", chunk=STEPS_PER_CHUNK)
        yield _checkpoints(runner, seed, exploiters, known, config.discount, training)


def _checkpoints(
    runner: CompiledRunner,
    seed: int,
    exploiters: Callable[[CompiledRunner], Real],
    known: KnownTask,
    gamma: float,
    training: Training,
) -> Iterator[TableRow]:
    for checkpoint in training.checkpoints:
        while runner.clock.steps < checkpoint:
            runner.advance()
        rng = np.random.default_rng((4, seed, checkpoint))
        row: TableRow = {"steps": checkpoint, "episodes": runner.clock.episodes}
        yield row | _correlations(exploiters(runner), known, _met(runner), gamma, training.samples, rng)
    runner.close()


def _met(runner: CompiledRunner) -> Data:
    """All transitions so far: the replay is larger than a run."""
    ring = runner.carry.player.learner.replay
    met = jax.tree.map(lambda column: np.asarray(column[: int(ring.filled)]), ring.data)
    ended = met.d_t == 0
    states = runner.spec.num_states
    return Data(
        met.o_tm1.astype(np.int64), met.a_tm1.astype(np.int64), met.r_t.astype(np.float64),
        np.asarray(np.where(ended, states, met.o_t), np.int64),
    )  # fmt: skip


def _correlations(
    q: Real, known: KnownTask, data: Data, gamma: float, samples: int, rng: np.random.Generator
) -> TableRow:
    """Rank correlations of the exploiters' spread with the posterior's, over pairs; q is [K, S, A]."""
    policy = greedy(q.mean(axis=0))
    truth = known.prior.given(data).values(policy, gamma=gamma, samples=samples, rng=rng)
    likeliest = np.argmax(known.task.transitions, axis=-1)
    largest = np.concatenate([q.max(axis=-1), np.zeros((len(q), 1))], axis=-1)
    spread = {
        "q": q.std(axis=0, ddof=1),
        "td": (gamma * largest[:, likeliest] - q).std(axis=0, ddof=1),
        "td_of_policy": (gamma * next_values(q, policy)[:, likeliest] - q).std(axis=0, ddof=1),
    }

    def true_spread(draws: Real) -> dict[str, Real]:
        delta = gamma * next_values(draws, policy)[:, likeliest] - draws
        return {"q": draws.std(axis=0), "td": delta.std(axis=0)}

    true = true_spread(truth)
    visits = np.zeros(known.task.rewards.shape)
    np.add.at(visits, (data.states, data.actions), 1)
    row: TableRow = {"pairs_met": int((visits > 0).sum())}
    for scope, where in (("all", known.pairs), ("met", visits > 0)):
        for name, truth_name in COMPARED:
            row[f"{name}_with_{truth_name}_{scope}"] = spearman(spread[name][where], true[truth_name][where])
    groups = np.array_split(np.arange(len(truth)), GROUPS)
    without = [true_spread(np.delete(truth, group, axis=0)) for group in groups]
    for name, truth_name in COMPARED:
        left_out = [spearman(spread[name][known.pairs], one[truth_name][known.pairs]) for one in without]
        row[f"{name}_with_{truth_name}_error"] = float(np.sqrt(GROUPS - 1) * np.std(left_out))
    row["true_sd_q"] = float(true["q"][known.pairs].mean())
    row["sd_q"] = float(spread["q"][known.pairs].mean())
    row["true_sd_td"] = float(true["td"][known.pairs].mean())
    row["sd_td"] = float(spread["td"][known.pairs].mean())
    return row


def spearman(x: Real, y: Real) -> float:
    """Rank correlation with shared ranks for ties; NaN if one side is constant or there are fewer than three values."""
    if len(x) < 3:
        return float("nan")
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def _ranks(x: Real) -> Real:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], np.float64)
