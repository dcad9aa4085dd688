"""Appendix C: the Binary Tree, depth × β, and the number N of explorers without priors (claim C6)."""

from collections.abc import Sequence
from pathlib import Path

from tdu import runs
from tdu.experiments.experiment import Grid, Measured, Report, cell
from tdu.experiments.rows import Row
from tdu.sweeps import Cell

DEPTHS = tuple(range(10, 251, 10))
FEW_DEPTHS = (50, 100, 150, 200, 250)
BETAS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0)
FEW_BETAS = (0.0, 0.1, 1.0, 3.0)
EXPLORERS = (2, 5, 10, 15)
HEADS = 20


def tree(depth: int) -> str:
    """The id of a tree."""
    return f"binary_tree:depth={depth}"


def depth_of(env: str) -> int:
    """The depth in an id."""
    return int(env.partition("depth=")[2].partition(",")[0])


def by_beta(depth: int, beta: float, seed: int) -> Cell:
    """With priors; without β it is BDQN."""
    return cell(tree(depth), "tdu", seed, beta=beta) if beta else cell(tree(depth), "bdqn", seed)


def by_explorers(depth: int, explorers: int, beta: float, seed: int) -> Cell:
    """N of the twenty value functions explore; no priors."""
    return cell(tree(depth), "tdu", seed, beta=beta, prior_scale=0.0, explorers=explorers, exploiters=HEADS - explorers)


def cells(preset: str) -> list[Cell]:
    """All of one seed before the next; shallow trees first."""
    thin = preset == "laptop"
    wanted = []
    for seed in range(3 if thin else 5):
        for depth in FEW_DEPTHS if thin else DEPTHS:
            wanted += [by_beta(depth, beta, seed) for beta in (FEW_BETAS if thin else BETAS)]
        for depth in FEW_DEPTHS[:2] if thin else DEPTHS:
            wanted += [by_explorers(depth, n, beta, seed) for n in EXPLORERS for beta in (0.5, 1.0)]
    return wanted


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """Whether it was solved, and how many episodes reached the last leaf."""
    bad = runs.read_log(folder / "log.csv")["total_bad_episodes"]
    return Measured(score=float(result.solved_episode is not None), successes=result.episodes - round(float(bad[-1])))


def report(rows: Sequence[Row]) -> Report:
    raise NotImplementedError


BINARY_TREE = Grid(
    summary="appendix C: Binary Tree, depth × β, and the number of explorers without priors",
    claims={},
    rules="",
    cells=cells,
    left_out="",
    measure=measure,
    report=report,
)
