"""What an adapter is: the environments of one source, by id.

A new source is one file with an `ADAPTER`, and one line in `environments.ADAPTERS`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tdu.environments.ids import EnvId
from tdu.environments.python import PythonEnvironment, Seed
from tdu.environments.vector import PythonVector, VectorEnvironment
from tdu.errors import UserError
from tdu.types import Environment

GYM_EPISODES = 1000
"""Default number of episodes on Gymnasium, Atari and other JAX libraries."""

MadeEnvironment = Environment | VectorEnvironment
"""Compiled, or stepped from Python."""

Load = Callable[[EnvId, Seed, int], MadeEnvironment]
"""load(id, seed, num_envs). A compiled environment is one for any number, and is seeded by the runner."""


class Adapter(NamedTuple):
    """One source of environments."""

    form: str
    """How its ids look, for example gym:ID."""
    summary: str
    """One line for `tdu list`."""
    example: str
    """An id of it."""
    load: Load
    episodes: Callable[[EnvId], int | None] = lambda env_id: GYM_EPISODES
    """Default number of episodes; None if it is known only once the environment is made. May raise for unknown ids."""
    group: Callable[[str], list[str]] | None = None
    """group(name) -> the ids of a named group, for sweeps: `atari:exploration`."""


def compiled(load: Callable[[EnvId], Environment]) -> Load:
    """`Adapter.load` of compiled environments."""
    return lambda env_id, seed, num_envs: load(env_id)


def stepped(load: Callable[[str, Seed], PythonEnvironment]) -> Load:
    """`Adapter.load` of environments in Python, made by name and stepped one after another."""
    return lambda env_id, seed, num_envs: PythonVector([load(env_id.name, seed) for _ in range(num_envs)])


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turns a failed import into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise UserError(
            f"this environment needs the extra '{extra}' ({e.name} is missing): pip install 'tdu[{extra}]'."
        ) from None
