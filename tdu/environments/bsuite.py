"""bsuite's official environments, by their official ids. Needs the extra `bsuite`."""

import contextlib
import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tdu.environments.adapter import Adapter, needs_extra, stepped
from tdu.environments.bsuite_twins.experiments import DEEP_SEAS, copy_number, episodes
from tdu.environments.deep_sea import optimal_path, solved_rule
from tdu.environments.ids import EnvId
from tdu.environments.mnist_files import MNIST_FILES, complete_folder, unreadable
from tdu.environments.python import PythonEnvironment, Seed, of_dm_env
from tdu.errors import unknown


def ids(name: str) -> list[str]:
    """Official ids of an experiment, of a tag or of `testing`; all of them without a name."""
    _, sweep = imported()
    groups = {"": sweep.SWEEP, "testing": sweep.TESTING, **sweep.TAGS}
    if name in groups:
        return list(groups[name])
    found = [i for i in sweep.SWEEP if i.startswith(f"{name}/")]
    if not found:
        raise unknown("bsuite experiment", name, {i.split("/")[0] for i in sweep.SWEEP} | {"testing", *sweep.TAGS})
    return found


def seed_of_copy(bsuite_id: str, seed: Seed) -> Seed:
    """The seed of a setting's environments. It differs between equal settings."""
    copy = copy_number(bsuite_id)
    return f"{seed} copy {copy}" if copy else seed


def load(bsuite_id: str, seed: Seed) -> PythonEnvironment:
    bsuite, _ = imported()
    episodes(bsuite_id)  # raises for unknown ids
    name = bsuite_id.partition("/")[0]
    with contextlib.redirect_stdout(io.StringIO()), _local_digits(name):  # bsuite prints a banner
        env = bsuite.load_from_id(bsuite_id)
    made = of_dm_env(
        env,
        name=f"bsuite:{bsuite_id}",
        seed=seed_of_copy(bsuite_id, seed),
        num_states=num_states(env),
        solved=solved_rule(DEEP_SEAS[name]) if name in DEEP_SEAS else None,
    )
    if name in DEEP_SEAS:
        made.spec = made.spec._replace(optimal_path=optimal_path(getattr(env, "raw_env", env)._action_mapping))
    return made


def _default_episodes(env_id: EnvId) -> int:
    imported()
    return episodes(env_id.name)


def num_states(env: Any) -> int | None:
    """Number of states of an official environment with one-hot observations, wrapped or not; None for others."""
    if type(getattr(env, "raw_env", env)).__module__ != "bsuite.environments.deep_sea":
        return None
    rows, columns = env.observation_spec().shape
    return int(rows * columns)


@contextlib.contextmanager
def _local_digits(name: str) -> Iterator[None]:
    """Lets bsuite's MNIST experiments read local files instead of downloading them."""
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


def imported() -> tuple[ModuleType, ModuleType]:
    """The modules bsuite and bsuite.sweep."""
    with needs_extra("bsuite"):
        import bsuite
        from bsuite import sweep
    return bsuite, sweep


ADAPTER = Adapter(
    "bsuite:ID", "bsuite's official environment, stepped from Python, e.g. bsuite:cartpole/0", "bsuite:catch/0",
    stepped(load), _default_episodes, ids,
)  # fmt: skip
