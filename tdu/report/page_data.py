"""What a page shows, as plain data: curves of every group of runs, who acted when, and the maps of what was recorded.

A group is an agent, with its options, on an environment; its runs differ in their seed.
"""

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tdu.report import curves
from tdu.report.collect import Shown
from tdu.run.folder.log import Log
from tdu.run.folder.snapshots import Record

Data = dict[str, Any]

GREEDY = "greedy_return"

METRICS = {
    "episode_return": "return",
    GREEDY: "greedy return",
    "bad_share": "share of bad episodes",
    "episode_len": "length of episodes",
    "bonus": "bonus",
    "loss": "loss",
    "largest_q": "largest |Q|",
}
UNSMOOTHED = ("bad_share", GREEDY)
"""Of these the last number is drawn, and no mean of the last ones."""
_DIGITS = 5
_MOST_NUMBERS, _FEWEST_POINTS = 500_000, 20
_BINS = 80
_MOST_STRIPS = 24
_MAP_BYTES = 5_000_000
"""All maps of a page together; where there is more, moments are left out evenly."""


def groups(shown: Sequence[Shown]) -> dict[tuple[str, str], list[Shown]]:
    """Runs by environment and agent, in the order in which they were given."""
    found: dict[tuple[str, str], list[Shown]] = {}
    for run in shown:
        found.setdefault((run.config.env, run.agent), []).append(run)
    return found


def points(shown: Sequence[Shown]) -> int:
    """How many places curves have, so that a page of many runs stays small."""
    metrics = len(METRICS) - 1 + any(run.evaluations for run in shown)
    numbers = len(curves.AXES) * metrics * (len(shown) + 4 * len(groups(shown)))
    return min(curves.POINTS, max(_FEWEST_POINTS, _MOST_NUMBERS // max(numbers, 1)))


def environment(mine: dict[str, list[Shown]], places: int = curves.POINTS) -> Data:
    """Curves of every agent on one environment, over each axis."""
    logs = {agent: [drawn_log(run) for run in seeds] for agent, seeds in mine.items()}
    every = [log for seeds in logs.values() for log in seeds]
    window = curves.usual_window(every)
    metrics = [name for name in METRICS if any(name in log for log in every)]
    axes: Data = {}
    for axis in curves.AXES:
        at = curves.grid(every, axis, places)
        drawn: Data = {}
        for metric in metrics:
            window_here = 1 if metric in UNSMOOTHED else window
            for agent, seeds in logs.items():
                own = np.stack([curves.curve(log, metric, axis, at, window_here) for log in seeds])
                band = curves.band(own)
                drawn.setdefault(metric, []).append(
                    {
                        "agent": agent,
                        "mean": _plain(band.mean),
                        "low": _plain(band.low),
                        "high": _plain(band.high),
                        "count": band.seeds.tolist(),
                        "seeds": [_plain(one) for one in own] if len(own) > 1 else [],
                    }
                )
        axes[axis] = {"x": _plain(at), "metrics": drawn}
    return {"window": window, "metrics": {name: METRICS[name] for name in metrics}, "axes": axes}


def drawn_log(run: Shown) -> Log:
    """A run's log with the share of bad episodes so far, where the environment counts them, and its greedy return."""
    log = dict(run.log)
    if not len(log.get("episode", ())):
        return log
    if "total_bad_episodes" in log:
        log["bad_share"] = log["total_bad_episodes"] / np.maximum(log["episode"], 1)
    if run.evaluations:
        log[GREEDY] = _greedy_return(run)
    return log


def _greedy_return(run: Shown) -> np.ndarray:
    """At every episode's end, on straight lines from evaluation to evaluation, the one at the run's end too; NaN before."""
    episodes, returns = (run.evaluations[name].tolist() for name in ("episode", GREEDY))
    if run.result is not None and run.result.greedy_return is not None and episodes[-1] < run.result.episodes:
        episodes.append(run.result.episodes)
        returns.append(run.result.greedy_return.mean)
    return np.interp(run.log["episode"], episodes, returns, left=np.nan)


def heads(run: Shown) -> Data | None:
    """Who acted when, and what it earned: by head, and by head and time; None where there is but one head."""
    log = run.log
    if not len(log.get("head", ())) or "episode_return" not in log:
        return None
    head, returns = log["head"], log["episode_return"]
    exploiters = int(run.config.config.get("exploiters", 0))
    count = max(int(head.max()) + 1, exploiters + int(run.config.config.get("explorers", 0)))
    if count < 2:
        return None
    bins = min(_BINS, len(head))
    slot = (np.arange(len(head)) * bins) // len(head)
    acted = np.zeros((count, bins), np.int64)
    earned = np.zeros((count, bins))
    usable = np.isfinite(returns)
    np.add.at(acted, (head[usable], slot[usable]), 1)
    np.add.at(earned, (head[usable], slot[usable]), returns[usable])
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = earned / acted
    rows = []
    for k in range(count):
        mine = returns[usable & (head == k)]
        rows.append(
            {
                "head": k,
                "role": role(k, exploiters),
                "episodes": len(mine),
                "mean": float(mine.mean()) if len(mine) else None,
                "last": float(mine[-20:].mean()) if len(mine) else None,
                "best": float(mine.max()) if len(mine) else None,
            }
        )
    edges = [int(log["episode"][np.searchsorted(slot, b)]) for b in range(bins)]
    return {
        "rows": rows,
        "exploiters": exploiters,
        "acted": acted.tolist(),
        "earned": [_plain(row) for row in mean],
        "edges": [*edges, int(log["episode"][-1])],
    }


def role(head: int, exploiters: int) -> str:
    """What a head is for."""
    return "exploiter" if head < exploiters else "explorer"


def strips(shown: Sequence[Shown]) -> list[Data]:
    """Who acted when, of the first runs that have it."""
    found: list[Data] = []
    for run in shown:
        if len(found) < _MOST_STRIPS and (told := heads(run)) is not None:
            found.append({"name": title(run), **told})
    return found


def title(run: Shown) -> str:
    """What a run is called on the page."""
    return f"{run.agent}, seed {run.config.seed}, on {run.config.env}"


def maps(shown: Sequence[Shown]) -> list[Data]:
    """The maps of all runs that have some, in bytes: 0 for nothing, then 255 steps of a logarithmic scale for each layer."""
    drawn = [
        (run, run.record, _layers(run.record))
        for run in shown
        if run.record is not None and run.record.about["map"] and run.record.snapshots
    ]
    total = sum(layer.numbers.size for _, _, layers in drawn for layer in layers)
    return [_map(run, record, layers, _MAP_BYTES / max(total, _MAP_BYTES)) for run, record, layers in drawn]


class Layer(NamedTuple):
    """Something that can be drawn of every state at every moment."""

    name: str
    about: str
    numbers: np.ndarray
    """[T, S]."""


def _layers(record: Record) -> list[Layer]:
    about = record.about
    names = about["map"]["layers"]
    visits = record.maps("visits").astype(np.int64)
    several = bool(about["exploiters"]) and bool(about["explorers"])
    layers = [Layer("visits lately", "visits since the moment before", visits.sum(axis=1))]
    if several:
        layers.append(Layer("visits lately, exploiters", "visits of exploiters since the moment before", visits[:, 0]))
        layers.append(Layer("visits lately, explorers", "visits of explorers since the moment before", visits[:, 1]))
    layers.append(Layer("visits", "visits so far", np.cumsum(visits.sum(axis=1), axis=0)))
    if "sigma" in names:
        layers.insert(0, Layer("bonus σ", "the exploiters' disagreement about the TD error", record.maps("sigma")))
    if "bonus" in names:
        paid = record.maps("bonus")
        same = "sigma" in names and np.allclose(paid, record.maps("sigma"), rtol=1e-2, atol=1e-3)
        if np.any(paid) and not same:
            layers.append(Layer("bonus paid", "what this agent pays for the cell", paid))
    if "spread" in names:
        spread = record.maps("spread")
        for group, (count, name) in enumerate(((about["exploiters"], "exploiters"), (about["explorers"], "explorers"))):
            if count > 1:
                layers.append(Layer(f"spread of Q, {name}", f"the {name}' disagreement about Q", spread[:, group]))
    return layers


def _map(run: Shown, record: Record, drawn: list[Layer], share: float) -> Data:
    about, count = record.about["map"], len(record.snapshots)
    kept = np.unique(np.linspace(0, count - 1, max(2, int(count * share))).round().astype(int))
    layers = []
    for name, sentence, numbers in drawn:
        if name.startswith("visits lately") and len(kept) < count:  # what was left out is counted with the next
            numbers = np.add.reduceat(numbers, np.concatenate([[0], kept[:-1] + 1]), axis=0)
        else:
            numbers = numbers[kept]
        low, high, steps = scaled(numbers)
        layers.append(
            {
                "name": name,
                "about": sentence,
                "low": low,
                "high": high,
                "whole": numbers.dtype.kind == "i",
                "data": base64.b64encode(steps.tobytes()).decode(),
            }
        )
    return {
        "name": title(run),
        "agent": run.agent,
        "kind": about["kind"],
        "rows": about["rows"],
        "columns": about["columns"],
        "goal": about["goal"],
        "cells": about["cells"],
        "episodes": [record.snapshots[i]["episode"] for i in kept],
        "steps": [record.snapshots[i]["steps"] for i in kept],
        "paths": [record.snapshots[i]["path"] for i in kept],
        "layers": layers,
    }


def scaled(numbers: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The ends of a scale, and every number in 255 steps of it; step 1 is the low end and all between it and 0.

    Counts may be five powers of ten apart; of others, three show more of what is large.
    """
    decades = 5 if numbers.dtype.kind == "i" else 3
    numbers = np.nan_to_num(np.asarray(numbers, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    positive = numbers[numbers > 0]
    if not len(positive):
        return 1.0, 1.0, np.zeros(numbers.shape, np.uint8)
    high = float(positive.max())
    low = max(float(positive.min()), high / 10**decades)
    wide = np.log(high / low) or 1.0
    steps = 1 + np.round(254 * np.log(np.maximum(numbers, low) / low) / wide)
    return low, high, np.where(numbers > 0, np.clip(steps, 1, 255), 0).astype(np.uint8)


def distributions(shown: Sequence[Shown]) -> list[Data]:
    """Quantiles of bonus and TD error over time, of every run that has recorded them."""
    found = []
    for run in shown:
        if run.record is None or len(run.record.snapshots) < 2:
            continue
        told: Data = {"name": title(run), "episodes": [s["episode"] for s in run.record.snapshots], "kinds": {}}
        for kind, words in (("bonus", "bonus"), ("td", "TD error of the exploiters' mean")):
            rows = [s.get(kind) or [None] * 5 for s in run.record.snapshots]
            if any(any(row) for row in rows):
                told["kinds"][words] = [list(column) for column in zip(*rows, strict=True)]
        if told["kinds"]:
            found.append(told)
    return found[:_MOST_STRIPS]


def _plain(numbers: np.ndarray) -> list[float | None]:
    """As JSON can hold them, shortly; what is no number is null."""
    return [float(f"{x:.{_DIGITS}g}") if np.isfinite(x) else None for x in numbers.tolist()]
