"""Every experiment by name, in the order of what its next run is worth."""

from tdu.errors import unknown
from tdu.experiments import theory
from tdu.experiments.atari import ATARI
from tdu.experiments.atari_57 import ATARI_57
from tdu.experiments.atari_ablations import ATARI_ABLATIONS
from tdu.experiments.baselines import BASELINES
from tdu.experiments.binary_tree import BINARY_TREE
from tdu.experiments.bsuite import BSUITE
from tdu.experiments.deep_ablation import DEEP_ABLATION
from tdu.experiments.deep_sea import DEEP_SEA
from tdu.experiments.deep_sea_grid import DEEP_SEA_GRID
from tdu.experiments.experiment import Grid, Own
from tdu.experiments.forgetting import FORGETTING
from tdu.experiments.luck import LUCK
from tdu.experiments.scaling import SCALING

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
