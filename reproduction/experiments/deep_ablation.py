"""Ours: how many more episodes TDU needs without each part of the preset deep."""

import statistics
from collections.abc import Sequence
from typing import Any

from reproduction import drawing, wording
from reproduction.analysis import mastery_times
from reproduction.deep_sea_runs import VARIANTS, deep_sea_id, measure, variant
from reproduction.experiment import EPISODES, Findings, Grid, Verdict, cell, select
from reproduction.rows import RunRow
from tdu.run.sweeps import Cell

SIZES = (40, 60)
SEEDS = 3
PARTS: dict[str, dict[str, Any]] = {
    "deep": {},
    "batch 32": {"batch_size": 32},
    "replay 10,000": {"replay_capacity": 10_000},
    "prior of the paper's size, λ = 3": {"prior_size": "fan_in", "prior_scale": 3.0},
    "separate networks": {"ensemble": "networks"},
    "width 64": {"hidden_sizes": (64, 64)},
    "Adam's ε = 1e-8": {"adam_eps": 1e-8},
    "no masks": {"mask_prob": 1.0},
    "10 + 10 heads": {"exploiters": 10, "explorers": 10},
    "no bonus (β = 0)": {"beta": 0.0},
}
"""The changed options, by their name in the tables."""

Runs = dict[tuple[str, int, bool], list[RunRow]]
"""By part, size and whether Deep Sea is stochastic."""


def cells(preset: str) -> list[Cell]:
    """Every change on both sizes, deterministic; the preset `paper` has stochastic Deep Sea too."""
    return [
        _cell(size, stochastic, seed, options)
        for stochastic in ((False,) if preset == "laptop" else VARIANTS)
        for seed in range(SEEDS)
        for size in SIZES
        for options in PARTS.values()
    ]


def _cell(size: int, stochastic: bool, seed: int, options: dict[str, Any]) -> Cell:
    env = deep_sea_id(size, stochastic=stochastic)
    return cell(env, "tdu", seed, preset="deep", episodes=EPISODES, until="mastered", **options)


def report(rows: Sequence[RunRow]) -> Findings:
    """Episodes to mastery with and without each part."""
    runs = {
        (name, size, stochastic): select(rows, [_cell(size, stochastic, seed, options) for seed in range(SEEDS)])
        for name, options in PARTS.items()
        for size in SIZES
        for stochastic in VARIANTS
    }
    columns = [(size, s) for s in VARIANTS for size in SIZES if any(runs[name, size, s] for name in PARTS)]
    lines = [[name, *(wording.episodes(mastery_times(runs[name, n, s])) for n, s in columns)] for name in PARTS]
    header = ["settings", *(f"{variant(stochastic)} {size}" for size, stochastic in columns)]
    body = [
        "![Episodes to mastery with each part changed](deep_ablation.svg)",
        "Episode of mastery of seeds 0, 1 and 2. A > is a run that was not mastered. One setting is changed at a time.",
        wording.table(header, lines),
    ]
    return Findings({"parts": _verdict(runs)}, "\n\n".join(body), {"deep_ablation": lambda: _draw(runs)})


def _verdict(runs: Runs) -> Verdict:
    """Each change on deterministic Deep Sea, against the preset itself."""
    counts = [len(runs[name, size, False]) for name in PARTS for size in SIZES]
    if min(counts) < SEEDS:
        return Verdict("not yet enough data", f"{sum(counts)} of {SEEDS * len(counts)} runs are done")
    return Verdict("answered", "; ".join(_price(runs, name) for name in list(PARTS)[1:]))


def _price(runs: Runs, name: str) -> str:
    """The median episodes of a change over those of the preset, at each size."""

    def median(which: str, size: int) -> float:
        return statistics.median([time.episode for time in mastery_times(runs[which, size, False])])

    ratios = " and ".join(f"{median(name, size) / median('deep', size):.2f}" for size in SIZES)
    failed = sum(not time.solved for size in SIZES for time in mastery_times(runs[name, size, False]))
    words = f", {failed} of {SEEDS * len(SIZES)} not mastered" if failed else ""
    return f"{name}: {ratios} times the episodes{words}"


def _draw(runs: Runs) -> "drawing.Figure":
    drawn, axes = drawing.figure(8.5, 4.2)
    for shift, size, colour in zip((-0.12, 0.12), SIZES, ("#0b6e4f", "#3b6fb6"), strict=True):
        for at, name in enumerate(PARTS):
            label = f"size {size}" if not at else None
            drawing.runs(axes, at + shift, mastery_times(runs[name, size, False]), colour=colour, label=label)
    axes.set_xticks(range(len(PARTS)), [name.replace(", ", ",\n").replace(" (", "\n(") for name in PARTS], fontsize=8)
    axes.tick_params(axis="x", rotation=25)
    axes.set(ylabel="episodes to mastery", title="Preset deep, one part changed at a time")
    if any(runs.values()):
        axes.set_yscale("log")
        drawing.plain_numbers(axes)
        drawing.legend(axes)
    return drawn


DEEP_ABLATION = Grid(
    summary="what each part of the preset deep is worth (our own question)",
    claims={"parts": "How many more episodes does TDU need on deterministic sizes 40 and 60 without each part?"},
    rules="the ratio of the median episodes of mastery without the part and with it, at each size.",
    left_out="stochastic Deep Sea.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
