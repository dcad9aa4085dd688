"""Our own question: what makes the tail of TDU's runs on stochastic seas? One change at a time, distributions compared."""

from collections.abc import Sequence
from typing import Any

from tdu.experiments.deep_sea import ENSEMBLES, measure, sea
from tdu.experiments.experiment import Grid, Report, cell
from tdu.experiments.rows import Row
from tdu.sweeps import Cell

SIZES = (30, 40)
SEEDS = 12
CHANGES: dict[str, dict[str, Any]] = {
    "replay 100,000": {"replay_capacity": 100_000},
    "λ = 5": {"prior_scale": 5.0},
    "double Q": {"bootstrap": "double"},
    "batch 128": {"batch_size": 128},
}


def cells(preset: str) -> list[Cell]:
    """Size 30 first: the paper's settings with many seeds, then each change."""
    thin = preset == "laptop"
    wanted = []
    for size in SIZES:
        env = sea(size, stochastic=True)
        wanted += [cell(env, agent, seed) for seed in range(SEEDS) for agent in ENSEMBLES]
        for seed in range(6 if thin else SEEDS):
            for changes in CHANGES.values():
                wanted += [cell(env, agent, seed, **changes) for agent in (ENSEMBLES[:1] if thin else ENSEMBLES)]
    return wanted


def report(rows: Sequence[Row]) -> Report:
    raise NotImplementedError


FORGETTING = Grid(
    summary="ours: what makes the tail on stochastic seas (replay, batch, λ, double Q)",
    claims={},
    rules="",
    cells=cells,
    left_out="",
    measure=measure,
    report=report,
)
