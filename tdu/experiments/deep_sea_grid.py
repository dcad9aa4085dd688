"""Figure 2: β against λ on stochastic Deep Sea, and σ over values in place of TD errors (claims C4 and C5)."""

from collections.abc import Sequence

from tdu.agents.grids import BETAS
from tdu.experiments.deep_sea import SIZES, measure, sea
from tdu.experiments.experiment import Grid, Report, cell
from tdu.experiments.rows import Row
from tdu.sweeps import Cell

FEW_SIZES = (20, 30, 40)
FEW_BETAS = (0.0, 0.1, 1.0, 3.0)
PRIORS = (0.0, 1.0, 3.0)


def ensemble(env: str, seed: int, *, beta: float, prior: float) -> Cell:
    """TDU with that β and λ; without β it is BDQN."""
    if beta == 0:
        return cell(env, "bdqn", seed, prior_scale=prior)
    return cell(env, "tdu", seed, beta=beta, prior_scale=prior)


def cells(preset: str) -> list[Cell]:
    """Small seas first."""
    thin = preset == "laptop"
    wanted = []
    for seed in range(2):
        for size in FEW_SIZES if thin else SIZES:
            for env in [sea(size, stochastic=True)] + ([] if thin else [sea(size, stochastic=False)]):
                for beta in FEW_BETAS if thin else BETAS:
                    wanted += [ensemble(env, seed, beta=beta, prior=prior) for prior in PRIORS]
                for beta in (1.0,) if thin else BETAS[1:]:
                    wanted += [cell(env, agent, seed, beta=beta) for agent in ("qu", "q_ucb")]
    return wanted


def report(rows: Sequence[Row]) -> Report:
    raise NotImplementedError


DEEP_SEA_GRID = Grid(
    summary="figure 2: β × λ on stochastic Deep Sea, no prior, QU and Q+UCB",
    claims={},
    rules="",
    cells=cells,
    left_out="",
    measure=measure,
    report=report,
)
