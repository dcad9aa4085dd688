"""Every experiment by name, in the order of what its next run is worth."""

from reproduction import theory
from reproduction.atari import ATARI
from reproduction.atari_57 import ATARI_57
from reproduction.atari_ablations import ATARI_ABLATIONS
from reproduction.baselines import BASELINES
from reproduction.binary_tree import BINARY_TREE
from reproduction.bsuite import BSUITE
from reproduction.deep_ablation import DEEP_ABLATION
from reproduction.deep_sea import DEEP_SEA
from reproduction.deep_sea_grid import DEEP_SEA_GRID
from reproduction.experiment import Grid, Own
from reproduction.forgetting import FORGETTING
from reproduction.luck import LUCK
from reproduction.scaling import SCALING
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
    "bsuite": BSUITE,
    "atari": ATARI,
    "atari_ablations": ATARI_ABLATIONS,
    "atari_57": ATARI_57,
    "theory": Own(
        "sections 2 and 3: the lemma and both theorems, checked where the truth is known", theory.reproduce, theory.draw
    ),
}
"""An experiment that is no grid of runs is `Own("what it is", reproduce, pages)`, two functions of its folder."""

ALL = "all"


def find(name: str) -> Grid | Own:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, [*EXPERIMENTS, ALL])
    return EXPERIMENTS[name]


def grids() -> dict[str, Grid]:
    """Those that are grids of runs."""
    return {name: experiment for name, experiment in EXPERIMENTS.items() if isinstance(experiment, Grid)}
