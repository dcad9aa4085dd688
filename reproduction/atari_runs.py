"""Shared by the Atari experiments: plans of runs, human-normalised scores, tests between agents, tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduction import drawing, statistics, wording
from reproduction.experiment import Measured, Verdict, cell
from reproduction.rows import RunRow, first_of_each, identity
from reproduction.statistics import Interval
from tdu import agents
from tdu.environments.atari import DENSE, EXPLORATION, FRAMES_PER_STEP
from tdu.report import atari_scores, variance
from tdu.report.atari_scores import Scored
from tdu.run import folder as run_folder
from tdu.run.sweeps import Cell

FEWEST = 3
"""Seeds per setting and game that a verdict requires."""

_FEW = 12
"""Up to this number, missing games are listed by name."""

LOSS = 0.1
"""Share of the score that may be lost if a claim states that it is kept."""


class GamePlan(NamedTuple):
    """Every setting on every game with every seed."""

    settings: Mapping[str, tuple[str, Mapping[str, Any]]]
    """Agent and options by name."""
    games: Sequence[str]
    seeds: int
    preset: str
    """The preset of the agents."""
    frames: int
    """Frames of a run."""

    def runs(self) -> Iterator[tuple[str, str, Cell]]:
        """(Name of the setting, game, run), all of one seed before the next."""
        for seed in range(self.seeds):
            for game in self.games:
                for name, (agent, options) in self.settings.items():
                    made = cell(f"atari/{game}", agent, seed, preset=self.preset, episodes=None, **options)
                    num_envs = agents.default_num_envs(agent, self.preset)
                    yield name, game, made._replace(steps=self.frames // FRAMES_PER_STEP, num_envs=num_envs)

    def cells(self) -> list[Cell]:
        """The runs without their names."""
        return [made for _, _, made in self.runs()]

    def scored(self, rows: Sequence[RunRow]) -> list[Scored]:
        """The runs that have a score, under the name of their setting."""
        found = first_of_each(rows)
        there = [(name, game, found[key]) for name, game, made in self.runs() if (key := identity(made)) in found]
        return [
            Scored(name, row.agent, game, row.seed, atari_scores.score_of(game, row.score), row.score)
            for name, game, row in there
            if row.score is not None
        ]


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """The human-normalised score: the return of the trained policy, or else of the last episodes of training."""
    del folder
    game = atari_scores.game_of(result.env)
    score = result.greedy_return.mean if result.greedy_return is not None else result.mean_return
    if game is None or score is None:
        return Measured()
    return Measured(score=float(atari_scores.human_normalised(game, score)))


def pick(scored: Sequence[Scored], settings: Sequence[str], games: Sequence[str]) -> list[Scored]:
    """The runs of some settings on some games."""
    return [run for run in scored if run.agent in settings and run.game in games]


def too_few(
    scored: Sequence[Scored], settings: Sequence[str], games: Sequence[str], fewest: int = FEWEST
) -> Verdict | None:
    """The verdict if a setting lacks seeds on a game."""
    lacking = [game for game in games if any(len(pick(scored, [name], [game])) < fewest for name in settings)]
    if not lacking:
        return None
    where = ", ".join(lacking) if len(lacking) <= _FEW else f"{len(lacking)} games"
    return Verdict("not yet enough data", f"some settings have fewer than {fewest} seeds on {where}")


def mean(scored: Sequence[Scored]) -> float:
    """Mean over games of the mean over their runs."""
    games = dict.fromkeys(run.game for run in scored)
    return float(np.mean([np.mean([run.hns for run in scored if run.game == game]) for game in games]))


def difference(first: Sequence[Scored], second: Sequence[Scored]) -> Interval:
    """How much more the first runs score, mean over games; the interval resamples the seeds of each game."""
    games = list(dict.fromkeys(run.game for run in first))
    groups = [np.asarray([r.hns for r in runs if r.game == game]) for runs in (first, second) for game in games]

    def gap(means: np.ndarray) -> float:
        return float(means[: len(games)].mean() - means[len(games) :].mean())

    return Interval(mean(first) - mean(second), *variance.interval_of_groups(groups, gap))


class Tested(NamedTuple):
    """Two groups of runs on the same games, compared by an analysis of variance that controls for game."""

    above: bool | None
    """Whether the first scores more; None if p is 0.05 or more."""
    words: str


def compare(first: Sequence[Scored], second: Sequence[Scored]) -> Tested:
    """Whether the first runs score more than the second, or less."""
    both = [*first, *second]
    factor = [0] * len(first) + [1] * len(second)
    test = variance.anova([run.hns for run in both], factor, [run.game for run in both])
    words = f"{mean(first):.3f} against {mean(second):.3f}"
    if test is None:
        return Tested(None, words)
    above = mean(first) > mean(second) if test.p < 0.05 else None
    return Tested(above, f"{words}, F = {test.f:.2f}, p = {test.p:.4f}")


def body(plans: Mapping[str, GamePlan], rows: Sequence[RunRow]) -> tuple[str, dict[str, drawing.Drawing]]:
    """Tables and a figure of each preset that has runs; the figures by name."""
    parts, figures = ["## Human-normalised scores"], {}
    for preset, plan in plans.items():
        scored = plan.scored(rows)
        if scored:
            parts += [
                f"### Preset `{preset}`: {plan.frames:,} frames a run",
                "The mean is over games of the mean over seeds. Its interval resamples the seeds of each game.",
                _set_table(scored, plan),
                f"![Human-normalised scores, preset {preset}]({preset}.svg)",
                "The interval of a game is Student's over its seeds.",
                _game_table(scored, plan),
            ]
            figures[preset] = _drawing(scored, plan)
    return "\n\n".join(parts if figures else [*parts, "There are no runs yet."]), figures


def _set_table(scored: Sequence[Scored], plan: GamePlan) -> str:
    sets = {"all": plan.games, "exploration": EXPLORATION, "dense rewards": DENSE}
    lines = []
    for name in plan.settings:
        for games, of in sets.items():
            runs = pick(scored, [name], of)
            if runs:
                found = atari_scores.aggregate(runs)
                cells = [
                    f"{found[what]:.3f}"
                    if found[f"{what}_interval"] is None
                    else wording.interval(Interval(found[what], *found[f"{what}_interval"]), 3)
                    for what in ("mean", "median")
                ]
                lines.append([name, games, str(found["games"]), str(found["runs"]), *cells])
    return wording.table(["agent", "games", "number of games", "runs", "mean (95 %)", "median (95 %)"], lines)


def _game_table(scored: Sequence[Scored], plan: GamePlan) -> str:
    lines = []
    for game in plan.games:
        for name in plan.settings:
            runs = pick(scored, [name], [game])
            if runs:
                hns = [run.hns for run in runs]
                words = wording.interval(statistics.mean_interval(hns), 3) if len(hns) > 1 else f"{hns[0]:.3f}"
                score = f"{np.mean([run.score for run in runs]):,.1f}"
                lines.append([game, name, score, words, ", ".join(f"{value:.3f}" for value in hns)])
    return wording.table(["game", "agent", "score", "human-normalised (95 %)", "every seed"], lines)


def _drawing(scored: Sequence[Scored], plan: GamePlan) -> drawing.Drawing:
    """Every run as a dot, and the mean of each setting on each game as a line."""

    def draw() -> "drawing.Figure":
        games = [game for game in plan.games if any(run.game == game for run in scored)]
        drawn, axes = drawing.figure(min(5 + 1.2 * len(games), 30), 4.5)
        colours, markers = (*drawing.COLOURS.values(), *drawing.GREYS), "os^"
        for i, name in enumerate(plan.settings):
            at, label, colour = (i + 0.5) / len(plan.settings) * 0.8 - 0.4, name, colours[i % len(colours)]
            marker = markers[i // len(colours) % len(markers)]
            for k, game in enumerate(games):
                hns = [run.hns for run in pick(scored, [name], [game])]
                if hns:
                    axes.plot([k + at] * len(hns), hns, marker, color=colour, markersize=4, alpha=0.75, label=label)
                    axes.plot(k + at, np.mean(hns), "_", color=colour, markersize=14)
                    label = ""
        axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        if any(abs(run.hns) > 1 for run in scored):
            axes.set_yscale("symlog", linthresh=1)
        axes.set_xticks(range(len(games)), [game.replace("_", " ") for game in games], rotation=30, ha="right")
        axes.set_ylabel("human-normalised score")
        drawn.legend(frameon=False, fontsize=8, loc="outside right upper")
        return drawn

    return draw
