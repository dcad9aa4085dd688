"""Section 5.2: R2D2, Bootstrapped R2D2 and TDU-R2D2 on Atari (claim C9): which runs, what is measured, what they say.

The paper ran 20 billion frames a run, 8 seeds, and found the mean human-normalised score on seven hard exploration games 30 %
above the baselines', F = 8.17, p = 0.0045. `paper` is that. `laptop` is what two cores can do: Freeway, in small pictures.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tdu import runs
from tdu.environments.atari import EXPLORATION, FRAMES_PER_STEP
from tdu.experiments.experiment import Grid, Measured, Report, Verdict, markdown, select
from tdu.experiments.rows import Row
from tdu.reporting import atari_scores, variance
from tdu.sweeps import Cell

BASELINES = ("r2d2", "b_r2d2")
OURS = ("tdu_r2d2", "tdu_r2d2_prior")
PAPER_FRAMES = 20_000_000_000
PAPER_SEEDS = 8
PAPER_ENVS = 256
PAPER_GAIN = 1.3
"""Of the mean human-normalised score over the baselines'."""

LAPTOP_ENV = "atari/freeway"
LAPTOP_STEPS = 300_000
LAPTOP_SEEDS = 3
LAPTOP_ENVS = 16

LEFT_OUT = (
    "the seven exploration games at 20 billion frames, which need a cluster (docs/cluster.md); Freeway at 300,000 agent "
    "steps, with the preset atari-small, which sees pictures of 42×42, is in their place."
)

RULE = (
    "the TDU agents score at least 15 % more than the baselines on the seven exploration games, three seeds each, and the "
    "analysis of variance has p < 0.05."
)


def cells(preset: str) -> list[Cell]:
    """The runs, all of one seed before the next."""
    if preset == "laptop":
        return [
            Cell(LAPTOP_ENV, agent, "atari-small", seed=seed, steps=LAPTOP_STEPS, num_envs=LAPTOP_ENVS)
            for seed in range(LAPTOP_SEEDS)
            for agent in (*BASELINES, *OURS)
        ]
    return [
        Cell(f"atari/{game}", agent, "paper", seed=seed, steps=PAPER_FRAMES // FRAMES_PER_STEP, num_envs=PAPER_ENVS)
        for seed in range(PAPER_SEEDS)
        for game in EXPLORATION
        for agent in (*BASELINES, *OURS)
    ]


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """The human-normalised score of a run: what its trained policy returned, or else its last episodes of training."""
    del folder
    game = atari_scores.game_of(result.env)
    score = result.greedy_return.mean if result.greedy_return is not None else result.mean_return
    if game is None or score is None:
        return Measured()
    return Measured(score=float(atari_scores.human_normalised(game, score)))


class Played(NamedTuple):
    """A run as it counts."""

    kind: str
    game: str
    hns: float


def report(rows: Sequence[Row]) -> Report:
    """A line per game and agent, and what is to be said of C9."""
    rows = select(rows, [*cells("laptop"), *cells("paper")])
    played = [Played(row.agent, _game(row.env), row.score) for row in rows if row.score is not None]
    lines = []
    for env, agent in dict.fromkeys((row.env, row.agent) for row in rows):
        scores = [row.score for row in rows if (row.env, row.agent) == (env, agent) and row.score is not None]
        if scores:
            lines.append([env, agent, f"{np.mean(scores):.3f}", ", ".join(f"{score:.3f}" for score in scores)])
    header = ["game", "agent", "mean human-normalised score", "every seed"]
    body = "## Human-normalised scores\n\n" + (markdown(header, lines) if lines else "None was run yet.")
    return Report({"C9": verdict(played)}, body, {})


def verdict(rows: Sequence[Played], fewest: int = 3) -> Verdict:
    """What is to be said of C9."""
    hard = [r for r in rows if r.game in EXPLORATION and r.kind in (*BASELINES, *OURS)]
    kinds = (*BASELINES, *OURS)
    lacking = [
        game for game in EXPLORATION for kind in kinds if sum((r.game, r.kind) == (game, kind) for r in hard) < fewest
    ]
    if lacking:
        games = ", ".join(dict.fromkeys(lacking))
        return Verdict("not yet enough data", f"{fewest} seeds of {', '.join(kinds)} are not there on {games}")
    gains = [_mean(hard, OURS), _mean(hard, BASELINES)]
    test = variance.anova([r.hns for r in hard], [r.kind in OURS for r in hard], [r.game for r in hard])
    words = f"mean human-normalised score {gains[0]:.3f} with TDU and {gains[1]:.3f} without"
    if test is None:
        return Verdict("inconclusive", words)
    words += f", F = {test.f:.2f}, p = {test.p:.4f}"
    if test.p >= 0.05:
        return Verdict("inconclusive", words)
    if gains[0] <= gains[1]:
        return Verdict("not reproduced", words)
    enough = gains[0] - gains[1] >= (PAPER_GAIN - 1) / 2 * abs(gains[1])
    return Verdict("reproduced" if enough else "partly reproduced", words)


def _mean(rows: Sequence[Played], kinds: Sequence[str]) -> float:
    """Mean over games of the mean over their runs."""
    return float(np.mean([np.mean([r.hns for r in rows if r.game == g and r.kind in kinds]) for g in EXPLORATION]))


def _game(env: str) -> str:
    return atari_scores.game_of(env) or env


ATARI = Grid(
    summary="section 5.2: R2D2, Bootstrapped R2D2 and TDU-R2D2 on Atari",
    claims={"C9": "TDU-R2D2 lifts the mean human-normalised score on seven hard exploration games by about 30 %"},
    rules=RULE,
    cells=cells,
    left_out=LEFT_OUT,
    measure=measure,
    report=report,
)
