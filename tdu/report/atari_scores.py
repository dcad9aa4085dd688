"""Human-normalised scores of Atari games, HNS = (score − random) / (human − random), as in section 5.2 of the paper.

The score of a run is what its trained policy returned at its end; where a run of the folder lacks that, it is the mean return
of the last episodes of training for all of them. Intervals draw the seeds of each game anew (`variance.interval_of_groups`).
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdu.environments import atari, parse
from tdu.report import figures, variance
from tdu.run import folder as runs

POINTS = 40
"""Of a learning curve."""

FIGURES = ("atari_games.png", "atari_hns.png")

HARD = "exploration games"


class Scored(NamedTuple):
    """A run on a game, as it counts."""

    agent: str
    """As the folder tells agents apart: with the options in which they differ."""
    kind: str
    """The agent's name alone."""
    game: str
    seed: int
    score: float
    hns: float


@lru_cache(maxsize=1)
def references() -> dict[str, tuple[float, float]]:
    """Scores of random play and of people, by game."""
    with open(Path(__file__).parent / "atari_random_human.csv", newline="") as f:
        return {row["game"]: (float(row["random"]), float(row["human"])) for row in csv.DictReader(f)}


@lru_cache(maxsize=1)
def published() -> dict[str, dict[str, float]]:
    """Scores that others have published, by algorithm and game; `Avg. Human` among them."""
    with open(Path(__file__).parent / "atari_published.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    games = [name for name in rows[0] if name not in ("algorithm", "source")]
    return {row["algorithm"]: {game: float(row[game]) for game in games if row[game]} for row in rows}


def human_normalised(game: str, score: Any) -> Any:
    """0 is random play, 1 is people's."""
    random, human = references()[game]
    return (score - random) / (human - random)


def score_of(game: str, hns: float) -> float:
    """The game's score that a human-normalised score stands for."""
    random, human = references()[game]
    return random + hns * (human - random)


def game_of(env: str) -> str | None:
    """The game of an environment's id, if it is one of the 57."""
    env_id = parse(env)
    return env_id.name if env_id.source == "atari" and env_id.name in references() else None


def scored(found: Sequence[tuple[str, runs.RunConfig, runs.RunResult | None]]) -> tuple[list[Scored], bool]:
    """The finished runs on games, with their agent's name in the folder; and whether trained policies were evaluated."""
    ended = [
        (name, config, result, game)
        for name, config, result in found
        for game in [game_of(config.env)]
        if game is not None and result is not None and result.mean_return is not None
    ]
    evaluated = all(result.greedy_return is not None for _, _, result, _ in ended)
    rows = []
    for name, config, result, game in ended:
        trained = result.greedy_return
        score = trained.mean if evaluated and trained is not None else result.mean_return
        assert score is not None
        rows.append(Scored(name, config.agent, game, config.seed, score, float(human_normalised(game, score))))
    return rows, evaluated


def aggregate(rows: Sequence[Scored]) -> dict[str, Any]:
    """Mean and median over games of the mean over seeds, with 95 % intervals."""
    groups = [np.asarray([r.hns for r in rows if r.game == game]) for game in dict.fromkeys(r.game for r in rows)]
    means = np.asarray([group.mean() for group in groups])
    several = any(len(group) > 1 for group in groups)
    found: dict[str, Any] = {"games": len(groups), "runs": len(rows)}
    statistic: Callable[[np.ndarray], Any]
    for name, statistic in (("mean", np.mean), ("median", np.median)):
        found[name] = float(statistic(means))
        found[f"{name}_interval"] = list(variance.interval_of_groups(groups, statistic)) if several else None
    return found


def tests(rows: Sequence[Scored]) -> dict[str, Any]:
    """Analyses of variance of HNS: TDU or not (the paper's), agent, both controlling for game; and agent × game."""
    hns, games = [r.hns for r in rows], [r.game for r in rows]
    found = {
        "TDU or not, controlling for game": variance.anova(hns, [r.kind.startswith("tdu") for r in rows], games),
        "agent, controlling for game": variance.anova(hns, [r.agent for r in rows], games),
        "agent × game": variance.interaction(hns, [r.agent for r in rows], games),
    }
    return {name: None if test is None else test._asdict() for name, test in found.items()}


def curve(logs: Sequence[Mapping[str, np.ndarray]], most_steps: int) -> list[list[float | None]]:
    """For each seed the return at evenly spaced steps; None before its first episode's end and after its run's.

    A point is the mean return of the episodes that ended since the point before; where none did, that point's.
    """
    edges = np.linspace(0, most_steps, POINTS + 1)[1:]
    found = []
    for log in logs:
        steps, returns = np.asarray(log["steps"]), np.asarray(log["episode_return"])
        points: list[float | None] = []
        last, before = None, 0
        for edge, upto in zip(edges, np.searchsorted(steps, edges, side="right"), strict=True):
            if upto > before:
                last, before = float(np.mean(returns[before:upto])), int(upto)
            points.append(last if edge < steps[-1] + edges[0] else None)
        found.append(points)
    return found


def aggregate_curve(games: Mapping[str, list[list[float | None]]]) -> dict[str, list[float]]:
    """Mean and median HNS over games, and the mean's 95 % interval, at the points where every game has a seed."""
    hns = {game: human_normalised(game, np.asarray(seeds, float)) for game, seeds in games.items()}
    found: dict[str, list[float]] = {name: [] for name in ("point", "mean", "median", "low", "high")}
    for point in range(POINTS):
        groups = [seeds[:, point][np.isfinite(seeds[:, point])] for seeds in hns.values()]
        if all(len(group) for group in groups):
            means = [group.mean() for group in groups]
            low, high = variance.interval_of_groups(groups, np.mean, resamples=300)
            values = (point, float(np.mean(means)), float(np.median(means)), low, high)
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
    return found


def frames(most_steps: int) -> np.ndarray:
    """Frames at a curve's points."""
    return np.linspace(0, most_steps, POINTS + 1)[1:] * atari.FRAMES_PER_STEP


def summarised(
    found: Sequence[tuple[str, runs.RunConfig, runs.RunResult | None, Mapping[str, np.ndarray]]],
) -> dict[str, Any] | None:
    """All that a folder's runs on games amount to; None where there are none."""
    on_games = [run for run in found if game_of(run[1].env) is not None and run[3] and len(run[3]["episode"])]
    if not on_games:
        return None
    rows, evaluated = scored([run[:3] for run in on_games])
    agents = list(dict.fromkeys(run[0] for run in on_games))
    games = [game for game in atari.GAMES if any(game_of(run[1].env) == game for run in on_games)]
    most_steps = max(int(run[3]["steps"][-1]) for run in on_games)
    curves: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
    for agent in agents:
        for game in games:
            logs = [run[3] for run in on_games if run[0] == agent and game_of(run[1].env) == game]
            if logs:
                curves[agent][game] = curve(logs, most_steps)
    hard = [r for r in rows if r.game in atari.EXPLORATION]
    return {
        "evaluated": evaluated,
        "runs": [row._asdict() for row in rows],
        "agents": {
            agent: {name: aggregate(mine) for name, of in (("all", rows), (HARD, hard))
                    for mine in [[r for r in of if r.agent == agent]] if mine}
            for agent in agents
        },
        "anova": {name: tests(of) for name, of in (("all", rows), (HARD, hard)) if of},
        "curve_frames": frames(most_steps).tolist(),
        "curves": curves,
    }  # fmt: skip


def as_text(summary: dict[str, Any], with_published: bool) -> list[str]:
    """Tables for people: a game a line, the aggregates, the analyses of variance."""
    rows = [Scored(**row) for row in summary["runs"]]
    if not rows:
        return []
    agents, games = (
        list(dict.fromkeys(r.agent for r in rows)),
        [g for g in atari.GAMES if any(r.game == g for r in rows)],
    )
    others = published() if with_published else {}
    lines = [f"| Atari game | {' | '.join([*agents, *others])} |", "|" + "---|" * (len(agents) + len(others) + 1)]
    for game in games:
        cells = [_cell([r for r in rows if (r.agent, r.game) == (agent, game)]) for agent in agents]
        cells += [f"{mine[game]:g}" if game in mine else "–" for mine in others.values()]
        lines.append(f"| {game} | {' | '.join(cells)} |")
    what = "the trained policy's return" if summary["evaluated"] else "the return of the last episodes of training"
    parts = ["\n".join(lines), f"Scores are {what}, mean over seeds, with the human-normalised score in brackets."]
    lines = ["| human-normalised score | games | runs | mean (95 %) | median (95 %) |", "|---|---|---|---|---|"]
    for agent, sets in summary["agents"].items():
        for name, of in sets.items():
            words = [agent if name == "all" else f"{agent}, {name}", str(of["games"]), str(of["runs"])]
            lines.append("| " + " | ".join([*words, _interval(of, "mean"), _interval(of, "median")]) + " |")
    parts.append("\n".join(lines))
    lines = ["| analysis of variance | F | degrees of freedom | p |", "|---|---|---|---|"]
    for name, found in summary["anova"].items():
        for test, it in found.items():
            if it is not None:
                freedom = f"{it['factor_freedom']}, {it['residual_freedom']}"
                label = test if name == "all" else f"{test} ({name})"
                lines.append(f"| {label} | {it['f']:.2f} | {freedom} | {it['p']:.4f} |")
    return [*parts, "\n".join(lines)] if len(lines) > 2 else parts


def write_figures(summary: dict[str, Any], folder: Path) -> list[Path]:
    """Learning curves of every game beside published scores, and of the mean human-normalised score."""
    at = np.asarray(summary["curve_frames"])
    by_game: dict[str, dict[str, Any]] = {}
    for agent, games in summary["curves"].items():
        for game, seeds in games.items():
            by_game.setdefault(game, {})[agent] = _mean_and_spread(at, seeds)
    shown = {name: mine for name, mine in published().items() if name in _SHOWN}
    lines = {g: {name: mine[g] for name, mine in shown.items() if g in mine} for g in by_game}
    paths = [folder / name for name in FIGURES]
    figures.curves(by_game, lines, paths[0], xlabel="frames", ylabel="return")
    means: dict[str, dict[str, Any]] = {}
    for name, chosen in (("mean HNS", atari.GAMES), (f"mean HNS, {HARD}", atari.EXPLORATION)):
        for agent, games in summary["curves"].items():
            mine = {game: seeds for game, seeds in games.items() if game in chosen}
            if mine and (found := aggregate_curve(mine))["point"]:
                bounds = np.asarray(found["low"]), np.asarray(found["high"])
                means.setdefault(name, {})[agent] = (
                    at[np.asarray(found["point"], int)],
                    np.asarray(found["mean"]),
                    *bounds,
                )
    figures.curves(means, {name: {"Avg. Human": 1.0} for name in means}, paths[1], xlabel="frames", ylabel="HNS")
    return paths


_SHOWN = ("Avg. Human", "R2D2", "TDU-R2D2", "TDU-R2D2+prior")
"""Of the published ones, those that are drawn."""


def _mean_and_spread(at: np.ndarray, seeds: list[list[float | None]]) -> tuple[np.ndarray, ...]:
    """Frames, mean over seeds, and one standard deviation below and above it."""
    returns = np.asarray(seeds, float)
    kept = np.isfinite(returns).any(axis=0)
    mean, spread = np.nanmean(returns[:, kept], axis=0), np.nanstd(returns[:, kept], axis=0)
    return at[kept], mean, mean - spread, mean + spread


def _cell(rows: Sequence[Scored]) -> str:
    if not rows:
        return "–"
    return f"{np.mean([r.score for r in rows]):.1f} ({np.mean([r.hns for r in rows]):.3f})"


def _interval(of: dict[str, Any], name: str) -> str:
    interval = of[f"{name}_interval"]
    return f"{of[name]:.3f}" + (f" ({interval[0]:.3f}–{interval[1]:.3f})" if interval else "")
