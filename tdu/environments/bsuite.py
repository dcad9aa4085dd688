"""bsuite's official environments, by their official ids. Needs the extra `bsuite`."""

import contextlib
import io
from typing import Any

from tdu.environments.deep_sea import solved_rule
from tdu.environments.python import PythonEnvironment
from tdu.errors import UserError, unknown

DEEP_SEAS = {"deep_sea": False, "deep_sea_stochastic": True}
"""Experiments whose observation is one-hot, so that the cheap first layer fits, and whether they are stochastic."""


def load(bsuite_id: str, seed: int) -> PythonEnvironment:
    """The official environment, reseeded from (seed, episode) at every episode."""
    bsuite, sweep = _import()
    name = bsuite_id.partition("/")[0]
    experiments = {i.split("/")[0] for i in sweep.SWEEP}
    if name not in experiments:
        raise unknown("bsuite experiment", name, experiments)
    if bsuite_id not in sweep.SWEEP:
        last = sum(i.startswith(f"{name}/") for i in sweep.SWEEP) - 1
        raise UserError(f"'{bsuite_id}' does not exist; {name}/0 to {name}/{last} do.")
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it announces itself there
            env = bsuite.load_from_id(bsuite_id)
    except OSError as e:
        raise UserError(f"{bsuite_id} needs data that cannot be had ({e}); see bsuite's page on it.") from None
    return PythonEnvironment(
        env,
        name=f"bsuite:{bsuite_id}",
        seed=seed,
        one_hot=name in DEEP_SEAS,
        solved=solved_rule(DEEP_SEAS[name]) if name in DEEP_SEAS else None,
    )


def is_one_hot(env: Any) -> bool:
    """Whether an official environment's observation is one-hot, whatever it is wrapped in."""
    raw = getattr(env, "raw_env", env)
    return type(raw).__module__ == "bsuite.environments.deep_sea"


def _import() -> tuple[Any, Any]:
    try:
        import bsuite
        from bsuite import sweep
    except ModuleNotFoundError as e:
        raise UserError(
            f"this environment needs the extra 'bsuite' ({e.name} is missing): pip install 'tdu[bsuite]'."
        ) from None
    return bsuite, sweep
