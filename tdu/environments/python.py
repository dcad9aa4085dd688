"""Environments that live in Python: any dm_env object, checked at every step and reseeded at every episode.

Such an environment cannot be saved in the middle of an episode. It is therefore reseeded from (run seed, episode)
whenever an episode begins, and its counters are saved, so that a run continued at an episode's start is the run that was
never interrupted. That holds for every official bsuite environment, and for any whose randomness is NumPy generators and
whose memory between episodes is plain numbers, both as attributes of itself or of what it wraps.
"""

import hashlib
from typing import Any

import numpy as np

from tdu.errors import EnvironmentFault, UserError
from tdu.types import EnvSpec, SolvedRule, TimeStep


class PythonEnvironment:
    """A dm_env environment behind an `EnvSpec`; observations come out as the agent wants them."""

    def __init__(
        self,
        env: Any,
        *,
        name: str,
        seed: int,
        num_states: int | None = None,
        default_episodes: int = 10_000,
        solved: SolvedRule | None = None,
    ):
        self._env = env
        self._seed = seed
        shape = getattr(env.observation_spec(), "shape", None)
        if shape is None:
            raise UserError(f"{name} has no single array as its observation, which no agent here can take.")
        info = env.bsuite_info() if hasattr(env, "bsuite_info") else {}
        self.spec = EnvSpec(
            name=name,
            observation_shape=tuple(shape),
            num_actions=_num_actions(name, env.action_spec()),
            num_states=num_states,
            default_episodes=getattr(env, "bsuite_num_episodes", default_episodes),
            solved=solved,
            info_names=tuple(info),
        )

    def reset(self, episode: int) -> TimeStep:
        """Begins an episode, counted from 0."""
        reseed(self._env, self._seed, episode)
        return self.check(self._guarded(self._env.reset))

    def step(self, action: int) -> TimeStep:
        """One step of the environment."""
        return self.check(self._guarded(self._env.step, action))

    def _guarded(self, call: Any, *arguments: Any) -> Any:
        """What the environment answers; whatever it raises is told as its own."""
        try:
            return call(*arguments)
        except Exception as e:
            words = " ".join(str(e).split()) or "without a word"
            raise EnvironmentFault(f"{self.spec.name} raised {type(e).__name__}: {words}") from e

    def info(self) -> dict[str, float]:
        """bsuite's running totals, where the environment has them."""
        return dict(self._env.bsuite_info()) if self.spec.info_names else {}

    def counters(self) -> dict[str, float | int | bool]:
        """Plain numbers that the environment keeps over episodes; with a reseed, its whole state between them."""
        return {
            f"{depth}.{name}": value.item() if isinstance(value, np.generic) else value
            for depth, layer in enumerate(_layers(self._env))
            for name, value in vars(layer).items()
            if isinstance(value, int | float | bool | np.generic)
        }

    def restore_counters(self, counters: dict[str, float | int | bool]) -> None:
        """Puts back what `counters` gave."""
        layers = _layers(self._env)
        for key, value in counters.items():
            depth, _, name = key.partition(".")
            setattr(layers[int(depth)], name, value)

    def encode(self, observation: Any) -> np.ndarray:
        """The observation as the agent wants it, or an error that says what is wrong with it."""
        return encode_observation(self.spec, observation)

    def check(self, timestep: Any) -> TimeStep:
        """A time step of the environment as ours, or an error that says what is wrong with it."""
        name = self.spec.name
        reward = 0.0 if timestep.reward is None else timestep.reward
        discount = 1.0 if timestep.discount is None else timestep.discount
        if np.ndim(reward) or np.ndim(discount):
            raise EnvironmentFault(f"{name} returned a reward or discount that is not a single number.")
        with np.errstate(over="ignore"):
            kept = np.float32(reward), np.float32(discount)
        if not np.all(np.isfinite(kept)):
            raise EnvironmentFault(f"{name} returned reward {reward} and discount {discount}; both must be finite.")
        return TimeStep(self.encode(timestep.observation), *kept, np.bool_(timestep.last()))


def encode_observation(spec: EnvSpec, observation: Any) -> np.ndarray:
    """One observation as an agent takes it: float32 of the spec's shape, or a state index where it is one-hot."""
    x = np.asarray(observation)
    if spec.num_states is not None and x.shape == () and np.issubdtype(x.dtype, np.integer):
        if not 0 <= x <= spec.num_states:
            raise EnvironmentFault(f"{spec.name} has states 0 to {spec.num_states}, not {x}.")
        return np.asarray(x, np.int32)
    if x.dtype == object or x.shape != spec.observation_shape:
        raise EnvironmentFault(
            f"{spec.name} gave an observation of shape {x.shape}; its own specification says {spec.observation_shape}."
        )
    x = x.astype(np.float32)
    if not np.all(np.isfinite(x)):
        raise EnvironmentFault(f"{spec.name} gave an observation with a number that is not finite.")
    if spec.num_states is None:
        return x
    ones = np.flatnonzero(x)
    if ones.size == 0:
        return np.asarray(spec.num_states, np.int32)
    if ones.size > 1 or x.flat[ones[0]] != 1.0:
        raise EnvironmentFault(f"{spec.name} gave an observation that is not one-hot.")
    return np.asarray(ones[0], np.int32)


def reseed(env: Any, seed: int, episode: int) -> None:
    """Seeds every NumPy generator that the environment or anything it wraps holds, from (seed, episode)."""
    if hasattr(env, "seed_next"):
        env.seed_next(_number(f"{seed}/{episode}"))
        return
    for depth, layer in enumerate(_layers(env)):
        for name, value in sorted(vars(layer).items()):
            number = _number(f"{seed}/{episode}/{depth}/{name}")
            if isinstance(value, np.random.RandomState):
                value.seed(number)
            elif isinstance(value, np.random.Generator):
                setattr(layer, name, np.random.default_rng(number))


def _number(text: str) -> int:
    """A seed of 32 bits from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def _layers(env: Any) -> list[Any]:
    """The environment and everything it wraps, outermost first."""
    layers = []
    while env is not None and hasattr(env, "__dict__") and env not in layers:
        layers.append(env)
        env = vars(env).get("_env", vars(env).get("_environment", vars(env).get("env")))
    return layers


def _num_actions(name: str, action_spec: Any) -> int:
    count = getattr(action_spec, "num_values", None)
    if count is None:
        raise UserError(f"{name} does not have discrete actions, and only those are supported.")
    return int(count)
