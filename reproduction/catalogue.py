"""Every experiment by name, in the order of what its next run is worth. A new experiment is one line here and one file."""

from reproduction import theory
from reproduction.experiment import Grid, Own
from reproduction.experiments.atari import ATARI
from reproduction.experiments.atari_57 import ATARI_57
from reproduction.experiments.atari_ablations import ATARI_ABLATIONS
from reproduction.experiments.baselines import BASELINES
from reproduction.experiments.battery import BATTERY
from reproduction.experiments.binary_tree import BINARY_TREE
from reproduction.experiments.bsuite import BSUITE
from reproduction.experiments.bsuite_best import BSUITE_BEST
from reproduction.experiments.deep_ablation import DEEP_ABLATION
from reproduction.experiments.deep_sea import DEEP_SEA
from reproduction.experiments.deep_sea_grid import DEEP_SEA_GRID
from reproduction.experiments.forgetting import FORGETTING
from reproduction.experiments.luck import LUCK
from reproduction.experiments.scaling import SCALING
from tdu.errors import unknown

EXPERIMENTS: dict[str, Grid | Own] = {
    "deep_sea": DEEP_SEA,
    "baselines": BASELINES,
    "binary_tree": BINARY_TREE,
    "deep_sea_grid": DEEP_SEA_GRID,
    "forgetting": FORGETTING,
    "scaling": SCALING,
    "deep_ablation": DEEP_ABLATION,
    "luck": LUCK,
    "battery": BATTERY,
    "bsuite": BSUITE,
    "bsuite_best": BSUITE_BEST,
    "atari": ATARI,
    "atari_ablations": ATARI_ABLATIONS,
    "atari_57": ATARI_57,
    "theory": Own(
        "sections 2 and 3: the lemma and both theorems, on MDPs with a known posterior", theory.reproduce, theory.draw
    ),
}


def find(name: str) -> Grid | Own:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, [*EXPERIMENTS, "all"])
    return EXPERIMENTS[name]


def grids() -> dict[str, Grid]:
    """The experiments that are grids of runs."""
    return {name: experiment for name, experiment in EXPERIMENTS.items() if isinstance(experiment, Grid)}
