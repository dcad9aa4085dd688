"""Ours: what each part of the preset deep is worth, by taking it away."""

import statistics
from collections.abc import Sequence
from typing import Any

from reproduction.deep_sea import measure
from reproduction.deep_sea_runs import sea
from reproduction.deep_sea_scores import variant
from reproduction.experiment import Grid, Report, Verdict, cell, markdown
from reproduction.rows import Row, first_of_each, identity
from reproduction.scaling import SEEDS, mastered
from tdu.report import drawing
from tdu.run.sweeps import Cell

SIZES = (40, 60)
LIMIT = 10_000
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
"""What is changed, by its name in the tables."""


def cells(preset: str) -> list[Cell]:
    """Every change on both sizes, deterministic; the longer preset has the stochastic ones too."""
    variants = (False,) if preset == "laptop" else (False, True)
    return [
        _cell(size, stochastic, seed, options)
        for stochastic in variants
        for seed in range(SEEDS)
        for size in SIZES
        for options in PARTS.values()
    ]


def _cell(size: int, stochastic: bool, seed: int, options: dict[str, Any]) -> Cell:
    env = sea(size, stochastic=stochastic)
    return cell(env, "tdu", seed, preset="deep", episodes=LIMIT, until="mastered", **options)


def report(rows: Sequence[Row]) -> Report:
    """Episodes to mastery with and without each part."""
    known = first_of_each(rows)
    found = {
        (name, size, stochastic): [
            known[key] for seed in range(SEEDS) if (key := identity(_cell(size, stochastic, seed, options))) in known
        ]
        for name, options in PARTS.items()
        for size in SIZES
        for stochastic in (False, True)
    }
    shown = [(size, s) for s in (False, True) for size in SIZES if any(found[name, size, s] for name in PARTS)]
    lines = []
    for name in PARTS:
        words = [name]
        for size, stochastic in shown:
            mine = found[name, size, stochastic]
            words.append(", ".join(f"{e.episode:,}" if e.solved else f">{e.episode:,}" for e in mastered(mine)) or "–")
        lines.append(words)
    header = ["settings", *(f"{variant(stochastic)} {size}" for size, stochastic in shown)]
    body = [
        "![Episodes to mastery with each part taken away](deep_ablation.svg)",
        "Episode of mastery of seeds 0, 1 and 2. A > is a run that was not mastered. One setting is changed at a time.",
        markdown(header, lines),
    ]
    return Report({"parts": _verdict(found)}, "\n\n".join(body), {"deep_ablation": lambda: _draw(found)})


Cells = dict[tuple[str, int, bool], list[Row]]


def _verdict(found: Cells) -> Verdict:
    """Each change on deterministic Deep Sea, against the preset itself."""
    if any(len(found[name, size, False]) < SEEDS for name in PARTS for size in SIZES):
        have = sum(len(found[name, size, False]) for name in PARTS for size in SIZES)
        return Verdict("not yet enough data", f"of {SEEDS * len(PARTS) * len(SIZES)} runs there are {have}")
    return Verdict("answered", "; ".join(_price(found, name) for name in list(PARTS)[1:]))


def _price(found: Cells, name: str) -> str:
    """How many times the episodes of the preset a change needs, by the medians of each size."""

    def middle(which: str, size: int) -> float:
        return statistics.median([e.episode for e in mastered(found[which, size, False])])

    ratios = " and ".join(f"{middle(name, size) / middle('deep', size):.2f}" for size in SIZES)
    failed = sum(not e.solved for size in SIZES for e in mastered(found[name, size, False]))
    return f"{name}: {ratios} times the episodes" + (
        f", {failed} of {SEEDS * len(SIZES)} not mastered" if failed else ""
    )


def _draw(found: Cells) -> Any:
    drawn, axes = drawing.figure(8.5, 4.2)
    for shift, size, colour in zip((-0.12, 0.12), SIZES, ("#0b6e4f", "#3b6fb6"), strict=True):
        for at, name in enumerate(PARTS):
            label = f"size {size}" if not at else None
            drawing.runs(axes, at + shift, mastered(found[name, size, False]), colour=colour, label=label)
    axes.set_xticks(range(len(PARTS)), [name.replace(", ", ",\n").replace(" (", "\n(") for name in PARTS], fontsize=8)
    axes.tick_params(axis="x", rotation=25)
    axes.set(ylabel="episodes to mastery", title="Preset deep, one part changed at a time")
    if any(found.values()):
        axes.set_yscale("log")
        drawing.plain_numbers(axes)
        axes.legend(frameon=False, fontsize=9)
    return drawn


DEEP_ABLATION = Grid(
    summary="ours: what each part of the preset deep is worth",
    claims={"parts": "How many more episodes does TDU need on deterministic sizes 40 and 60 without each part?"},
    rules="the ratio of the median episodes of mastery without the part and with it, at each size (results/RULES.md).",
    cells=cells,
    left_out="stochastic Deep Sea.",
    measure=measure,
    report=report,
)
