"""Human-normalised scores of Atari games, HNS = (score − random) / (human − random), as in section 5.2 of the paper.

The score of a run is the evaluation return of its trained policy. If one run of the folder has no evaluation, all runs are
scored by the mean return of their last training episodes. Intervals resample the seeds of each game (`variance`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, SupportsFloat, TypeVar

import numpy as np

from tdu.environments import atari, parse
from tdu.files import Json
from tdu.report import figures, text, variance
from tdu.report.collect import StoredRun
from tdu.run.folder.log import Log

POINTS = 40  # Points of a learning curve

FIGURES = ("atari_games.png", "atari_hns.png")

HARD = "exploration games"

Number = TypeVar("Number", float, np.ndarray)


class Scored(NamedTuple):
    agent: str  # The agent's label, with its changed options
    kind: str  # The agent's name
    game: str
    seed: int
    score: float
    hns: float


def references() -> dict[str, dict[str, float]]:
    """Scores of `random` play and of a `human`, by game."""
    return text.published("atari_random_human.csv")


def published() -> dict[str, dict[str, float]]:
    """Published scores by algorithm and game, with `Avg. Human`."""
    return text.published("atari_published.csv")


def human_normalised(game: str, score: Number) -> Number:
    """The score on a scale on which random play is 0 and humans are 1."""
    of = references()[game]
    return (score - of["random"]) / (of["human"] - of["random"])


def score_of(game: str, hns: float) -> float:
    """The inverse of `human_normalised`."""
    of = references()[game]
    return of["random"] + hns * (of["human"] - of["random"])


def game_of(env: str) -> str | None:
    """The game of an environment's id, if it is one of the 57."""
    env_id = parse(env)
    return env_id.name if env_id.source == "atari" and env_id.name in references() else None


def scored(found: Sequence[StoredRun]) -> tuple[list[Scored], bool]:
    """The scores of finished runs on games, and whether all trained policies were evaluated."""
    ended = [(run, run.result, game) for run in found if run.result is not None and run.result.mean_return is not None
             and (game := game_of(run.config.env)) is not None]  # fmt: skip
    evaluated = all(result.greedy_return is not None for _, result, _ in ended)
    rows = []
    for run, result, game in ended:
        score = result.greedy_return.mean if evaluated and result.greedy_return else result.mean_return
        assert score is not None
        hns = float(human_normalised(game, score))
        rows.append(Scored(run.agent, run.config.agent, game, run.config.seed, score, hns))
    return rows, evaluated


def aggregate(rows: Sequence[Scored]) -> Json:
    """Mean and median over games of the mean over seeds, with 95 % intervals."""
    groups = [np.asarray([r.hns for r in rows if r.game == game]) for game in dict.fromkeys(r.game for r in rows)]
    means = np.asarray([group.mean() for group in groups])
    several = any(len(group) > 1 for group in groups)
    found: Json = {"games": len(groups), "runs": len(rows)}
    statistic: Callable[[np.ndarray], SupportsFloat]
    for name, statistic in (("mean", np.mean), ("median", np.median)):
        found[name] = float(statistic(means))
        found[f"{name}_interval"] = list(variance.interval_of_groups(groups, statistic)) if several else None
    return found


def tests(rows: Sequence[Scored]) -> Json:
    """Analyses of variance of HNS: TDU against other agents (the paper's), agent, and agent × game."""
    hns, games = [r.hns for r in rows], [r.game for r in rows]
    is_tdu = [r.kind.startswith("tdu") for r in rows]
    found = {
        "TDU against other agents, controlling for game": variance.anova(hns, is_tdu, games),
        "agent, controlling for game": variance.anova(hns, [r.agent for r in rows], games),
        "agent × game": variance.interaction(hns, [r.agent for r in rows], games),
    }
    return {name: None if test is None else test._asdict() for name, test in found.items()}


def curve(logs: Sequence[Mapping[str, np.ndarray]], max_steps: int) -> list[list[float | None]]:
    """The return of each seed at evenly spaced steps; None before its first episode has ended and after its run.

    A point is the mean return of the episodes that ended since the last point, or the last point's value where none did.
    """
    edges = np.linspace(0, max_steps, POINTS + 1)[1:]
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
    rows = []
    for point in range(POINTS):
        groups = [seeds[:, point][np.isfinite(seeds[:, point])] for seeds in hns.values()]
        if all(len(group) for group in groups):
            means = [group.mean() for group in groups]
            interval = variance.interval_of_groups(groups, np.mean, resamples=300)
            rows.append((point, float(np.mean(means)), float(np.median(means)), *interval))
    return {name: [row[i] for row in rows] for i, name in enumerate(("point", "mean", "median", "low", "high"))}


def frames(max_steps: int) -> np.ndarray:
    return np.linspace(0, max_steps, POINTS + 1)[1:] * atari.FRAMES_PER_STEP


def summarise(found: Sequence[StoredRun]) -> Json | None:
    """Scores, aggregates, tests and learning curves of the runs on games; None where there are none."""
    on_games = [run for run in found if run.has_episodes and game_of(run.config.env) is not None]
    if not on_games:
        return None
    rows, evaluated = scored(on_games)
    agents = list(dict.fromkeys(run.agent for run in on_games))
    max_steps = max(int(run.log["steps"][-1]) for run in on_games)
    logs: dict[str, dict[str, list[Log]]] = {agent: {} for agent in agents}
    for game in atari.GAMES:
        for run in on_games:
            if game_of(run.config.env) == game:
                logs[run.agent].setdefault(game, []).append(run.log)
    curves = {name: {game: curve(own, max_steps) for game, own in games.items()} for name, games in logs.items()}
    hard = [r for r in rows if r.game in atari.EXPLORATION]
    return {
        "evaluated": evaluated,
        "runs": [row._asdict() for row in rows],
        "agents": {
            agent: {name: aggregate(own) for name, of in (("all", rows), (HARD, hard))
                    for own in [[r for r in of if r.agent == agent]] if own}
            for agent in agents
        },
        "anova": {name: tests(of) for name, of in (("all", rows), (HARD, hard)) if of},
        "curve_frames": frames(max_steps).tolist(),
        "curves": curves,
    }  # fmt: skip


def as_text(summary: Json, with_published: bool) -> list[str]:
    """Tables: a row for each game, the aggregates, the analyses of variance."""
    rows = [Scored(**row) for row in summary["runs"]]
    if not rows:
        return []
    agents = list(dict.fromkeys(row.agent for row in rows))
    others = published() if with_published else {}
    scores = [
        [game, *(_cell([r for r in rows if (r.agent, r.game) == (agent, game)]) for agent in agents),
         *(f"{of[game]:g}" if game in of else "–" for of in others.values())]
        for game in atari.GAMES if any(row.game == game for row in rows)
    ]  # fmt: skip
    what = "evaluation returns" if summary["evaluated"] else "returns of the last training episodes"
    parts = [text.markdown_table(["Atari game", *agents, *others], scores)]
    parts.append(f"Scores are {what}, means over seeds, with human-normalised scores in brackets.")
    aggregates = [
        [agent if name == "all" else f"{agent}, {name}", str(of["games"]), str(of["runs"]), _interval(of, "mean"),
         _interval(of, "median")]
        for agent, sets in summary["agents"].items() for name, of in sets.items()
    ]  # fmt: skip
    columns = ["human-normalised score", "games", "runs", "mean (95 %)", "median (95 %)"]
    parts.append(text.markdown_table(columns, aggregates))
    tests = [
        [test if name == "all" else f"{test} ({name})", f"{it['f']:.2f}",
         f"{it['factor_freedom']}, {it['residual_freedom']}", f"{it['p']:.4f}"]
        for name, found in summary["anova"].items() for test, it in found.items() if it is not None
    ]  # fmt: skip
    if tests:
        parts.append(text.markdown_table(["analysis of variance", "F", "degrees of freedom", "p"], tests))
    return parts


def write_figures(summary: Json, folder: Path) -> list[Path]:
    """Draws the learning curves of each game beside published scores, and of the mean human-normalised score."""
    at = np.asarray(summary["curve_frames"])
    by_game: dict[str, figures.Curves] = {}
    for agent, games in summary["curves"].items():
        for game, seeds in games.items():
            by_game.setdefault(game, {})[agent] = _mean_and_spread(at, seeds)
    shown = {name: own for name, own in published().items() if name in _SHOWN}
    lines = {g: {name: own[g] for name, own in shown.items() if g in own} for g in by_game}
    paths = [folder / name for name in FIGURES]
    figures.curves(by_game, lines, paths[0], xlabel="frames", ylabel="return")
    means: dict[str, figures.Curves] = {}
    for name, chosen in (("mean HNS", atari.GAMES), (f"mean HNS, {HARD}", atari.EXPLORATION)):
        for agent, games in summary["curves"].items():
            own = {game: seeds for game, seeds in games.items() if game in chosen}
            if own and (found := aggregate_curve(own))["point"]:
                drawn = (np.asarray(found[line]) for line in ("mean", "low", "high"))
                means.setdefault(name, {})[agent] = (at[np.asarray(found["point"], int)], *drawn)
    figures.curves(means, {name: {"Avg. Human": 1.0} for name in means}, paths[1], xlabel="frames", ylabel="HNS")
    return paths


_SHOWN = ("Avg. Human", "R2D2", "TDU-R2D2", "TDU-R2D2+prior")  # Published algorithms that are drawn


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


def _interval(of: Json, name: str) -> str:
    interval = of[f"{name}_interval"]
    return f"{of[name]:.3f}" + (f" ({interval[0]:.3f}–{interval[1]:.3f})" if interval else "")
