"""A trained agent: it acts greedily on the mean value over its exploiters. And its evaluation: greedy episodes."""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments, random
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments import spaces
from tdu.environments.observations import encode
from tdu.environments.vector import VectorEnvironment
from tdu.errors import RunError, UserError
from tdu.run import agent_file
from tdu.run.runners.interaction import run_key
from tdu.run.runners.meter import EpisodeMeter
from tdu.run.runners.stepped import SteppedEnvironments
from tdu.types import Actor, Agent, Array, Environment, EnvSpec, Examiner, Key, Params, State, TimeStep

MIN_EPISODE_STEPS = 1000
"""Every episode of an evaluation may last at least this long."""

_MAX_EPISODE_STEPS = 10**6
_MAX_STEPS = 10**7  # maximum number of steps of all episodes together, in Python


@lru_cache(maxsize=8)
def _programs(agent: Agent | RecurrentAgent) -> tuple[Any, ...]:
    evaluator = agent.evaluator

    def values(params: Params, acting: State, observation: Array, reward: Array) -> Array:
        if evaluator.values is None:
            return agent.values(params, observation)
        return evaluator.values(params, acting, TimeStep(observation, reward, np.float32(1), np.bool_(False)))

    def act(params: Params, acting: State, timestep: TimeStep, key: Key, count: Array) -> tuple[Array, State]:
        return evaluator.act(params, acting, timestep, jax.random.fold_in(key, count))

    of_batch = jax.vmap(values, in_axes=(None, None, 0, None))
    return jax.jit(values), jax.jit(of_batch), jax.jit(evaluator.begin), jax.jit(act)


class TrainedAgent:
    """A trained agent. A recurrent one remembers what it has seen since `begin_episode`."""

    def __init__(
        self, spec: EnvSpec, agent: Agent | RecurrentAgent, params: Params, origin: agent_file.Origin | None = None
    ):
        self.spec = spec
        self.agent = agent
        self.origin = origin  # what it was made from, where it can be saved
        self.params = jax.tree.map(jnp.asarray, params)
        self._values, self._values_of_batch, self._begin, self._act = _programs(agent)
        self._key = run_key(0)
        self._acts = 0
        self.begin_episode()

    def __repr__(self) -> str:
        return f"TrainedAgent({self.spec.name}, {self.spec.num_actions} actions)"

    @property
    def examiner(self) -> Examiner | None:
        """Reads the heads' values, where the agent has them."""
        return self.agent.examiner if isinstance(self.agent, Agent) else None

    def begin_episode(self) -> None:
        self._acting: State = self._begin(self.params, self._key)

    def values(self, observation: Any, reward: float = 0.0) -> np.ndarray:
        """Value of every action, [A]; for a batch of B observations, [B, A].

        A one-hot observation may be an array or an index. The values of an agent with a memory depend on it; this call does
        not change it.
        """
        if (batch := self._batch(observation, "agent.values")) is not None:
            return np.asarray(self._values_of_batch(self.params, self._acting, batch, np.float32(reward)))
        encoded = encode(self.spec, observation, given_to="agent.values")
        return np.asarray(self._values(self.params, self._acting, encoded, np.float32(reward)))

    def act(self, observation: Any, reward: float = 0.0) -> Any:
        """The greedy action, in the environment's numbering; for a batch of B observations, an array of B actions.

        Only agents with a memory use `reward`, the last step's. They act on one observation at a time.
        """
        if (batch := self._batch(observation, "agent.act")) is not None:
            values = self._values_of_batch(self.params, self._acting, batch, np.float32(reward))
            return self.spec.own_action(np.argmax(np.asarray(values), axis=1))
        encoded = encode(self.spec, observation, given_to="agent.act")
        timestep = TimeStep(encoded, np.float32(reward), np.float32(1), np.bool_(False))
        return self.spec.own_action(self.act_on(timestep))

    def save(self, path: str | Path) -> None:
        """Writes the agent to a file that `tdu.load_agent` reads, without the environment and without the replay."""
        if self.origin is None:
            raise RunError("only the agent of a run can be saved.")
        agent_file.write(Path(path), self.spec, self.origin, self.params)

    def _batch(self, observation: Any, given_to: str) -> np.ndarray | None:
        """Encoded observations [B, …]; None if it is a single observation."""
        spec = self.spec
        if spec.parts is None and not isinstance(observation, dict):
            shape = np.shape(observation)
            is_index = spec.num_states is not None and shape[1:] == ()
            if not shape or shape == spec.observation_shape or not (shape[1:] == spec.observation_shape or is_index):
                return None
        elif not isinstance(observation, list) or (observation and np.isscalar(observation[0])):
            rows = None if spec.parts is None else spaces.rows(spec.parts, observation)
            if rows is None:
                return None
            observation = rows
        if self.agent.evaluator.remembers:
            raise UserError("an agent with a memory acts on one observation at a time.")
        if not len(observation):
            raise UserError(f"{given_to} was given no observation.")
        return np.stack([encode(spec, one, given_to=given_to) for one in observation])

    def act_on(self, timestep: TimeStep) -> int:
        """The greedy action for a time step of an `Environment`."""
        action, self._acting = self._act(self.params, self._acting, timestep, self._key, np.uint32(self._acts % 2**32))
        self._acts += 1
        return int(action)


def refuse_misfit(who: str, trained_on: EnvSpec, given: EnvSpec) -> None:
    """Refuses an environment that differs in observations or actions from the one that an agent was trained on."""
    before, now = _interface(trained_on), _interface(given)
    if before != now:
        raise RunError(f"{who} was trained on {trained_on.name}, with {before}, but {given.name} has {now}.")


def _interface(spec: EnvSpec) -> str:
    """Observations and actions in words. Environments with the same words fit the same agent."""
    kind = "byte " if spec.dtype == "uint8" else ""
    observations = f"{kind if spec.num_states is None else 'one-hot '}observations of shape {spec.observation_shape}"
    if spec.num_states is not None and spec.observation_shape == ():
        observations = f"{spec.num_states} states"
    return f"{observations} and {spec.num_actions} actions"


def step_limit(longest_episode: int) -> int:
    """Maximum length of an evaluation episode, from the longest training episode."""
    return max(MIN_EPISODE_STEPS, 10 * longest_episode)


class Played(NamedTuple):
    """Greedy episodes, [E] each."""

    returns: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray
    """1 or 0 where the environment reports info["is_success"], nan where it does not."""

    @property
    def standard_error(self) -> float:
        """Of the mean return."""
        spread = float(np.std(self.returns, ddof=1)) if len(self.returns) > 1 else 0.0
        return spread / math.sqrt(len(self.returns))

    def success_rate(self, success_return: float | None) -> float | None:
        """Share of episodes with at least that return, or with success as the environment reports it; None if it does not."""
        if success_return is not None:
            return float(np.mean(self.returns >= success_return))
        return None if np.isnan(self.successes).all() else float(np.mean(self.successes == 1))


def play(env: Any, agent: TrainedAgent, *, episodes: int, seed: int = 0, longest: int = _MAX_EPISODE_STEPS) -> Played:
    """Greedy episodes on an environment, given by its id or as an object. Their randomness is separate from training.

    Several environments play equal numbers of episodes. One that has not ended after `longest` steps is left out.
    """
    made = environments.make(env, f"evaluation {seed}")
    if isinstance(made, Environment):
        refuse_misfit("the agent", agent.spec, made.spec)
        return _compiled(made, agent, episodes, seed, longest)
    try:
        refuse_misfit("the agent", agent.spec, made.spec)
        return _stepwise(made, agent, episodes, min(_MAX_STEPS, longest * episodes))
    finally:
        if isinstance(env, str):
            made.close()


def _stepwise(env: VectorEnvironment, agent: TrainedAgent, episodes: int, max_steps: int) -> Played:
    """The first episodes of every row."""
    rows = [TrainedAgent(agent.spec, agent.agent, agent.params) for _ in range(env.size)]
    stepped_envs, meter = SteppedEnvironments(env), EpisodeMeter(env.size, agent.agent.discount)
    over: list[list[tuple[float, int, float]]] = [[] for _ in rows]
    shares = [len(range(row, episodes, env.size)) for row in range(env.size)]
    for _ in range(0, max_steps, env.size):
        now = stepped_envs.now()
        seen = [TimeStep(now.observation[i], now.reward[i], np.float32(1), np.bool_(False)) for i in range(env.size)]
        actions = [0 if now.last[i] else row.act_on(seen[i]) for i, row in enumerate(rows)]
        stepped = stepped_envs.step(np.asarray(actions))
        meter.add(stepped.after.reward, stepped.taken)
        for i, ended in stepped.ended.items():
            episode = meter.end(i, ended, discount=stepped.after.discount[i], head=0)
            success = math.nan if ended.success is None else ended.success
            over[i].append((float(episode.episode_return), episode.length, success))
            rows[i].begin_episode()
        if all(len(row) >= share for row, share in zip(over, shares, strict=True)):
            break
    episodes_over = [x for row, share in zip(over, shares, strict=True) for x in row[:share]]
    return Played(*np.asarray(episodes_over, np.float64).reshape(-1, 3).T)


def _compiled(env: Environment, agent: TrainedAgent, episodes: int, seed: int, longest: int) -> Played:
    keys = jax.random.split(random.for_use(run_key(seed), random.Use.EVALUATION), episodes)
    program = _program(env, agent.agent.evaluator)
    returns, lengths, over = map(np.asarray, program(agent.params, keys, np.int32(longest)))
    return Played(returns[over].astype(np.float64), lengths[over].astype(np.float64), np.full(np.sum(over), np.nan))


@lru_cache(maxsize=8)
def _program(env: Environment, evaluator: Actor) -> Any:
    """(params, keys, longest) -> the return of an episode for each key, its length, and whether it ended."""

    def one(params: Params, key: Key, longest: Array) -> tuple[Array, Array, Array]:
        key_reset, key_steps, key_acts, key_begin = jax.random.split(key, 4)
        state, timestep = env.reset(key_reset)
        acting = evaluator.begin(params, key_begin)

        def step(carry: Any) -> Any:
            state, timestep, acting, total, t = carry
            action, acting = evaluator.act(params, acting, timestep, jax.random.fold_in(key_acts, t))
            state, timestep = env.step(state, action, jax.random.fold_in(key_steps, t))
            return state, timestep, acting, total + timestep.reward, t + 1

        start = (state, timestep, acting, jnp.zeros(()), jnp.zeros((), jnp.int32))
        end = jax.lax.while_loop(lambda carry: ~carry[1].last & (carry[4] < longest), step, start)
        return end[3], end[4], end[1].last

    return jax.jit(jax.vmap(one, in_axes=(None, 0, None)))
