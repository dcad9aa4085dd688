"""Deep exploration in reinforcement learning: explorers paid for the disagreement of exploiters about TD errors."""

from tdu import theory
from tdu.environments.as_gymnasium import register
from tdu.errors import UserError
from tdu.run.bsuite_agent import bsuite_agent
from tdu.run.evaluate import evaluate
from tdu.run.runners.interaction import run_key
from tdu.run.train import Evaluation, Interrupted, Run, load, train
from tdu.run.trained import TrainedAgent

register()

__version__ = "0.1.0"

__all__ = [
    "Evaluation",
    "Interrupted",
    "Run",
    "TrainedAgent",
    "UserError",
    "bsuite_agent",
    "evaluate",
    "load",
    "run_key",
    "theory",
    "train",
]
