"""Deep exploration in reinforcement learning: explorers paid for the disagreement of exploiters about TD errors.

Names are imported when they are first used, so that the command line starts quickly.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tdu import interrupts

if interrupts.is_command_line():
    interrupts.heed()

import gymnasium

if TYPE_CHECKING:
    from tdu import theory
    from tdu.errors import UserError
    from tdu.run.bsuite_agent import bsuite_agent
    from tdu.run.callbacks import Callback
    from tdu.run.observers import Evaluation
    from tdu.run.run import Run, Runs
    from tdu.run.runners.interaction import run_key
    from tdu.run.signals import Interrupted
    from tdu.run.stored import evaluate, load, load_agent
    from tdu.run.train import train
    from tdu.run.trained import TrainedAgent

__version__ = "0.1.0"

_MODULES = {
    "Callback": "tdu.run.callbacks",
    "Evaluation": "tdu.run.observers",
    "Interrupted": "tdu.run.signals",
    "Run": "tdu.run.run",
    "Runs": "tdu.run.run",
    "TrainedAgent": "tdu.run.trained",
    "UserError": "tdu.errors",
    "bsuite_agent": "tdu.run.bsuite_agent",
    "evaluate": "tdu.run.stored",
    "load": "tdu.run.stored",
    "load_agent": "tdu.run.stored",
    "run_key": "tdu.run.runners.interaction",
    "train": "tdu.run.train",
}

__all__ = [
    "Callback", "Evaluation", "Interrupted", "Run", "Runs", "TrainedAgent", "UserError", "bsuite_agent", "evaluate",
    "load", "load_agent", "run_key", "theory", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "theory":
        return importlib.import_module("tdu.theory")
    if name not in _MODULES:
        raise AttributeError(f"module 'tdu' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _name, _environment in {"DeepSea": "deep_sea", "BinaryTree": "binary_tree", "KeyDoor": "key_door"}.items():
    if f"tdu/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(
            f"tdu/{_name}-v0",
            entry_point="tdu.environments.as_gymnasium:BuiltInEnv",
            kwargs={"environment": _environment},
        )
