"""bsuite 0.3.6's 23 experiments: settings, numbers of episodes, and the compiled environment of each id.

This file does not import bsuite. A test compares it with bsuite.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import jax

from tdu.environments import built_in
from tdu.environments.adapter import Adapter, compiled
from tdu.environments.bsuite_twins import tasks
from tdu.environments.bsuite_twins.cartpole import cartpole, cartpole_swingup
from tdu.environments.mnist_files import digits_folder
from tdu.errors import UserError, unknown
from tdu.types import Array, Environment, Key, State, TimeStep

Settings = Mapping[str, int | float]

_LENGTHS = (*range(1, 11), 12, 14, 17, 20, 25, *range(30, 101, 10))
_SIZES = (*range(1, 11), 12, 14, 17, 20, 25, 30, 40)
_DEEP_SEA_SIZES = tuple({"size": size, "mapping_seed": 42} for size in range(10, 51, 2))

DEEP_SEAS = {"deep_sea": False, "deep_sea_stochastic": True}
"""The experiments on Deep Sea, and whether each is stochastic. Their observations are one-hot."""


def _variants(kind: str, values: tuple[float, ...], copies: tuple[Settings, ...]) -> tuple[Settings, ...]:
    return tuple({kind: value, **copy} for value in values for copy in copies)


def _with_rewards(name: str, copies: tuple[Settings, ...]) -> dict[str, tuple[Settings, ...]]:
    """The variants with noisy and with scaled rewards: four settings for each of five scales."""
    return {
        f"{name}_noise": _variants("noise_scale", (0.1, 0.3, 1.0, 3.0, 10.0), copies),
        f"{name}_scale": _variants("reward_scale", (0.001, 0.03, 1.0, 30.0, 1000.0), copies),
    }


SETTINGS: dict[str, tuple[Settings, ...]] = {
    "bandit": tuple({"mapping_seed": seed} for seed in range(20)),
    **_with_rewards("bandit", tuple({"mapping_seed": seed} for seed in range(4))),
    "cartpole": ({},) * 20,
    **_with_rewards("cartpole", ({},) * 4),
    "cartpole_swingup": tuple({"height_threshold": n / 20, "x_reward_threshold": 1 - n / 20} for n in range(20)),
    "catch": ({},) * 20,
    **_with_rewards("catch", ({},) * 4),
    "deep_sea": _DEEP_SEA_SIZES,
    "deep_sea_stochastic": _DEEP_SEA_SIZES,
    "discounting_chain": tuple({"mapping_seed": seed} for seed in range(20)),
    "memory_len": tuple({"memory_length": length} for length in _LENGTHS),
    "memory_size": tuple({"num_bits": bits} for bits in _SIZES),
    "mnist": ({},) * 20,
    **_with_rewards("mnist", ({},) * 4),
    "mountain_car": ({},) * 20,
    **_with_rewards("mountain_car", ({},) * 4),
    "umbrella_distract": tuple({"n_distractor": n} for n in _LENGTHS),
    "umbrella_length": tuple({"chain_length": n, "n_distractor": 20} for n in _LENGTHS),
}
"""By experiment, in bsuite's order. Equal settings differ by randomness alone."""

_SHORT = ("cartpole", "discounting_chain", "mountain_car")
"""Experiments with 1000 episodes."""

_MAKERS: dict[str, Callable[..., Environment]] = {
    "bandit": tasks.bandit,
    "cartpole": cartpole,
    "cartpole_swingup": cartpole_swingup,
    "catch": tasks.catch,
    "discounting_chain": tasks.discounting_chain,
    "memory_len": lambda memory_length: tasks.memory_chain(memory_length=memory_length, num_bits=1),
    "memory_size": lambda num_bits: tasks.memory_chain(memory_length=2, num_bits=num_bits),
    "mnist": tasks.mnist,
    "mountain_car": tasks.mountain_car,
    "umbrella_distract": lambda n_distractor: tasks.umbrella_chain(chain_length=20, n_distractor=n_distractor),
    "umbrella_length": tasks.umbrella_chain,
}


def ids(experiment: str) -> list[str]:
    return [f"{experiment}/{index}" for index in range(len(SETTINGS[experiment]))]


def split(bsuite_id: str) -> tuple[str, int]:
    """Experiment and index of an id. Raises for unknown ids."""
    name, _, index = bsuite_id.partition("/")
    if name not in SETTINGS:
        raise unknown("bsuite experiment", name, SETTINGS)
    if bsuite_id not in ids(name):
        raise UserError(f"'{bsuite_id}' does not exist; {name}/0 to {name}/{len(SETTINGS[name]) - 1} do.")
    return name, int(index)


def episodes(bsuite_id: str) -> int:
    """bsuite's number of episodes for an id."""
    return 1000 if split(bsuite_id)[0].startswith(_SHORT) else 10_000


def copy_number(bsuite_id: str) -> int:
    """Number of equal settings before this one. They differ by randomness alone, which bsuite does not seed."""
    name, _, index = bsuite_id.partition("/")
    if name not in SETTINGS or bsuite_id not in ids(name):
        return 0
    return SETTINGS[name][: int(index)].count(SETTINGS[name][int(index)])


def twin(bsuite_id: str) -> Environment:
    """The compiled environment of an id. Equal settings share one."""
    name, index = split(bsuite_id)
    if name in DEEP_SEAS:
        size, mapping_seed = (int(SETTINGS[name][index][setting]) for setting in ("size", "mapping_seed"))
        return built_in.make("deep_sea", built_in.DeepSeaSettings(size, mapping_seed, stochastic=DEEP_SEAS[name]))
    folder = digits_folder() if name.startswith("mnist") else None
    return _make(name, SETTINGS[name].index(SETTINGS[name][index]), folder)


@lru_cache(maxsize=32)
def _make(experiment: str, index: int, folder: Path | None) -> Environment:
    """One object per environment and folder of data, so that its compiled code is reused."""
    del folder
    settings = dict(SETTINGS[experiment][index])
    noise_scale, reward_scale = settings.pop("noise_scale", None), settings.pop("reward_scale", None)
    env = _MAKERS[experiment.removesuffix("_noise").removesuffix("_scale")](**settings)
    if noise_scale is not None:
        env = _with_noise(env, noise_scale)
    if reward_scale is not None:
        env = _with_scale(env, reward_scale)
    bsuite_id = f"{experiment}/{index}"
    return env._replace(spec=env.spec._replace(name=bsuite_id, default_episodes=episodes(bsuite_id)))


def _with_noise(env: Environment, noise_scale: float) -> Environment:
    """Adds `noise_scale` times a standard normal draw to every reward. As in bsuite, `info` counts the unchanged ones."""

    def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        key_step, key_noise = jax.random.split(key)
        state, after = env.step(state, action, key_step)
        return state, after._replace(reward=after.reward + noise_scale * jax.random.normal(key_noise))

    return env._replace(step=step)


def _with_scale(env: Environment, reward_scale: float) -> Environment:
    """Multiplies every reward by `reward_scale`."""

    def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        state, after = env.step(state, action, key)
        return state, after._replace(reward=after.reward * reward_scale)

    return env._replace(step=step)


ADAPTER = Adapter(
    "NAME/INDEX", "a bsuite id, compiled, e.g. cartpole/0; equal to the official environment", "catch/0",
    compiled(lambda env_id: twin(env_id.name)), lambda env_id: episodes(env_id.name),
)  # fmt: skip
