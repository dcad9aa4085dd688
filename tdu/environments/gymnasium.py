"""Gymnasium environments with discrete actions, by id or as objects, single or vectorised.

A truncated episode bootstraps from its last state. The environment is seeded from (run seed, episode) at every reset.
"""

import importlib
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from tdu.environments.adapter import GYM_EPISODES, Adapter, stepped
from tdu.environments.observations import carried_dtype, encode
from tdu.environments.python import PythonEnvironment, Result, Seed, guarded, number
from tdu.environments.spaces import MINIGRID_BYTES, action_choices, layout, validate
from tdu.environments.vector import Arrays, Ended, Plain, PythonVector, Stepped, VectorEnvironment
from tdu.errors import EnvironmentFault, UserError
from tdu.types import EnvSpec, TimeStep
from tdu.user_code import described, is_raised_in, see_current_folder

Env = gymnasium.Env[Any, Any]
Vector = VectorEnv[Any, Any, Any]

_PACKAGES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "ALE/": "ale_py"}
"""Packages that register environments when imported, by the beginning of the ids."""


def load(gym_id: str, seed: Seed, render_mode: str | None = None) -> PythonEnvironment:
    """The environment of a Gymnasium id."""
    see_current_folder()  # an id may contain a module of the user's
    for beginning, package in _PACKAGES.items():
        if gym_id.startswith(beginning):
            try:
                importlib.import_module(package)
            except (Exception, SystemExit) as e:
                is_missing = isinstance(e, ModuleNotFoundError) and e.name == package
                why = f"is missing; pip install {package}" if is_missing else f"cannot be imported ({described(e)})"
                raise UserError(f"'{gym_id}' is an environment of {package}, which {why}.") from e
    try:
        env = gymnasium.make(gym_id, render_mode=render_mode) if render_mode else gymnasium.make(gym_id)
    except (Exception, SystemExit) as e:
        expected = isinstance(e, gymnasium.error.Error | ImportError)
        reason = " ".join(str(e).split()).rstrip(".?!") if expected else described(e)
        raise UserError(f"Gymnasium cannot make '{gym_id}': {reason}.") from e
    return adapt(env, f"gym:{gym_id}", seed)


def adapt(env: Env, name: str, seed: Seed) -> PythonEnvironment:
    """A Gymnasium environment as ours."""
    spec = _spec(env, name, env.observation_space, env.action_space)
    return PythonEnvironment(_AsDmEnv(env), spec, seed, partial(validate, env.observation_space))


def adapt_vector(env: Vector, name: str, seed: Seed) -> VectorEnvironment:
    """A Gymnasium vector environment as ours. The members of a `SyncVectorEnv` are stepped one by one."""
    if type(env) is SyncVectorEnv:
        return PythonVector([adapt(one, name, seed) for one in env.envs])
    return GymnasiumVector(env, name, seed)


def _spec(env: Env | Vector, name: str, observations: spaces.Space[object], actions: object) -> EnvSpec:
    """The spec of an environment, or of each environment of a vector, with these spaces."""
    parts = None
    if isinstance(observations, spaces.Dict | spaces.Tuple):
        is_minigrid = type(env.unwrapped).__module__.partition(".")[0] == "minigrid"
        parts = layout(observations, largest_byte=MINIGRID_BYTES) if is_minigrid else layout(observations)
    shape = getattr(observations, "shape", None) if parts is None else parts.shape
    if shape is None:
        raise UserError(f"{name} observes {type(observations).__name__}, not one array; only arrays are supported.")
    choices = action_choices(name, actions)
    discrete = observations if isinstance(observations, spaces.Discrete) else None
    return EnvSpec(
        name=name,
        observation_shape=tuple(shape),
        num_actions=math.prod(count for _, count in choices),
        num_states=None if discrete is None else int(discrete.n),
        dtype=carried_dtype(observations.dtype if parts is None else np.float32),
        actions=choices,
        first_state=0 if discrete is None else int(discrete.start),
        default_episodes=GYM_EPISODES,
        parts=parts,
    )


class _Step(NamedTuple):
    observation: object
    reward: object
    discount: float | None
    ended: bool
    is_success: bool | None = None

    def last(self) -> bool:
        return self.ended


_ANSWERS = {"reset": "(observation, info)", "step": "(observation, reward, terminated, truncated, info)"}

_UNPACKED = re.compile(r"values to unpack \(expected \d(?:, got (\d+))?\)|cannot unpack non-iterable (\w+)")
"""How Python reports the number of values of an answer, or its type."""


def _count(answer: object) -> str:
    return f"{len(answer)} values" if isinstance(answer, tuple) else f"one value, of type {type(answer).__name__}"


def _as_success(name: str, value: Any) -> bool | None:
    """info["is_success"] as a truth value; None where the environment does not report it."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf" or value not in (0, 1):
        raise EnvironmentFault(f"{name}.step returned info['is_success']={value!r}; it must be True or False.")
    return bool(value)


class _AsDmEnv:
    """A Gymnasium environment with dm_env's methods."""

    def __init__(self, env: Env):
        self._env = env
        self._next_seed: int | None = None

    def seed_next(self, number: int) -> None:
        self._next_seed = number

    def reset(self) -> _Step:
        try:
            answer = self._answer("reset", seed=self._next_seed)
        except TypeError as e:
            if not re.search(r"reset\(\) got an unexpected keyword argument '(seed|options)'", str(e)):
                raise
            raise EnvironmentFault(
                f"{self._name} raised {described(e)}; write def reset(self, *, seed=None, options=None)."
            ) from None
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise self._wrong("reset", _count(answer))
        return _Step(answer[0], None, None, False)

    def step(self, action: int) -> _Step:
        answer = self._answer("step", action)
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise self._wrong("step", _count(answer))
        observation, reward, terminated, truncated, info = answer
        if not isinstance(info, dict):
            raise EnvironmentFault(f"{self._name}.step returned info={info!r}; it must be a dict.")
        for what, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_) and (np.ndim(value) or np.asarray(value).dtype.kind not in "biu"):
                raise EnvironmentFault(f"{self._name} returned {what}={value!r}; it must be True or False.")
        ended = bool(terminated) or bool(truncated)
        success = _as_success(self._name, info.get("is_success"))
        return _Step(observation, reward, 0.0 if terminated else 1.0, ended, success)

    def _answer(self, method: str, *arguments: object, **named: object) -> object:
        """The answer of a method. A wrapper of Gymnasium's fails if it cannot unpack the answer of what it wraps."""
        try:
            answer: object = getattr(self._env, method)(*arguments, **named)
            return answer
        except (TypeError, ValueError) as e:
            if (found := _UNPACKED.search(str(e))) is None or not is_raised_in(gymnasium, e):
                raise
            count, kind = found.groups()
            values = (
                f"one value, of type {kind}" if kind else f"{count} values" if count else "a wrong number of values"
            )
            raise self._wrong(method, values) from None

    def _wrong(self, method: str, values: str) -> EnvironmentFault:
        return EnvironmentFault(
            f"{self._name}.{method} returned {values}; Gymnasium's {method} returns {_ANSWERS[method]}."
        )

    @property
    def _name(self) -> str:
        return type(getattr(self._env, "unwrapped", self._env)).__name__

    def render(self) -> object:
        return self._env.render() if getattr(self._env, "render_mode", None) == "rgb_array" else None

    def close(self) -> None:
        self._env.close()


def _success_of(name: str, info: dict[str, Any], row: int) -> bool | None:
    """What the info of a vector environment reports of success in a row whose episode has ended."""
    info = info.get("final_info", info)
    reported = info.get("_is_success")
    return _as_success(name, info["is_success"][row]) if reported is not None and reported[row] else None


class GymnasiumVector:
    """A vector environment that steps and resets its environments itself, in any of Gymnasium's three autoreset modes.

    It is seeded once. It cannot be saved: a resumed run starts new episodes.
    """

    exact = False

    def __init__(self, env: Vector, name: str, seed: Seed):
        self.spec = _spec(env, name, env.single_observation_space, env.single_action_space)
        self.size = int(env.num_envs)
        self._env, self._seed = env, seed
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.skips = self._mode == AutoresetMode.NEXT_STEP
        self._over = np.zeros(self.size, bool)
        """Rows that use the next call to start an episode."""
        self._starts = 0

    def start(self) -> np.ndarray:
        observations, _ = self._call(self._env.reset, seed=self._seeds(np.ones(self.size, bool)))
        self._over[:] = False
        return self._encoded(observations)

    def step(self, actions: np.ndarray) -> Stepped:
        taken = ~self._over
        answer = self._call(self._env.step, self.spec.own_action(np.asarray(actions, np.int64)))
        observations, reward, terminated, truncated, info = answer
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        last = (terminated | truncated) & taken
        reward = np.asarray(reward, np.float32)
        if reward.shape != (self.size,) or not np.isfinite(reward).all():
            raise EnvironmentFault(f"{self.spec.name} must return {self.size} finite rewards, not {reward}.")
        now = self._encoded(observations)
        final = now
        if last.any() and self._mode == AutoresetMode.SAME_STEP:
            if "final_obs" not in info:
                raise EnvironmentFault(
                    f"{self.spec.name} resets in the step that ends an episode, without info['final_obs'] for the last "
                    "observation."
                )
            final = now.copy()
            for row in np.flatnonzero(last):
                final[row] = encode(self.spec, info["final_obs"][row])
        if last.any() and self._mode == AutoresetMode.DISABLED:
            first, _ = self._call(self._env.reset, seed=self._seeds(last), options={"reset_mask": last.copy()})
            now = np.where(last.reshape(-1, *[1] * (now.ndim - 1)), self._encoded(first), now)
        self._over = last & (self._mode == AutoresetMode.NEXT_STEP)
        discount = np.where(terminated, np.float32(0), np.float32(1))
        ended = {
            int(row): Ended(bad=False, totals={}, success=_success_of(self.spec.name, info, int(row)))
            for row in np.flatnonzero(last)
        }
        return Stepped(TimeStep(final, reward, discount, last), taken, now, ended)

    def save(self) -> tuple[Arrays, Plain]:
        """The number of starts, so that a resumed run has new seeds."""
        return {}, {"starts": self._starts}

    def restore(self, arrays: Arrays, plain: Plain) -> np.ndarray:
        del arrays
        self._starts = plain["starts"]
        return self.start()

    def close(self) -> None:
        self._call(self._env.close)

    def _seeds(self, starting: np.ndarray) -> int | list[int | None]:
        """One seed per row that starts an episode; a single seed if the environment does not accept a list."""
        self._starts += 1
        if not isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv):
            return number(f"{self._seed}/{self._starts}") >> 1  # some accept only 31 bits
        return [number(f"{self._seed}/{self._starts}/{row}") if starting[row] else None for row in range(self.size)]

    def _encoded(self, observations: Any) -> np.ndarray:
        if self.spec.parts is not None:
            observations = list(iterate(self._env.observation_space, observations))
        return np.stack([encode(self.spec, observations[row]) for row in range(self.size)])

    def _call(self, call: Callable[..., Result], *arguments: object, **named: object) -> Result:
        return guarded(self.spec.name, call, *arguments, **named)


ADAPTER = Adapter(
    "gym:ID", "a Gymnasium id with discrete actions, e.g. gym:CartPole-v1", "gym:CartPole-v1", stepped(load)
)
