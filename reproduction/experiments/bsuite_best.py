"""Ours: one configuration of TDU, the preset `bsuite`, on all 468 settings of bsuite, beside published scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from reproduction import drawing, wording
from reproduction.experiment import Findings, Grid, Measured, Verdict, cell, select
from reproduction.rows import RunRow
from tdu.environments import parse
from tdu.environments.bsuite import imported
from tdu.environments.bsuite_twins.experiments import SETTINGS, ids, split
from tdu.report import bsuite_scores
from tdu.report.bsuite_summary import published_scores
from tdu.report.figures import ORDER
from tdu.run import folder as run_folder
from tdu.run.sweeps import Cell, spread

PRESET = "bsuite"
PUBLISHED = ("dreamer_v3 (published)", "boot_dqn (published)", "dqn (published)")
BEST = "dreamer_v3 (published)"
"""The agent with the best published mean, which is to be exceeded."""
OURS = "tdu, preset bsuite"
FEW = 5
"""Settings of each experiment with the preset `laptop`: one of each size of noise and scale."""

Scores = Mapping[str, float]
"""By experiment."""


def cells(preset: str) -> list[Cell]:
    """Seed 0 of every setting, in an order in which a part of the runs covers all experiments; `laptop` is such a part."""
    every = [bsuite_id for name in ORDER for bsuite_id in ids(name)]
    ordered = spread([cell(i, "tdu", 0, preset=PRESET, episodes=None, until="mastered") for i in every])
    return ordered if preset == "paper" else ordered[: FEW * len(ORDER)]


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """bsuite's official score of this setting alone."""
    (score,) = bsuite_scores.score_logs({result.env: run_folder.read_log(folder / "log.csv")})
    return Measured(score=round(min(max(score.score, 0.0), 1.0), 4))


def report(rows: Sequence[RunRow]) -> Findings:
    """The scores by experiment, their mean, and what the runs cost."""
    runs = select(rows, cells("paper"))
    by_experiment: dict[str, list[RunRow]] = {name: [] for name in ORDER}
    for row in runs:
        if row.score is not None:
            by_experiment[parse(row.env).experiment].append(row)
    done = {name: those for name, those in by_experiment.items() if those}
    ours = {name: official_score(name, {row.env: row.score for row in those}) for name, those in done.items()}
    others = {name: published_scores()[name] for name in PUBLISHED}
    body = [_how_far(done), _table(done, ours, others)] if done else ["There are no runs yet."]
    figures = {}
    if done:
        body.insert(1, "![Score of each experiment](bars.svg)")
        figures = {"bars": lambda: _draw(ours, others)}
    return Findings({"whole suite": _verdict(done, ours, others)}, "\n\n".join(body), figures, _every_setting(done))


def official_score(experiment: str, scores: Mapping[str, float | None]) -> float:
    """bsuite's score of an experiment from the official scores of its settings by id.

    It is their mean. For experiments with noise or scale, half of the standard deviation over noises or scales is subtracted.
    """
    by_scale: dict[float, list[float]] = {}
    for bsuite_id, score in scores.items():
        settings = SETTINGS[experiment][split(bsuite_id)[1]]
        scale = settings.get("noise_scale", settings.get("reward_scale", 0.0))
        by_scale.setdefault(scale, []).append(score or 0.0)
    means = [float(np.mean(those)) for those in by_scale.values()]
    if len(means) == 1:
        return means[0]
    return 0.5 * (float(np.mean(means)) + max(float(np.mean(means) - np.std(means)), 0.0))


def _is_complete(done: Mapping[str, Sequence[RunRow]]) -> bool:
    return {name: len(those) for name, those in done.items()} == {name: len(SETTINGS[name]) for name in ORDER}


def _how_far(done: Mapping[str, Sequence[RunRow]]) -> str:
    runs = [row for those in done.values() for row in those]
    steps, hours = sum(row.steps for row in runs), sum(row.seconds or 0.0 for row in runs) / 3600
    words = (
        f"{len(runs)} of 468 settings are done, one run each, seed 0, with bsuite's number of episodes: "
        f"{steps / 1e6:.1f} million environment steps in {hours:.1f} hours of one process, without the time in which "
        "processes start."
    )
    if not _is_complete(done):
        words += (
            " **The numbers below are preliminary.** Settings are run in an order that spreads them evenly, but published "
            "scores are over all settings of an experiment."
        )
    return words + (
        " Scores are bsuite 0.3.6's official ones: a mean over settings, and for experiments with noise or scale half of the "
        "standard deviation over the five sizes is subtracted. MNIST was a subset of 9,000 training digits."
    )


def _table(done: Mapping[str, Sequence[RunRow]], ours: Scores, others: Mapping[str, Scores]) -> str:
    lines = []
    for name in ours:
        runs = done[name]
        seconds = [row.seconds for row in runs if row.seconds is not None]
        cost = [f"{np.mean([row.steps for row in runs]):,.0f}", f"{np.mean(seconds):,.0f}" if seconds else "–"]
        published = [f"{scores[name]:.2f}" for scores in others.values()]
        lines.append([name, f"{len(runs)} of {len(SETTINGS[name])}", f"{ours[name]:.3f}", *published, *cost])
    means = [f"**{np.mean([scores[name] for name in ours]):.3f}**" for scores in (ours, *others.values())]
    lines.append([f"**mean of {len(ours)}**", "", *means, "", ""])
    return wording.table(["experiment", "settings", OURS, *others, "steps per run", "seconds per run"], lines)


def _every_setting(done: Mapping[str, Sequence[RunRow]]) -> str:
    lines = [
        [row.env, f"{row.score:.3f}", f"{row.episodes:,}", f"{row.steps:,}", f"{row.seconds:,.1f}"]
        for name, those in done.items()
        for row in sorted(those, key=lambda row: ids(name).index(row.env))
    ]
    return wording.table(["setting", "score", "episodes", "steps", "seconds"], lines) if lines else ""


def _verdict(done: Mapping[str, Sequence[RunRow]], ours: Scores, others: Mapping[str, Scores]) -> Verdict:
    if not _is_complete(done):
        count = sum(len(those) for those in done.values())
        return Verdict("not yet enough data", f"{count} of 468 settings are done")
    mean, best = (float(np.mean(list(scores.values()))) for scores in (ours, others[BEST]))
    words = f"the mean over 23 experiments is {mean:.3f}; {BEST} has {best:.3f}"
    return Verdict("reached" if mean > best else "not reached", words)


def _draw(ours: Scores, others: Mapping[str, Scores]) -> "drawing.Figure":
    drawn, axes = drawing.figure(10.5, 4.2)
    series = {OURS: ours, **others}
    for i, (label, scores) in enumerate(series.items()):
        at = [k + 0.2 * (i - 1.5) for k in range(len(ours))]
        axes.bar(at, [scores[name] for name in ours], 0.19, color=_COLOURS[i], label=label)
    axes.set_xticks(range(len(ours)), [name.replace("_", " ") for name in ours], rotation=40, ha="right", fontsize=8)
    axes.set(ylabel="bsuite score", ylim=(0, 1.05))
    drawn.legend(frameon=False, fontsize=9, loc="outside upper center", ncols=4)
    return drawn


_COLOURS = (drawing.COLOURS["tdu"], "#9a9a9a", drawing.COLOURS["bdqn"], "#d08a1d")

BSUITE_BEST = Grid(
    summary="ours: one configuration of TDU, the preset `bsuite`, on all 468 settings of bsuite",
    claims={
        "whole suite": "one configuration of TDU has a higher mean over bsuite's experiments than DreamerV3, boot_dqn, DQN."
    },
    rules="reached if the mean over 23 experiments of bsuite's official score, one run of each of 468 settings with seed 0, "
    "is above DreamerV3's published 0.656.",
    left_out="all settings but five of each experiment; the verdict needs all of them.",
    cells=cells, measure=measure, report=report,
    check=imported,
)  # fmt: skip
