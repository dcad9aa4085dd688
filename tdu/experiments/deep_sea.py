"""Figure 1: every method on Deep Sea, 21 sizes, deterministic and stochastic (claims C1, C2 and C3)."""

from collections.abc import Sequence
from pathlib import Path

from tdu import runs
from tdu.experiments.experiment import Grid, Measured, Report, cell
from tdu.experiments.rows import Row
from tdu.reporting.bsuite_scores import beats_dithering
from tdu.sweeps import Cell

SIZES = tuple(range(10, 51, 2))
FEW_SIZES = (10, 20, 30, 40, 50)
OTHERS = ("cts", "rnd", "su", "nns", "qex", "dqn")
ENSEMBLES = ("tdu", "bdqn")


def sea(size: int, *, stochastic: bool) -> str:
    """The id of a sea."""
    return f"deep_sea:size={size}" + (",stochastic=true" if stochastic else "")


def size_of(env: str) -> int:
    """The size in an id."""
    return int(env.partition("size=")[2].partition(",")[0])


def is_stochastic(env: str) -> bool:
    """Whether an id is that of a stochastic sea."""
    return "stochastic=true" in env


def cells(preset: str) -> list[Cell]:
    """TDU and BDQN on every size, then the other methods, then both with bsuite's own boot_dqn settings."""
    thin = preset == "laptop"
    both = (False, True)
    wanted = [
        cell(sea(n, stochastic=s), agent, seed)
        for seed in range(2 if thin else 5)
        for s in both
        for n in SIZES
        for agent in ENSEMBLES
    ]
    wanted += [
        cell(sea(n, stochastic=s), agent, seed)
        for seed in range(1 if thin else 5)
        for n in (FEW_SIZES if thin else SIZES)
        for agent in OTHERS
        for s in both
    ]
    wanted += [
        cell(sea(n, stochastic=s), agent, seed, preset="boot_dqn")
        for seed in range(1 if thin else 5)
        for s in ((True,) if thin else both)
        for n in SIZES
        for agent in ENSEMBLES
    ]
    return wanted


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """Whether bsuite counts the run as solved, and how often the chest was reached."""
    chests = runs.read_log(folder / "log.csv")["denoised_return"]
    score = float(beats_dithering(result.solved_episode, size_of(result.env)))
    return Measured(score=score, successes=round(float(chests[-1])))


def report(rows: Sequence[Row]) -> Report:
    raise NotImplementedError


DEEP_SEA = Grid(
    summary="figure 1: every method on Deep Sea, 21 sizes, deterministic and stochastic",
    claims={},
    rules="",
    cells=cells,
    left_out="",
    measure=measure,
    report=report,
)
