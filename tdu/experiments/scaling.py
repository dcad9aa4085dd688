"""Our own: how the episodes that TDU and BDQN need grow with the size of the deterministic sea."""

from collections.abc import Sequence

from tdu.experiments.deep_sea import ENSEMBLES, SIZES, measure, sea
from tdu.experiments.experiment import Grid, Report, cell
from tdu.experiments.rows import Row
from tdu.sweeps import Cell

LARGE = (60, 80, 100)


def cells(preset: str) -> list[Cell]:
    """The large seas, and those of the other experiments that the exponent is fitted to."""
    thin = preset == "laptop"
    wanted = []
    for seed in range(2 if thin else 5):
        wanted += [cell(sea(n, stochastic=False), agent, seed) for n in SIZES for agent in ENSEMBLES]
        wanted += [
            cell(sea(n, stochastic=False), a, seed) for n in LARGE for a in (ENSEMBLES[:1] if thin else ENSEMBLES)
        ]
    return wanted


def report(rows: Sequence[Row]) -> Report:
    raise NotImplementedError


SCALING = Grid(
    summary="ours: sizes 60, 80, 100, and the exponent of episodes against size",
    claims={},
    rules="",
    cells=cells,
    left_out="",
    measure=measure,
    report=report,
)
