"""Environments in Python: any dm_env object, checked at every step and reseeded at every episode.

Such an environment cannot be copied in the middle of an episode. What is saved is its counters at the last reset and the
actions since; replaying them restores its state. This holds for every official bsuite environment, and where all randomness
is NumPy generators and all memory between episodes plain numbers, as attributes of the environment or of what it wraps.
"""

import hashlib
import math
import re
import reprlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np

from tdu.environments.observations import carried_dtype, encode
from tdu.errors import EnvironmentFault, UserError
from tdu.types import DEFAULT_EPISODES, EitherArray, EnvSpec, SolvedRule, TimeStep
from tdu.user_code import described

Seed = int | str
"""A run's seed, or a text, which cannot collide with one."""

Result = TypeVar("Result")


class Played(Protocol):
    """What every environment in Python has: `reset` and `step` return dm_env's time steps."""

    def reset(self) -> object: ...

    def step(self, action: EitherArray) -> object: ...


CHECKED_STEPS = 1000
"""Observations that are compared with their space. It takes some microseconds each."""


class PythonEnvironment:
    """An environment with an `EnvSpec` and encoded observations. `validate` raises if an observation is not in its space."""

    def __init__(
        self, env: Played, spec: EnvSpec, seed: Seed, validate: Callable[[object], object] | None = None
    ) -> None:
        self.spec = spec
        self._env, self._seed, self._validate = env, seed, validate
        self._bsuite_info: Callable[[], dict[str, float]] = getattr(env, "bsuite_info", dict)
        self.success: bool | None = None
        """Whether the last step reports success; None if it does not say."""
        self._episode = self._step = self._checked = 0
        self.doubts: dict[str, str] = {}
        """Differences between the first observations and their space, by kind, for the user."""

    def reset(self, episode: int) -> TimeStep:
        """Starts an episode, counted from 0."""
        self._episode, self._step = episode, 0
        reseed(self._env, self._seed, episode)
        return self.check(self._guarded(self._env.reset), first=True)

    def step(self, action: int) -> TimeStep:
        self._step += 1
        try:
            return self.check(self._guarded(self._env.step, self.spec.own_action(action)))
        except EnvironmentFault as e:
            raise EnvironmentFault(f"{str(e).rstrip('.')}, in step {self._step} of episode {self._episode + 1}.") from e

    def _guarded(self, call: Callable[..., Result], *arguments: object) -> Result:
        return guarded(self.spec.name, call, *arguments)

    def close(self) -> None:
        """Releases the environment's resources, if it can."""
        if callable(close := getattr(self._env, "close", None)):
            self._guarded(close)

    def render(self) -> object:
        """A picture of the state; None if it has no `render`."""
        render = getattr(self._env, "render", None)
        return self._guarded(render) if callable(render) else None

    def info(self) -> dict[str, float]:
        """bsuite's running totals, if the environment has them."""
        return dict(self._bsuite_info())

    def counters(self) -> dict[str, object]:
        """Plain numbers among the environment's attributes: its whole state between episodes, but for generators."""
        return {
            f"{depth}.{name}": {"dtype": _name(value.dtype), "value": value.item()}
            if isinstance(value, np.generic)
            else value
            for depth, layer in enumerate(_layers(self._env))
            for name, value in vars(layer).items()
            if isinstance(value, int | float | bool | np.integer | np.floating | np.bool_)
        }

    def restore_counters(self, counters: dict[str, object]) -> None:
        layers = _layers(self._env)
        for key, value in counters.items():
            depth, _, name = key.partition(".")
            counter = np.dtype(value["dtype"]).type(value["value"]) if isinstance(value, dict) else value
            setattr(layers[int(depth)], name, counter)

    def check(self, timestep: Any, *, first: bool = False) -> TimeStep:
        """A time step of the environment as ours, checked."""
        name = self.spec.name
        expected = all(hasattr(timestep, attribute) for attribute in ("observation", "reward", "discount"))
        if not expected or not callable(getattr(timestep, "last", None)):
            kind = "nothing" if timestep is None else f"an object of type {type(timestep).__name__}"
            raise EnvironmentFault(f"{name} returned {kind}, not a dm_env time step.")
        self.success = getattr(timestep, "is_success", None)
        reward = 0.0 if timestep.reward is None and first else timestep.reward
        discount = 1.0 if timestep.discount is None else timestep.discount
        with np.errstate(over="ignore"):
            kept = _as_float32(name, "reward", reward), _as_float32(name, "discount", discount)
        if not 0 <= discount <= 1:
            raise EnvironmentFault(f"{name} returned discount {discount}; it must be between 0 and 1.")
        observation = encode(self.spec, timestep.observation)
        if self._checked < CHECKED_STEPS:
            self._checked += 1
            self._look_at(timestep.observation)
        return TimeStep(observation, *kept, np.bool_(self._guarded(timestep.last)))

    def _look_at(self, observation: object) -> None:
        try:
            if self._validate is not None:
                self._validate(observation)
        except (ValueError, TypeError, KeyError) as e:
            words = " ".join(str(e).split()).rstrip(".")
            self.doubts.setdefault(re.sub(r"[-+.e\d]+", "", words), f"{self.spec.name}: {words}.")


def of_dm_env(
    env: Any, *, name: str, seed: Seed, num_states: int | None = None, solved: SolvedRule | None = None
) -> PythonEnvironment:
    """A dm_env environment as ours, with bsuite's totals if it has them."""
    observations, actions = guarded(name, env.observation_spec), guarded(name, env.action_spec)
    shape, num_actions = getattr(observations, "shape", None), getattr(actions, "num_values", None)
    if shape is None:
        raise UserError(f"{name} does not observe a single array; only arrays are supported.")
    if num_actions is None:
        raise UserError(f"{name} does not have discrete actions; only those are supported.")
    spec = EnvSpec(
        name=name,
        observation_shape=tuple(shape),
        num_actions=int(num_actions),
        num_states=num_states or getattr(observations, "num_values", None) or None,
        dtype=carried_dtype(getattr(observations, "dtype", None)),
        default_episodes=getattr(env, "bsuite_num_episodes", DEFAULT_EPISODES),
        solved=solved,
        info_names=tuple(getattr(env, "bsuite_info", dict)()),
    )
    return PythonEnvironment(env, spec, seed, getattr(observations, "validate", None))


def guarded(name: str, call: Callable[..., Result], *arguments: object, **named: object) -> Result:
    """The result of a call into an environment. Its exceptions become an `EnvironmentFault`."""
    try:
        return call(*arguments, **named)
    except EnvironmentFault:
        raise
    except (Exception, SystemExit) as e:
        raise EnvironmentFault(f"{name} raised {described(e)}.") from e


def reseed(env: object, seed: Seed, episode: int) -> None:
    """Seeds every NumPy generator of the environment and of what it wraps from (seed, episode)."""
    if hasattr(env, "seed_next"):
        env.seed_next(number(f"{seed}/{episode}"))
        return
    for depth, layer in enumerate(_layers(env)):
        for name, value in sorted(vars(layer).items()):
            if isinstance(value, np.random.RandomState):
                value.seed(number(f"{seed}/{episode}/{depth}/{name}"))
            elif isinstance(value, np.random.Generator):
                setattr(layer, name, np.random.default_rng(number(f"{seed}/{episode}/{depth}/{name}")))


def _as_float32(name: str, what: str, value: object) -> np.float32:
    try:
        number = np.float32(_single(value))
    except (TypeError, ValueError, OverflowError):
        raise EnvironmentFault(f"{name} returned {what} {reprlib.repr(value)}; it must be a single number.") from None
    if not math.isfinite(number):
        raise EnvironmentFault(f"{name} returned {what} {value}; it must be finite.")
    return number


def _single(value: Any) -> float:
    if not isinstance(value, float | int) and (np.ndim(value) or isinstance(value, str | bytes)):
        raise TypeError
    return float(value)


@lru_cache(maxsize=32)
def _name(dtype: np.dtype) -> str:
    """The name of a dtype, cached because NumPy builds it at every call, which is slow."""
    return dtype.name


def number(text: str) -> int:
    """A 32-bit seed from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def _layers(env: object) -> list[object]:
    """The environment and everything it wraps, outermost first."""
    layers: list[object] = []
    while env is not None and hasattr(env, "__dict__") and env not in layers:
        layers.append(env)
        env = vars(env).get("_env", vars(env).get("_environment", vars(env).get("env")))
    return layers
