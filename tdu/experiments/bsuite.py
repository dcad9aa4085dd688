"""Appendix D: β and the bandit over heads on the whole of bsuite, official environments and episodes (claim C7)."""

from collections.abc import Sequence
from pathlib import Path

from tdu import runs
from tdu.agents.grids import BETAS
from tdu.experiments import deep_sea
from tdu.experiments.experiment import EPISODES, Grid, Measured, Report, cell
from tdu.experiments.rows import Row
from tdu.reporting import bsuite_scores
from tdu.sweeps import Cell

SETTINGS = {
    "mountain_car": 20, "catch": 20, "cartpole": 20, "bandit": 20, "discounting_chain": 20, "umbrella_length": 23,
    "memory_len": 23, "deep_sea": 21, "deep_sea_stochastic": 21, "bandit_noise": 20, "bandit_scale": 20, "catch_noise": 20,
    "catch_scale": 20, "cartpole_noise": 20, "cartpole_scale": 20, "mountain_car_noise": 20, "mountain_car_scale": 20,
    "umbrella_distract": 23, "memory_size": 17, "cartpole_swingup": 20, "mnist": 20, "mnist_noise": 20, "mnist_scale": 20,
}  # fmt: skip
"""How many settings each experiment has; those first that the claim is about."""

IN_FULL = ("mountain_car",)
BANDIT = {"head_choice": "ucb1"}


def environment(bsuite_id: str) -> tuple[str, int | None]:
    """The environment of an id and its limit of episodes; the seas are those of the other experiments."""
    name, _, index = bsuite_id.partition("/")
    if name in ("deep_sea", "deep_sea_stochastic"):
        return deep_sea.sea(deep_sea.SIZES[int(index)], stochastic=name != "deep_sea"), EPISODES
    return bsuite_id, None


def ids(preset: str) -> list[str]:
    """Settings of every experiment; on a laptop the first, the middle and the last, and no MNIST, which needs data."""
    found = []
    for name, count in SETTINGS.items():
        every = preset == "paper" or name in IN_FULL
        if not (preset == "laptop" and name.startswith("mnist")):
            found += [f"{name}/{i}" for i in (range(count) if every else (0, count // 2, count - 1))]
    return found


def cells(preset: str) -> list[Cell]:
    """β = 0 (BDQN), β = 1 and the bandit for an id before the next id; all first settings before the second ones."""
    wanted = []
    for bsuite_id in sorted(ids(preset), key=_turn):
        env, limit = environment(bsuite_id)
        wanted += [cell(env, "bdqn", 0, episodes=limit), cell(env, "tdu", 0, episodes=limit)]
        wanted += [cell(env, "tdu", 0, episodes=limit, **BANDIT)]
        if preset == "paper":
            wanted += [cell(env, "tdu", 0, episodes=limit, beta=beta) for beta in BETAS if beta not in (0.0, 1.0)]
            wanted += [cell(env, agent, 0, episodes=limit) for agent in ("qu", "q_ucb")]
    return wanted


def _turn(bsuite_id: str) -> int:
    name, _, index = bsuite_id.partition("/")
    return (
        0 if index == "0" else 1 if int(index) == SETTINGS[name] // 2 else 2 if int(index) == SETTINGS[name] - 1 else 3
    )


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """bsuite's official score of this setting alone."""
    if result.env.startswith("deep_sea:"):
        return deep_sea.measure(folder, result)
    (score,) = bsuite_scores.score_logs({result.env: runs.read_log(folder / "log.csv")})
    return Measured(score=round(min(max(score.score, 0.0), 1.0), 4))


def report(rows: Sequence[Row]) -> Report:
    raise NotImplementedError


BSUITE = Grid(
    summary="appendix D: β and the bandit over heads on all of bsuite",
    claims={},
    rules="",
    cells=cells,
    left_out="",
    measure=measure,
    report=report,
)
