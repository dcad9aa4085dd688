"""Section 5.2: R2D2, Bootstrapped R2D2 and TDU-R2D2 on Atari (claim C9).

The paper has 20 billion frames a run and 8 seeds. On seven hard exploration games the mean human-normalised score is
30 % above the baselines' (F = 8.17, p = 0.0045). It has games with dense rewards too. The preset `paper` is the same.
`laptop` takes one core an afternoon: Freeway and Montezuma's Revenge in small pictures.
"""

from collections.abc import Sequence

from reproduction import analysis, wording
from reproduction.atari_runs import FEWEST, LOSS, GamePlan, body, compare, difference, mean, measure, pick, too_few
from reproduction.experiment import Findings, Grid, Verdict
from reproduction.rows import RunRow
from tdu.environments.atari import DENSE, EXPLORATION
from tdu.report.atari_scores import Scored
from tdu.run.sweeps import Cell

BASELINES = ("r2d2", "b_r2d2")
OURS = ("tdu_r2d2", "tdu_r2d2_prior")
AGENTS = (*BASELINES, *OURS)
PAPER_FRAMES = 20_000_000_000
PAPER_GAIN = 1.3
"""Mean human-normalised score over the baselines'."""

LAPTOP_FRAMES = 2_000_000
"""500,000 agent steps: 16 runs of about 11 minutes, 3 hours of one core, with compilation and the last evaluation, at
820 agent steps per second of processor time (results/recurrent_speed.json, tdu_r2d2 on Montezuma's Revenge)."""
LAPTOP_SEEDS = 2

PLANS = {
    "laptop": GamePlan(
        {agent: (agent, {}) for agent in AGENTS},
        ("freeway", "montezuma_revenge"),
        seeds=LAPTOP_SEEDS,
        preset="atari-small",
        frames=LAPTOP_FRAMES,
    ),
    "paper": GamePlan(
        {agent: (agent, {}) for agent in AGENTS},
        (*EXPLORATION, *DENSE),
        seeds=8,
        preset="paper",
        frames=PAPER_FRAMES,
    ),
}

RULE = (
    f"C9 and `dense` use runs of the preset `paper` and require {FEWEST} seeds of each agent on each of their games. "
    "TDU and baselines are compared by an analysis of variance of the human-normalised scores that "
    "controls for game. C9 is reproduced if p < 0.05 on the seven exploration games and TDU's mean is above the "
    "baselines' by at least half of the published 30 %. It is partly reproduced if p < 0.05 and TDU is above by less. "
    "It is not reproduced if p < 0.05 and TDU is below. Otherwise it is inconclusive. `dense` is about "
    f"{', '.join(DENSE)}. It is reproduced if the whole interval of the difference, TDU less baselines, lies above "
    f"−{LOSS:.0%} of the baselines' mean, not reproduced if none of it does, and inconclusive otherwise. `small` "
    f"requires {LAPTOP_SEEDS} seeds of each agent on both games of the preset `laptop`. It states the two means and the "
    "test. With p of 0.05 or more no difference was found."
)


def cells(preset: str) -> list[Cell]:
    """The runs of a preset."""
    return PLANS[preset].cells()


def report(rows: Sequence[RunRow]) -> Findings:
    """A line per game and agent, and the verdicts."""
    scored = PLANS["paper"].scored(rows)
    text, figures = body(PLANS, rows)
    verdicts = {"C9": verdict(scored), "dense": dense(scored), "small": small(PLANS["laptop"].scored(rows))}
    return Findings(verdicts, text, figures)


def verdict(scored: Sequence[Scored]) -> Verdict:
    """The verdict on C9."""
    if few := too_few(scored, AGENTS, EXPLORATION):
        return few
    ours, baselines = (pick(scored, group, EXPLORATION) for group in (OURS, BASELINES))
    test = compare(ours, baselines)
    words = f"mean human-normalised score with TDU against without: {test.words}"
    if test.above:
        enough = mean(ours) - mean(baselines) >= (PAPER_GAIN - 1) / 2 * abs(mean(baselines))
        return Verdict("reproduced" if enough else "partly reproduced", words)
    return Verdict(analysis.judged(test.above), words)


def dense(scored: Sequence[Scored]) -> Verdict:
    """The verdict on the games with dense rewards."""
    if few := too_few(scored, AGENTS, DENSE):
        return few
    ours, baselines = (pick(scored, group, DENSE) for group in (OURS, BASELINES))
    found = difference(ours, baselines)
    words = f"TDU less baselines is {wording.interval(found, 3)}; the baselines' mean is {mean(baselines):.3f}"
    return Verdict(analysis.judged(analysis.at_least(found, -LOSS * abs(mean(baselines)))), words)


def small(scored: Sequence[Scored]) -> Verdict:
    """The answer from the runs of the preset `laptop`."""
    games = PLANS["laptop"].games
    if few := too_few(scored, AGENTS, games, LAPTOP_SEEDS):
        return few
    test = compare(pick(scored, OURS, games), pick(scored, BASELINES, games))
    found = {True: "TDU scores more", False: "TDU scores less", None: "no difference was found"}[test.above]
    return Verdict("answered", f"{found} (mean human-normalised score with TDU against without: {test.words})")


ATARI = Grid(
    summary="section 5.2: R2D2, Bootstrapped R2D2 and TDU-R2D2 on Atari",
    claims={
        "C9": "TDU-R2D2 lifts the mean human-normalised score on seven hard exploration games by about 30 %",
        "dense": "On games with dense rewards TDU-R2D2 matches the baselines or improves on them.",
        "small": "a question of ours: does TDU differ from the baselines on Freeway and Montezuma's Revenge after "
        f"{LAPTOP_FRAMES:,} frames with small pictures?",
    },
    rules=RULE,
    left_out="the seven exploration games and five games with dense rewards at 20 billion frames, 8 seeds, which need "
    f"a cluster (docs/cluster.md). Freeway and Montezuma's Revenge at {LAPTOP_FRAMES:,} frames, {LAPTOP_SEEDS} seeds, "
    "with the preset atari-small, which sees pictures of 42×42, are in their place.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
