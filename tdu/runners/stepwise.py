"""Runs on Python environments, which no compiled loop can hold.

`StepwiseAgent` is the agent as such a loop wants it, an object that selects actions and takes updates. `StepwiseRunner`
drives it and keeps the log.

Where the head that acts is frozen for the episode, no action waits for what is learned meanwhile: steps are gathered, and
learned one after the other in a single call, so that a call's cost is shared by many. An agent that acts as it learns
has a call per step, which also picks the next action.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments.python import PythonEnvironment
from tdu.errors import EnvironmentFault
from tdu.runners import interaction
from tdu.runners.interaction import Mind, Sums
from tdu.runners.protocol import Budget, Clock, Saved
from tdu.runners.rows import Progress, Row
from tdu.types import Agent, Array, EitherArray, Key, TimeStep

_GATHERED = 32
"""So many steps at most are learned in one call."""


class StepwiseCarry(NamedTuple):
    mind: Mind
    t: Array
    learned: Sums


class Step(NamedTuple):
    observation: EitherArray
    action: EitherArray
    after: TimeStep


@lru_cache(maxsize=8)
def _programs(agent: Agent) -> tuple[Any, Any, Any]:
    """What is compiled for an agent: how it starts, acts, and learns from steps. Runs of the same agent share it."""

    def start(key: Key) -> StepwiseCarry:
        return StepwiseCarry(interaction.begin(agent, key)[0], jnp.zeros((), jnp.int32), Sums.zero())

    def act(mind: Mind, t: Array, key: Key, observation: Array) -> Array:
        return interaction.act(agent, mind, observation, interaction.keys_at(key, t))

    def learn(carry: StepwiseCarry, key: Key, steps: Step, count: Array) -> Any:
        def one(i: Array, carry: StepwiseCarry) -> StepwiseCarry:
            step, keys = jax.tree.map(lambda x: x[i], steps), interaction.keys_at(key, carry.t)
            mind, metrics = interaction.learn(agent, carry.mind, step.observation, step.action, step.after, keys)
            return StepwiseCarry(mind, carry.t + 1, carry.learned.plus(metrics))

        head = agent.head(carry.mind.actor)
        carry = jax.lax.fori_loop(0, count, one, carry)
        last = jax.tree.map(lambda x: x[count - 1], steps.after)
        kept = jax.tree.map(lambda x: jnp.where(last.last, jnp.zeros_like(x), x), carry.learned)
        chosen = act(carry.mind, carry.t, key, last.observation) if agent.live else None
        return carry._replace(learned=kept), chosen, (head, carry.learned.means())

    return jax.jit(start), jax.jit(act), jax.jit(learn, donate_argnums=0)


class StepwiseAgent:
    """An agent for a loop in Python."""

    def __init__(self, agent: Agent, seed: int):
        self._live = agent.live
        self._key = interaction.run_key(seed)
        start, self._act, self._learn = _programs(agent)
        self.last_episode: tuple[Array, Array] | None = None
        """Head, and mean bonus and loss [2], of the episode under way or just over."""
        self._chosen: tuple[Array, np.ndarray] | None = None
        self._gathered: Step | None = None
        self._count = self._t = 0
        self.restore(start(self._key))

    def select_action(self, observation: np.ndarray) -> int:
        """The action for an encoded observation; already known where a live agent has just learned."""
        if self._chosen is not None and np.array_equal(self._chosen[1], observation):
            return int(self._chosen[0])
        return int(self._act(self._actor, np.int32(self._t), self._key, observation))

    def update(self, observation: np.ndarray, action: int, after: TimeStep) -> None:
        """Takes one step to learn from: now, or together with the next ones of the episode."""
        step = Step(observation, np.int32(action), after)
        if self._gathered is None:
            room = 1 if self._live else _GATHERED
            self._gathered = jax.tree.map(lambda x: np.zeros((room, *x.shape), x.dtype), step)
        jax.tree.map(lambda rows, x: rows.__setitem__(self._count, x), self._gathered, step)
        self._count += 1
        self._t += 1
        if after.last or self._count == len(self._gathered.action):
            self._learn_gathered(after)

    def restore(self, carry: StepwiseCarry) -> None:
        """Continues from a state between two episodes."""
        self._hold(jax.tree.map(jnp.asarray, carry))
        self._t = int(carry.t)
        self._chosen = None

    def _learn_gathered(self, after: TimeStep) -> None:
        carry, chosen, self.last_episode = self._learn(self.carry, self._key, self._gathered, np.int32(self._count))
        self._hold(carry)
        self._chosen = (chosen, after.observation) if self._live and not after.last else None

    def _hold(self, carry: StepwiseCarry) -> None:
        self.carry = carry
        self._actor = carry.mind if self._live else Mind((), carry.mind.actor)  # an actor is cheaper to pass
        self._gathered = None  # the arrays given to a call are never written to again
        self._count = 0


class StepwiseRunner:
    """A run over a Python environment. It can be saved between episodes only."""

    def __init__(self, env: PythonEnvironment, agent: Agent, seed: int, *, budget: Budget, stop: bool):
        self.spec = env.spec
        self._env = env
        self._agent = StepwiseAgent(agent, seed)
        self._budget = budget
        self._stop = stop and env.spec.solved is not None
        self.progress = Progress(env.spec)
        self._steps = 0
        self._compile()

    def _compile(self) -> None:
        """Traces and compiles both calls on a state that is thrown away."""
        shape = () if self.spec.num_states is not None else self.spec.observation_shape
        observation = np.zeros(shape, np.int32 if self.spec.num_states is not None else np.float32)
        after = TimeStep(observation, np.float32(0), np.float32(1), np.bool_(False))
        kept = jax.tree.map(np.asarray, self._agent.carry)
        self._agent.select_action(observation)
        self._agent.update(observation, 0, after._replace(last=np.bool_(True)))
        self._agent.restore(kept)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        limits = zip(self.clock, (self._budget.steps, self._budget.episodes), strict=True)
        over = any(limit is not None and done >= limit for done, limit in limits)
        return over or (self._stop and self.progress.solved_episode is not None)

    @property
    def clock(self) -> Clock:
        """Environment steps taken and episodes finished."""
        return Clock(self._steps, self.progress.episode)

    def advance(self) -> list[Row]:
        """Runs one episode, or what the budget leaves of it."""
        timestep = self._env.reset(self.progress.episode)
        if timestep.last:
            raise EnvironmentFault(f"{self.spec.name} ended an episode before its first step.")
        episode_return, length = 0.0, 0
        bad_before = self._env.info().get("total_bad_episodes", 0)
        left = None if self._budget.steps is None else self._budget.steps - self._steps
        while not timestep.last and length != left:
            action = self._agent.select_action(timestep.observation)
            after = self._env.step(action)
            self._agent.update(timestep.observation, action, after)
            episode_return += float(after.reward)
            length += 1
            timestep = after
        self._steps += length
        if not timestep.last:
            return []
        info = self._env.info()
        self.progress.add(episode_return, info.get("total_bad_episodes", 0) > bad_before)
        assert self._agent.last_episode is not None
        head, (bonus, loss) = map(np.asarray, self._agent.last_episode)
        standard = {
            "episode": self.progress.episode,
            "steps": self._steps,
            "episode_len": length,
            "episode_return": episode_return,
            "total_return": self.progress.total_return,
            "head": int(head),
            "bonus": bonus,
            "loss": loss,
        }
        return [standard | info]

    def save(self) -> Saved:
        """The run as it is now."""
        plain = {"counters": self._env.counters(), "steps": self._steps, "progress": self.progress.to_plain()}
        return Saved(self._agent.carry, {}, plain)

    def restore(self, saved: Saved) -> None:
        """Puts back what `save` gave."""
        self._agent.restore(saved.state)
        self._env.restore_counters(saved.plain["counters"])
        self._steps = saved.plain["steps"]
        self.progress = Progress.from_plain(self.spec, saved.plain["progress"])

    def params(self) -> Any:
        """What the trained agent acts on."""
        return self._agent.carry.mind.state

    def close(self) -> None:
        """The environment is the user's to close."""
