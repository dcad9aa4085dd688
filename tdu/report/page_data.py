"""The data of a page's charts, as JSON can hold it: learning curves, acting heads, maps and distributions."""

import base64
import itertools
from collections.abc import Sequence

import numpy as np

from tdu.files import Json
from tdu.report import curves
from tdu.report.collect import StoredRun, budget_axis, groups
from tdu.run.folder.log import Log
from tdu.run.folder.snapshots import Record

Data = Json

GREEDY = "greedy_return"

METRICS = {
    "episode_return": "training return",
    GREEDY: "evaluation return",
    "bad_share": "share of bad episodes",
    "success_rate": "success rate",
    "mean_length": "length of evaluation episodes",
    "episode_len": "length of training episodes",
    "bonus": "bonus",
    "loss": "loss",
    "largest_q": "largest |Q|",
}
EVALUATED = {GREEDY: "mean", "success_rate": "success_rate", "mean_length": "mean_length"}
"""Columns of the evaluations, and the same in an evaluation at the end."""
UNSMOOTHED = ("bad_share", *EVALUATED)  # Drawn as they are, not as a mean over the last episodes
_DIGITS = 5
_MAX_NUMBERS, _MIN_POINTS = 500_000, 20
_BINS = 80
_MAX_RUNS, _MAX_HEADS = 24, 1000  # Runs with a chart of their own, and heads in it
_MAP_BYTES = 5_000_000  # Size of all maps of a page; above it, snapshots are dropped evenly


def points(shown: Sequence[StoredRun]) -> int:
    """Number of places of each curve, fewer on a page of many runs."""
    metrics = len(METRICS) - (0 if any(run.evaluations for run in shown) else len(EVALUATED))
    numbers = len(curves.AXES) * metrics * (len(shown) + 4 * len(groups(shown)))
    return min(curves.POINTS, max(_MIN_POINTS, _MAX_NUMBERS // max(numbers, 1)))


def environment(by_agent: dict[str, list[StoredRun]], places: int = curves.POINTS) -> Data:
    """Curves of every agent on one environment, over each axis; the first axis is the budget's."""
    drawn_seeds = {agent: [drawn_seed(run) for run in seeds] for agent, seeds in by_agent.items()}
    every = [seed.log for seeds in drawn_seeds.values() for seed in seeds]
    window = curves.usual_window(every)
    metrics = [name for name in METRICS if any(name in log for log in every)]
    within = {name: curves.bounds(log[name] for log in every if name in log) for name in metrics}
    first = budget_axis([run for seeds in by_agent.values() for run in seeds])
    axes: Data = {}
    for axis in dict.fromkeys((first, *curves.AXES)):
        at = curves.grid(every, axis, places)
        drawn: dict[str, list[Data]] = {metric: [] for metric in metrics}
        for metric in metrics:
            for agent, seeds in drawn_seeds.items():
                own, kept = curves.of_group(seeds, metric, axis, at, 1 if metric in UNSMOOTHED else window)
                band = curves.band(kept, within[metric])
                of_band = {name: _plain(numbers) for name, numbers in band._asdict().items()}
                each = [_plain(seed) for seed in own] if len(own) > 1 else []
                drawn[metric].append({"agent": agent, **of_band, "count": len(own), "seeds": each})
        axes[axis] = {"x": _plain(at), "metrics": drawn}
    allowed = {
        agent: max((run.result.possible_return or 0.0 for run in seeds if run.result is not None), default=0.0)
        for agent, seeds in by_agent.items()
    }
    named = {name: METRICS[name] for name in metrics}
    return {"window": window, "metrics": named, "axes": axes, "possible": allowed}


def drawn_seed(run: StoredRun) -> curves.Seed:
    return curves.Seed(drawn_log(run), run.has_reached_goal)


def drawn_log(run: StoredRun) -> Log:
    """A run's log with more columns: the share of bad episodes, where there are any, and those of the evaluations.

    An evaluation's number at an episode is interpolated between evaluations, and NaN before the first.
    """
    log = dict(run.log)
    if run.has_episodes and "total_bad_episodes" in log:
        log["bad_share"] = log["total_bad_episodes"] / np.maximum(log["episode"], 1)
    if run.has_episodes and run.evaluations:
        for name in EVALUATED:
            numbers = _with_last(run, name)
            if np.isfinite(numbers).any():
                log[name] = np.interp(log["episode"], run.evaluations["episode"], numbers, left=np.nan)
    return log


def _with_last(run: StoredRun, name: str) -> np.ndarray:
    """Numbers of a run's evaluations. At its end that is the result's, not that of the evaluation that ended the run."""
    numbers, end = run.evaluations[name], run.result and run.result.greedy_return
    if run.result is None or end is None or run.evaluations["episode"][-1] != run.result.episodes:
        return numbers
    last = getattr(end, EVALUATED[name])
    return np.append(numbers[:-1], np.nan if last is None else last)


def heads(run: StoredRun) -> Data | None:
    """Episodes and returns of each head, in total and over time; None for an agent with one head."""
    log = run.log
    if not len(log.get("head", ())) or "episode_return" not in log:
        return None
    head, returns = log["head"], log["episode_return"]
    exploiters = int(run.config.config.get("exploiters", 0))
    count = max(int(head.max()) + 1, exploiters + int(run.config.config.get("explorers", 0)))
    if not 2 <= count <= _MAX_HEADS:
        return None
    bins = min(_BINS, len(head))
    slot = (np.arange(len(head)) * bins) // len(head)
    acted, earned, usable = np.zeros((count, bins), np.int64), np.zeros((count, bins)), np.isfinite(returns)
    np.add.at(acted, (head[usable], slot[usable]), 1)
    np.add.at(earned, (head[usable], slot[usable]), returns[usable])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = earned / acted
    rows = []
    for k in range(count):
        own = returns[usable & (head == k)]
        row: Data = {"head": k, "role": "exploiter" if k < exploiters else "explorer", "episodes": len(own)}
        for name, number in (("mean", np.mean), ("last", lambda x: x[-20:].mean()), ("best", np.max)):
            row[name] = float(number(own)) if len(own) else None
        rows.append(row)
    edges = [int(log["episode"][np.searchsorted(slot, b)]) for b in range(bins)]
    edges.append(int(log["episode"][-1]))
    earned_means = [_plain(row) for row in means]
    return {"rows": rows, "exploiters": exploiters, "acted": acted.tolist(), "earned": earned_means, "edges": edges}


def strips(shown: Sequence[StoredRun]) -> list[Data]:
    """`heads` of the first runs with several heads."""
    found = ({"name": title(run), "agent": run.agent, **acting} for run in shown if (acting := heads(run)) is not None)
    return list(itertools.islice(found, _MAX_RUNS))


def title(run: StoredRun) -> str:
    return f"{run.agent}, seed {run.config.seed}, on {run.config.env}"


def maps(shown: Sequence[StoredRun]) -> list[Data]:
    """The maps of all recorded runs. A cell is a byte: 0 for no value, then 255 steps of each layer's logarithmic scale."""
    drawn = [
        (run, run.record, _layers(run.record))
        for run in shown
        if run.record is not None and run.record.about["map"] and run.record.snapshots
    ]
    total = sum(numbers.size for _, _, layers in drawn for *_, numbers in layers)
    return [_map(run, record, layers, _MAP_BYTES / max(total, _MAP_BYTES)) for run, record, layers in drawn]


Layer = tuple[str, str, np.ndarray]
"""Name and description of a value of every state at every snapshot, and its numbers [T, S]."""


def _layers(record: Record) -> list[Layer]:
    names, layers = record.about["map"]["layers"], list[Layer]()
    counts = {group: record.about[group] for group in ("exploiters", "explorers")}
    visits = record.maps("visits").astype(np.int64)
    if "sigma" in names:
        layers.append(("bonus σ", "the exploiters' disagreement about the TD error", record.maps("sigma")))
    layers.append(("recent visits", "visits since the last snapshot", visits.sum(axis=1)))
    for i, group in enumerate(counts if all(counts.values()) else ()):
        layers.append((f"recent visits, {group}", f"visits by {group} since the last snapshot", visits[:, i]))
    layers.append(("visits", "visits so far", np.cumsum(visits.sum(axis=1), axis=0)))
    if "bonus" in names:
        paid = record.maps("bonus")
        same = "sigma" in names and np.allclose(paid, record.maps("sigma"), rtol=1e-2, atol=1e-3)
        if np.any(paid) and not same:
            layers.append(("bonus paid", "the bonus that the agent adds to the reward", paid))
    for i, (group, count) in enumerate(counts.items() if "spread" in names else ()):
        if count > 1:
            layers.append((f"spread of Q, {group}", f"the {group}' disagreement about Q", record.maps("spread")[:, i]))
    return layers


def _map(run: StoredRun, record: Record, drawn: list[Layer], share: float) -> Data:
    about, count = record.about["map"], len(record.snapshots)
    kept = np.unique(np.linspace(0, count - 1, max(2, int(count * share))).round().astype(int))
    layers = []
    for name, sentence, numbers in drawn:
        if name.startswith("recent visits") and len(kept) < count:  # dropped snapshots are added to the next one
            numbers = np.add.reduceat(numbers, np.concatenate([[0], kept[:-1] + 1]), axis=0)
        else:
            numbers = numbers[kept]
        low, high, steps = scaled(numbers)
        data, whole = base64.b64encode(steps.tobytes()).decode(), numbers.dtype.kind == "i"
        layers.append({"name": name, "about": sentence, "low": low, "high": high, "whole": whole, "data": data})
    drawing: Data = {"name": title(run), "agent": run.agent}
    drawing |= {name: about[name] for name in ("kind", "rows", "columns", "goal", "cells")}
    for name, of_snapshot in (("episodes", "episode"), ("steps", "steps"), ("paths", "path")):
        drawing[name] = [record.snapshots[i][of_snapshot] for i in kept]
    return drawing | {"layers": layers}


def scaled(numbers: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The ends of a logarithmic scale, and every number as one of its 255 steps.

    Step 1 holds everything from 0 to the low end. The scale covers five powers of ten for counts and three for other values.
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


def distributions(shown: Sequence[StoredRun]) -> list[Data]:
    """Quantiles of bonus and TD error over time, of the first recorded runs."""
    found = []
    for run in shown:
        if run.record is None or len(run.record.snapshots) < 2:
            continue
        kinds = {}
        for kind, words in (("bonus", "bonus"), ("td", "TD error of the exploiters' mean")):
            rows = [s.get(kind) or [None] * 5 for s in run.record.snapshots]
            if any(any(row) for row in rows):
                kinds[words] = [list(column) for column in zip(*rows, strict=True)]
        if kinds:
            episodes = [s["episode"] for s in run.record.snapshots]
            found.append({"name": title(run), "agent": run.agent, "episodes": episodes, "kinds": kinds})
    return found[:_MAX_RUNS]


def _plain(numbers: np.ndarray) -> list[float | None]:
    """Rounded numbers; None for those that are not finite."""
    return [float(f"{x:.{_DIGITS}g}") if np.isfinite(x) else None for x in numbers.tolist()]
