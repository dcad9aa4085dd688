"""Appendix E: all 57 Atari games, with the variants L of TDU-R2D2 and TDU-R2D2+, whose β is 0.1.

The paper has 3 seeds and does not give a length for this figure. Runs have 20 billion frames, so that they are shared
with the main experiment.
"""

from collections.abc import Sequence
from typing import Any

from reproduction import analysis, wording
from reproduction.atari_runs import FEWEST, LOSS, GamePlan, body, compare, difference, mean, measure, pick, too_few
from reproduction.experiment import Findings, Grid, Verdict
from reproduction.experiments.atari import AGENTS, OURS, PAPER_FRAMES
from reproduction.rows import RunRow
from tdu.environments.atari import EXPLORATION, GAMES
from tdu.report.atari_scores import Scored
from tdu.run.sweeps import Cell

LOWER = tuple(f"{agent}-L" for agent in OURS)
LOWER_BETA = 0.1

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{agent: (agent, {}) for agent in AGENTS},
    **{name: (agent, {"beta": LOWER_BETA}) for name, agent in zip(LOWER, OURS, strict=True)},
}

PLANS = {
    "laptop": GamePlan(SETTINGS, ("gopher", "gravitar"), seeds=2, preset="atari-small", frames=400_000),
    "paper": GamePlan(SETTINGS, GAMES, seeds=3, preset="paper", frames=PAPER_FRAMES),
}

RULE = (
    f"both verdicts use runs of the preset `paper` and require {FEWEST} seeds of both TDU agents and both variants L on "
    "each game. `lower_beta` compares the variants L with the agents by an analysis of variance of the "
    "human-normalised scores on 57 games that controls for game. It is reproduced if p < 0.05 and the variants score "
    "more, not reproduced if p < 0.05 and they score less, and inconclusive otherwise. `exploration` is about the "
    "difference, variants less agents, on the seven exploration games. It is reproduced if its whole interval lies "
    f"above −{LOSS:.0%} of the agents' mean, not reproduced if none of it does, and inconclusive otherwise."
)


def cells(preset: str) -> list[Cell]:
    """The runs of a preset."""
    return PLANS[preset].cells()


def report(rows: Sequence[RunRow]) -> Findings:
    """A line per game and agent, and the verdicts."""
    scored = PLANS["paper"].scored(rows)
    text, figures = body(PLANS, rows)
    return Findings({"lower_beta": lower_beta(scored), "exploration": exploration(scored)}, text, figures)


def lower_beta(scored: Sequence[Scored]) -> Verdict:
    """The verdict on β = 0.1 over all games."""
    if few := too_few(scored, (*OURS, *LOWER), GAMES):
        return few
    test = compare(pick(scored, LOWER, GAMES), pick(scored, OURS, GAMES))
    return Verdict(
        analysis.judged(test.above), f"mean human-normalised score of the variants L against β = 1: {test.words}"
    )


def exploration(scored: Sequence[Scored]) -> Verdict:
    """The verdict on β = 0.1 on the exploration games."""
    if few := too_few(scored, (*OURS, *LOWER), EXPLORATION):
        return few
    lower, usual = (pick(scored, group, EXPLORATION) for group in (LOWER, OURS))
    found = difference(lower, usual)
    words = f"variants L less β = 1 is {wording.interval(found, 3)}; the mean with β = 1 is {mean(usual):.3f}"
    return Verdict(analysis.judged(analysis.at_least(found, -LOSS * abs(mean(usual)))), words)


ATARI_57 = Grid(
    summary="appendix E: all 57 Atari games, with β = 0.1 too",
    claims={
        "lower_beta": "β = 0.1 in place of 1 raises the mean human-normalised score over 57 games.",
        "exploration": "It does not strongly lower the score on the seven hard exploration games.",
    },
    rules=RULE,
    left_out="55 of the 57 games, one of three seeds, and nearly all frames. Gopher and Gravitar at 400,000 frames "
    "with the preset atari-small are in their place. They show that the experiment runs, and are too short to judge a "
    "claim.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
