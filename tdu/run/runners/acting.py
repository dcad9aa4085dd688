"""B actors with a memory in B environments: some steps of all of them at once, as arrays.

`CompiledActing` has the environments on the device and takes all steps in one call; `SteppedActing` drives environments in
Python with a call per step. Both hand out the same `Roll`.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.agents.r2d2.actor import Acting, ladder
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments.vector import Ended, VectorEnvironment
from tdu.run.runners import interaction
from tdu.types import Array, EitherArray, Environment, Key, Params, State, TimeStep


class Roll(NamedTuple):
    """Some steps of all environments, [T, B, …] each."""

    observation: EitherArray
    previous_action: EitherArray
    previous_reward: EitherArray
    first: EitherArray
    action: EitherArray
    after: TimeStep
    """The answers; an observation is the true last one where the episode is over."""
    taken: EitherArray
    """Whether the action counted."""
    memory: Any
    """What the network remembered after each step."""
    head: EitherArray


class End(NamedTuple):
    """An episode's end: when and where, and what the environment has counted."""

    t: int
    row: int
    ended: Ended


class CompiledCarry(NamedTuple):
    """What lies on the device between two calls, [B, …] each."""

    acting: Acting
    env_state: State
    now: TimeStep


def _where(condition: Array, new: Any, old: Any) -> Any:
    """`new` in the rows where the condition [B] holds."""
    return jax.tree.map(lambda n, o: jnp.where(condition.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)


def _begin(agent: RecurrentAgent, params: Params, key: Key, epsilons: Array) -> Acting:
    keys = jax.random.split(key, len(epsilons))
    return jax.vmap(lambda k, epsilon: agent.actor(epsilon).begin(params, k))(keys, epsilons)


class _CompiledPrograms:
    """What is compiled for an agent on B environments of a kind. Runs that differ in seed or length only share it."""

    def __init__(self, env: Environment, agent: RecurrentAgent, size: int):
        rollout = agent.settings.rollout
        act = jax.vmap(agent.actor(0.0).act, in_axes=(None, 0, 0, 0))
        forget = jax.vmap(agent.next_episode)

        def start(params: Params, key_begin: Key, key_reset: Key) -> CompiledCarry:
            state, now = jax.vmap(env.reset)(jax.random.split(key_reset, size))
            return CompiledCarry(_begin(agent, params, key_begin, jnp.asarray(ladder(size))), state, now)

        def one(carry: CompiledCarry, params: Params, key: Key, slot: Array) -> tuple[CompiledCarry, Roll, Any]:
            keys = jax.vmap(interaction.keys_at, in_axes=(None, 0))(key, slot + jnp.arange(size))
            remembered = carry.acting.remembered
            action, acting = act(params, carry.acting, carry.now, keys.act)
            env_state, after = jax.vmap(env.step)(carry.env_state, action, keys.environment)
            noted = Roll(
                observation=carry.now.observation,
                previous_action=remembered.action,
                previous_reward=carry.now.reward * ~remembered.is_first,
                first=remembered.is_first,
                action=action,
                after=after,
                taken=jnp.ones(size, bool),
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
            return carry, noted, jax.vmap(env.info)(env_state)

        def roll(
            carry: CompiledCarry, params: Params, key: Key, slot: Array, count: Array
        ) -> tuple[CompiledCarry, Roll, Any]:
            empty = jax.eval_shape(one, carry, params, key, slot)[1:]
            rows = jax.tree.map(lambda x: jnp.zeros((rollout, *x.shape), x.dtype), empty)

            def step(t: Array, both: Any) -> Any:
                carry, rows = both
                carry, *noted = one(carry, params, key, slot + t * size)
                return carry, jax.tree.map(lambda all_, x: all_.at[t].set(x), rows, tuple(noted))

            carry, (noted, info) = jax.lax.fori_loop(0, count, step, (carry, rows))
            return carry, noted, info

        self.start, self.roll = jax.jit(start), jax.jit(roll, donate_argnums=0)


_compiled_programs = lru_cache(maxsize=8)(_CompiledPrograms)


class CompiledActing:
    """Environments on the device."""

    exact = True

    def __init__(self, env: Environment, agent: RecurrentAgent, size: int, params: Params, key: Key):
        self.spec, self.size = env.spec, size
        self._programs = _compiled_programs(env, agent, size)
        _, key_begin, key_reset = interaction.first_keys(key)
        self.carry: Any = self._programs.start(params, key_begin, key_reset)
        self._totals: dict[str, float] = dict.fromkeys(env.spec.info_names, 0)

    def roll(self, params: Params, at: tuple[Key, EitherArray], count: int) -> tuple[Roll, list[End]]:
        """So many steps of every environment, and the episodes that ended in them."""
        self.carry, noted, info = self._programs.roll(self.carry, params, *at, np.int32(count))
        steps: Roll = jax.tree.map(lambda x: np.asarray(x)[:count], noted)
        gained = {name: np.asarray(column) for name, column in info.items()}
        ends = []
        for t, row in np.argwhere(steps.after.last).tolist():
            mine = {name: column[t, row].item() for name, column in gained.items()}
            self._totals = self.spec.with_episode(self._totals, mine)
            ends.append(End(t, row, Ended(bool(mine.get("total_bad_episodes", 0)), dict(self._totals))))
        return steps, ends

    def warm_up(self, params: Params, key: Key) -> None:
        """Compiles a round, without taking a step."""
        self._programs.roll(jax.tree.map(jnp.copy, self.carry), params, key, np.int32(0), np.int32(0))

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What is not on the device."""
        return {}, {"totals": self._totals}

    def restore(self, carry: Any, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> None:
        """Puts back what was saved."""
        del arrays
        self.carry = jax.tree.map(jnp.asarray, carry)
        self._totals = dict(plain["totals"])

    def close(self) -> None:
        """There is nothing to give up."""


class _Noted(NamedTuple):
    """Of one step, [B, …]."""

    previous_action: Array
    first: Array
    memory: Any
    head: Array


class _SteppedPrograms:
    def __init__(self, agent: RecurrentAgent, size: int):
        actor = jax.vmap(agent.actor(0.0).act, in_axes=(None, 0, 0, 0))

        def act(
            params: Params, acting: Acting, begun: Array, now: TimeStep, key: Key, slot: Array
        ) -> tuple[Array, Acting, _Noted]:
            """Actions [B]; a row of which `now.last` is true has nothing to act on, and remembers nothing of it."""
            acting = _where(begun, jax.vmap(agent.next_episode)(acting), acting)
            keys = jax.vmap(interaction.keys_at, in_axes=(None, 0))(key, slot + jnp.arange(size))
            action, after = actor(params, acting, now, keys.act)
            after = _where(now.last, acting, after)
            before = acting.remembered
            return action, after, _Noted(before.action, before.is_first, jax.vmap(agent.memory)(after), after.head)

        def start(params: Params, key: Key) -> Acting:
            return _begin(agent, params, key, jnp.asarray(ladder(size)))

        self.act, self.start = jax.jit(act), jax.jit(start)


_stepped_programs = lru_cache(maxsize=8)(_SteppedPrograms)

_ENVIRONMENT = "environment."


class SteppedActing:
    """Environments in Python."""

    def __init__(self, env: VectorEnvironment, agent: RecurrentAgent, params: Params, key: Key):
        self.spec, self.size, self.exact, self._env, self._key = env.spec, env.size, env.exact, env, key
        self._programs = _stepped_programs(agent, env.size)
        _, key_begin, _ = interaction.first_keys(key)
        self.carry: Any = self._programs.start(params, key_begin)
        self._begun = np.zeros(env.size, bool)
        """Rows whose episode has just ended: their actors have yet to forget it."""
        self._now: TimeStep | None = None

    def roll(self, params: Params, at: tuple[Key, EitherArray], count: int) -> tuple[Roll, list[End]]:
        """So many steps of every environment, and the episodes that ended in them."""
        if self._now is None:
            self._now = _first(self._env.start())
        key, slot = at
        rows, ends = [], []
        for t in range(count):
            now = self._now
            number = np.int32(slot + t * self.size)
            action, self.carry, noted = self._programs.act(params, self.carry, self._begun, now, key, number)
            actions = np.asarray(action)
            stepped = self._env.step(actions)
            after, over = stepped.after, stepped.after.last & stepped.taken
            rows.append((now, noted, actions, after, stepped.taken))
            ends += [End(t, row, ended) for row, ended in stepped.ended.items()]
            self._begun = over
            reward = np.where(after.last | ~stepped.taken, np.float32(0), after.reward)
            discount = np.where(after.last, np.float32(1), after.discount)
            # Where a call is spent on beginning an episode, there is nothing to act on before it.
            waits = over if self._env.skips else np.zeros(self.size, bool)
            self._now = TimeStep(stepped.now, reward, discount, waits)
        return _stacked(rows), ends

    def warm_up(self, params: Params, key: Key) -> None:
        """Compiles acting on a state that is thrown away."""
        nothing = _first(np.zeros((self.size, *self.spec.carried_shape), self.spec.carried_dtype))
        self._programs.act(params, self.carry, np.zeros(self.size, bool), nothing, key, np.int32(0))

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Where the environments are."""
        if self._now is None:
            return {}, {}
        arrays, plain = self._env.save()
        mine = {f"{_ENVIRONMENT}{name}": x for name, x in arrays.items()}
        mine |= {"begun": self._begun, "reward": self._now.reward, "discount": self._now.discount}
        return mine, {"environment": plain}

    def restore(self, carry: Any, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> None:
        """Puts back what was saved; environments that cannot be brought back begin new episodes."""
        self.carry = jax.tree.map(jnp.asarray, carry)
        if "environment" not in plain:
            return
        theirs = {n.removeprefix(_ENVIRONMENT): x for n, x in arrays.items() if n.startswith(_ENVIRONMENT)}
        now = _first(self._env.restore(theirs, plain["environment"]))
        if self.exact:
            now = now._replace(reward=arrays["reward"], discount=arrays["discount"])
            self._begun = arrays["begun"].astype(bool)
        else:
            self._begun = np.ones(self.size, bool)
        self._now = now

    def aside(self) -> Any:
        """Where the environments are, for `back`; None before they were begun."""
        return None if self._now is None else self._env.save()

    def back(self, where: Any) -> None:
        """Brings the environments back there."""
        if where is not None:
            self._env.restore(*where)

    def close(self) -> None:
        """Lets the environments give up what they hold."""
        self._env.close()


def _stacked(rows: list[Any]) -> Roll:
    def together(leaves: Any) -> Any:
        return jax.tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *leaves)

    now, noted, actions, after, taken = zip(*rows, strict=True)
    first = np.stack([np.asarray(n.first) for n in noted])
    return Roll(
        observation=np.stack([n.observation for n in now]),
        previous_action=np.stack([np.asarray(n.previous_action) for n in noted]),
        previous_reward=np.stack([n.reward for n in now]) * ~first,
        first=first,
        action=np.stack(actions),
        after=together(after),
        taken=np.stack(taken),
        memory=together([n.memory for n in noted]),
        head=np.stack([np.asarray(n.head) for n in noted]),
    )


def _first(observations: np.ndarray) -> TimeStep:
    """Time steps at the beginning of episodes."""
    size = len(observations)
    return TimeStep(observations, np.zeros(size, np.float32), np.ones(size, np.float32), np.zeros(size, bool))
