"""B actors with a memory in B environments. Each call of `roll` takes some steps in all of them.

`CompiledActing` has the environments on the device and takes all steps in one compiled call. `SteppedActing` drives
environments in Python, with a compiled call per step. Both return the same `Roll`, which `Actors` counts.
"""

from functools import lru_cache
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tdu.agents.r2d2.actor import Acting
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.sequences import Roll, Steps, Streams
from tdu.environments.vector import Arrays, Ended, Plain
from tdu.run.runners import interaction
from tdu.run.runners.meter import Episode, EpisodeMeter
from tdu.run.runners.stepped import SteppedEnvironments, first_steps
from tdu.types import Array, EitherArray, Environment, Key, Params, State, TimeStep

Tree = TypeVar("Tree")
Taken = tuple[Roll, dict[str, Array]]
"""Steps, and the environments' counts at each."""


class End(NamedTuple):
    """The end of an episode: step and row in the roll, and the environment's counts."""

    t: int
    row: int
    ended: Ended


class CompiledCarry(NamedTuple):
    """The state on the device between two calls, [B, …] each."""

    acting: Acting
    env_state: State
    now: TimeStep


def _where(condition: Array, new: Tree, old: Tree) -> Tree:
    """`new` in the rows where the condition [B] holds, else `old`."""
    where: Tree = jax.tree.map(lambda n, o: jnp.where(condition.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)
    return where


def _begin(agent: RecurrentAgent, params: Params, key: Key, epsilons: Array) -> Acting:
    keys = jax.random.split(key, len(epsilons))
    return jax.vmap(lambda k, epsilon: agent.actor(epsilon).begin(params, k))(keys, epsilons)


class _CompiledPrograms:
    """The compiled functions for an agent on B environments, shared by runs that differ only in seed or length."""

    def __init__(self, env: Environment, agent: RecurrentAgent, size: int):
        rollout = agent.config.rollout
        act = jax.vmap(agent.actor(0.0).act, in_axes=(None, 0, 0, 0))
        forget = jax.vmap(agent.next_episode)

        def start(params: Params, key_begin: Key, key_reset: Key, epsilons: Array) -> CompiledCarry:
            state, now = jax.vmap(env.reset)(jax.random.split(key_reset, size))
            return CompiledCarry(_begin(agent, params, key_begin, epsilons), state, now)

        def one(
            carry: CompiledCarry, params: Params, key: Key, slot: Array
        ) -> tuple[CompiledCarry, Roll, dict[str, Array]]:
            keys = jax.vmap(interaction.keys_at, in_axes=(None, 0))(key, slot + jnp.arange(size))
            action, acting = act(params, carry.acting, carry.now, keys.act)
            env_state, after = jax.vmap(env.step)(carry.env_state, action, keys.environment)
            taken = Roll(
                steps=_step(carry.acting, carry.now, action)._replace(
                    observation=carry.now.observation,
                    reward=after.reward,
                    discount=after.discount,
                    valid=jnp.ones(size, bool),
                ),
                next_observation=after.observation,
                last=after.last,
                memory=jax.vmap(agent.memory)(acting),
                head=acting.head,
            )
            fresh_state, fresh = jax.vmap(env.reset)(keys.reset)
            over = after.last
            carry = CompiledCarry(
                acting=_where(over, forget(acting), acting),
                env_state=_where(over, fresh_state, env_state),
                now=_where(over, fresh, after),
            )
            return carry, taken, jax.vmap(env.info)(env_state)

        def roll(
            carry: CompiledCarry, params: Params, key: Key, slot: Array, count: Array
        ) -> tuple[CompiledCarry, Roll, dict[str, Array]]:
            empty = jax.eval_shape(one, carry, params, key, slot)[1:]
            rows = jax.tree.map(lambda x: jnp.zeros((rollout, *x.shape), x.dtype), empty)

            def step(t: Array, both: tuple[CompiledCarry, Taken]) -> tuple[CompiledCarry, Taken]:
                carry, rows = both
                carry, *new = one(carry, params, key, slot + t * size)
                return carry, jax.tree.map(lambda column, x: column.at[t].set(x), rows, tuple(new))

            carry, (taken, info) = jax.lax.fori_loop(0, count, step, (carry, rows))
            return carry, taken, info

        self.start, self.roll = jax.jit(start), jax.jit(roll, donate_argnums=0)


_compiled_programs = lru_cache(maxsize=8)(_CompiledPrograms)


class CompiledActing:
    """Environments on the device."""

    def __init__(self, env: Environment, agent: RecurrentAgent, params: Params, key: Key, epsilons: np.ndarray):
        self.spec = env.spec
        self._programs = _compiled_programs(env, agent, len(epsilons))
        _, key_begin, key_reset = interaction.first_keys(key)
        self.carry: CompiledCarry = self._programs.start(params, key_begin, key_reset, epsilons)
        self._totals: dict[str, float] = dict.fromkeys(env.spec.info_names, 0)

    def roll(self, params: Params, at: tuple[Key, EitherArray], count: int) -> tuple[Roll, list[End]]:
        """`count` steps of every environment, and the episodes that ended in them, in order."""
        self.carry, taken, info = self._programs.roll(self.carry, params, *at, np.int32(count))
        roll: Roll = jax.tree.map(lambda x: np.asarray(x)[:count], taken)
        columns = {name: np.asarray(column) for name, column in info.items()}
        ends = []
        for t, row in np.argwhere(roll.last).tolist():
            counts = {name: column[t, row].item() for name, column in columns.items()}
            self._totals = self.spec.with_episode(self._totals, counts)
            ends.append(End(t, row, Ended(bool(counts.get("total_bad_episodes", 0)), dict(self._totals))))
        return roll, ends

    def warm_up(self, params: Params, key: Key) -> None:
        """Compiles a roll, without taking a step."""
        self._programs.roll(jax.tree.map(jnp.copy, self.carry), params, key, np.int32(0), np.int32(0))

    def save(self) -> tuple[Arrays, Plain]:
        return {}, {"totals": self._totals}

    def restore(self, carry: State, arrays: Arrays, plain: Plain) -> None:
        del arrays
        self.carry = jax.tree.map(jnp.asarray, carry)
        self._totals = dict(plain["totals"])


class _SteppedPrograms:
    """The compiled functions for an agent on B environments in Python."""

    def __init__(self, agent: RecurrentAgent, size: int):
        actor = jax.vmap(agent.actor(0.0).act, in_axes=(None, 0, 0, 0))

        def act(
            params: Params, acting: Acting, begun: Array, now: TimeStep, key: Key, slot: Array
        ) -> tuple[Acting, Roll]:
            """Acts: the actors' next states, and of the step what is known before the environments answer.

            Where `now.last` is true, a row has nothing to act on and its state does not change.
            """
            acting = _where(begun, jax.vmap(agent.next_episode)(acting), acting)
            keys = jax.vmap(interaction.keys_at, in_axes=(None, 0))(key, slot + jnp.arange(size))
            action, after = actor(params, acting, now, keys.act)
            after = _where(now.last, acting, after)
            return after, Roll(_step(acting, now, action), None, None, jax.vmap(agent.memory)(after), after.head)

        self.act = jax.jit(act)
        self.start = jax.jit(lambda params, key, epsilons: _begin(agent, params, key, epsilons))


_stepped_programs = lru_cache(maxsize=8)(_SteppedPrograms)


class SteppedActing:
    """Environments in Python."""

    def __init__(self, env: SteppedEnvironments, agent: RecurrentAgent, params: Params, key: Key, epsilons: np.ndarray):
        self._env = env
        self._programs = _stepped_programs(agent, env.size)
        _, key_begin, _ = interaction.first_keys(key)
        self.carry: Acting = self._programs.start(params, key_begin, epsilons)
        self._begun = np.zeros(env.size, bool)
        """Rows whose episode has just ended: the memory of their actors has yet to be reset."""

    def roll(self, params: Params, at: tuple[Key, EitherArray], count: int) -> tuple[Roll, list[End]]:
        key, slot = at
        rolls, ends = [], []
        for t in range(count):
            now, number = self._env.now(), np.int32(slot + t * self._env.size)
            self.carry, roll = self._programs.act(params, self.carry, self._begun, now, key, number)
            roll = jax.tree.map(np.asarray, roll)
            stepped = self._env.step(roll.steps.action)
            after = stepped.after
            steps = roll.steps._replace(
                observation=now.observation, reward=after.reward, discount=after.discount, valid=stepped.taken
            )
            rolls.append(roll._replace(steps=steps, next_observation=after.observation, last=after.last))
            ends += [End(t, row, ended) for row, ended in stepped.ended.items()]
            self._begun = after.last & stepped.taken
        return jax.tree.map(lambda *xs: np.stack(xs), *rolls), ends

    def warm_up(self, params: Params, key: Key) -> None:
        """Compiles acting, on a state that is then discarded."""
        spec, size = self._env.spec, self._env.size
        now = first_steps(np.zeros((size, *spec.carried_shape), spec.carried_dtype))
        self._programs.act(params, self.carry, np.zeros(size, bool), now, key, np.int32(0))

    def save(self) -> tuple[Arrays, Plain]:
        return self._env.save(begun=self._begun)

    def restore(self, carry: State, arrays: Arrays, plain: Plain) -> None:
        """Restores what was saved; environments that cannot be restored begin new episodes."""
        self.carry = jax.tree.map(jnp.asarray, carry)
        if self._env.restore(arrays, plain):
            exact = self._env.env.exact
            self._begun = arrays["begun"].astype(bool) if exact else np.ones(self._env.size, bool)


class Actors:
    """B actors in B environments: their rolls, and the episodes and sequences in them.

    `epsilons` [B] are the rates of random actions. The actors' sequences have the stream numbers from `first_stream` on, and
    `seed` is that of their masks.
    """

    def __init__(
        self,
        env: Environment | SteppedEnvironments,
        agent: RecurrentAgent,
        params: Params,
        key: Key,
        epsilons: np.ndarray,
        *,
        seed: tuple[int, ...],
        first_stream: int = 0,
    ):
        self.acting: CompiledActing | SteppedActing
        if isinstance(env, Environment):
            self.acting = CompiledActing(env, agent, params, key, epsilons)
        else:
            self.acting = SteppedActing(env, agent, params, key, epsilons)
        config, self.size = agent.config, len(epsilons)
        self.streams = Streams(
            config.shape,
            jax.tree.map(np.asarray, agent.empty_memory()),
            numbers=range(first_stream, first_stream + self.size),
            heads=config.heads,
            mask_prob=config.mask_prob,
            seed=seed,
        )
        self.meter = EpisodeMeter(self.size, agent.discount)
        self.rounds = 0  # steps of every environment, including calls that only began an episode
        self._key, self._most = key, config.rollout

    def roll(self, params: Params, most: int | None = None) -> tuple[Roll, list[Episode]]:
        """Some steps of every environment, at most `most`, and the episodes that ended in them, in order."""
        at = interaction.key_and_number(self._key, self.rounds, self.size)
        rounds_per_key = interaction.FOLDED_STEPS // self.size
        count = min(self._most, rounds_per_key - self.rounds % rounds_per_key)
        roll, ends = self.acting.roll(params, at, count if most is None else min(count, most))
        self.rounds += len(roll.last)
        by_time: dict[int, list[End]] = {}
        for end in ends:
            by_time.setdefault(end.t, []).append(end)
        episodes = []
        for t in range(len(roll.last)):
            self.meter.add(roll.steps.reward[t], roll.steps.valid[t])
            for end in by_time.get(t, []):
                discount, head = roll.steps.discount[t, end.row], roll.head[t, end.row]
                episodes.append(self.meter.end(end.row, end.ended, discount=discount, head=head))
        return roll, episodes


def _step(acting: Acting, now: TimeStep, action: Array) -> Steps:
    """The step that B actors take, without its observation, which need not leave the host."""
    before = acting.remembered
    return Steps(None, before.action, now.reward * ~before.is_first, before.is_first, action)
