"""bsuite's official environments, by their official ids. Needs the extra `bsuite`."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

from tdu.environments.bsuite_twins.experiments import copy_number, episodes
from tdu.environments.deep_sea import solved_rule
from tdu.environments.mnist_files import MNIST_FILES, complete_folder, unreadable
from tdu.environments.python import PythonEnvironment, Seed, number
from tdu.errors import UserError, unknown

DEEP_SEAS = {"deep_sea": False, "deep_sea_stochastic": True}
"""Experiments whose observation is one-hot, so that the cheap first layer fits, and whether they are stochastic."""


def ids(name: str) -> list[str]:
    """Official ids: all of them without a name, or those of an experiment, a tag, or `testing`."""
    _, sweep = imported()
    if not name:
        return list(sweep.SWEEP)
    if name == "testing":
        return list(sweep.TESTING)
    if name in sweep.TAGS:
        return list(sweep.TAGS[name])
    found = [i for i in sweep.SWEEP if i.startswith(f"{name}/")]
    if not found:
        raise unknown("bsuite experiment", name, {i.split("/")[0] for i in sweep.SWEEP} | {"testing", *sweep.TAGS})
    return found


def own_seed(bsuite_id: str, seed: int) -> int:
    """What everything random on a setting grows from: with one seed, settings that are the same are still several runs."""
    own = seed_of_copy(bsuite_id, seed)
    return own if isinstance(own, int) else number(own)


def seed_of_copy(bsuite_id: str, seed: Seed) -> Seed:
    """The seed of an id's environments: of several settings that are the same, each has its own."""
    copy = copy_number(bsuite_id)
    return f"{seed} copy {copy}" if copy else seed


def load(bsuite_id: str, seed: Seed) -> PythonEnvironment:
    """The official environment, reseeded from (seed, episode) at every episode, and each of several copies otherwise."""
    default_episodes(bsuite_id)
    bsuite, _ = imported()
    name = bsuite_id.partition("/")[0]
    with contextlib.redirect_stdout(io.StringIO()), _local_digits(name):  # it announces itself there
        env = bsuite.load_from_id(bsuite_id)
    return PythonEnvironment(
        env,
        name=f"bsuite:{bsuite_id}",
        seed=seed_of_copy(bsuite_id, seed),
        num_states=num_states(env),
        solved=solved_rule(DEEP_SEAS[name]) if name in DEEP_SEAS else None,
    )


def default_episodes(bsuite_id: str) -> int:
    """How many episodes bsuite gives to an id; an unknown one is refused."""
    imported()
    return episodes(bsuite_id)


def num_states(env: Any) -> int | None:
    """How many states an official environment with one-hot observations has, whatever it is wrapped in."""
    raw = getattr(env, "raw_env", env)
    if type(raw).__module__ != "bsuite.environments.deep_sea":
        return None
    rows, columns = env.observation_spec().shape
    return int(rows * columns)


@contextlib.contextmanager
def _local_digits(name: str) -> Iterator[None]:
    """bsuite's MNIST experiments download their data; here they read local files, or say what is missing."""
    if not name.startswith("mnist"):
        yield
        return
    folder = complete_folder(name, MNIST_FILES)
    from bsuite.utils import datasets

    original = datasets.load_mnist
    datasets.load_mnist = lambda: original(str(folder))
    try:
        yield
    except (OSError, ValueError) as e:
        raise unreadable(folder, e) from None
    finally:
        datasets.load_mnist = original


def imported() -> tuple[Any, Any]:
    """bsuite and its sweep, or an error that names the extra."""
    try:
        import bsuite
        from bsuite import sweep
    except ModuleNotFoundError as e:
        raise UserError(
            f"this environment needs the extra 'bsuite' ({e.name} is missing): pip install 'tdu[bsuite]'."
        ) from None
    return bsuite, sweep
