"""Figure 1's single-network methods on Deep Sea: settings chosen on seed 100, judged on seeds 0–2 (claim C3).

The procedure has three stages (results/RULES.md). The runs of the last two depend on the rows of the stage before.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reproduction import analysis, statistics, wording
from reproduction.deep_sea_figures import draw_scores
from reproduction.deep_sea_runs import (
    ENSEMBLES,
    FEW_SIZES,
    SIZES,
    VARIANTS,
    DeepSeaScore,
    deep_sea_cells,
    deep_sea_id,
    is_stochastic,
    luck,
    measure,
    score,
    size_of,
    variant,
)  # fmt: skip
from reproduction.experiment import EPISODES, Findings, Grid, Verdict, cell, select
from reproduction.rows import RunRow
from tdu.agents.grids import paper_grids
from tdu.run.sweeps import Cell

METHODS = ("cts", "rnd", "su", "nns", "qex")
FIXED: dict[str, dict[str, Any]] = {"su": {"features": 64}, "rnd": {"features": 10, "decay": 0.999}}
"""Options of the paper's grid that are not swept."""
SWEEP_SEED = 100
SWEEP_EPISODES = 3_000
FINALISTS = 4
SEEDS = (0, 1, 2)

Options = tuple[tuple[str, Any], ...]
"""One setting of a method: the values of its options."""


def settings(agent: str) -> list[Options]:
    """Every setting of a method's grids."""
    fixed, found = FIXED.get(agent, {}), list[Options]()
    for grid in paper_grids(agent):
        values = {name: (fixed[name],) if name in fixed else every for name, every in grid.items()}
        found += [tuple(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
    return found


def _cells(agent: str, setting: Options, sizes: Sequence[int], seeds: Sequence[int], episodes: int) -> list[Cell]:
    return [
        cell(deep_sea_id(size, stochastic=stochastic), agent, seed, episodes=episodes, **dict(setting))
        for seed in seeds
        for size in sizes
        for stochastic in (False, True)
    ]


def first_stage(agent: str, setting: Options) -> list[Cell]:
    """Short runs of every setting."""
    return _cells(agent, setting, (10, 20), [SWEEP_SEED], SWEEP_EPISODES)


def second_stage(agent: str, setting: Options) -> list[Cell]:
    """Longer runs of the four best settings."""
    return _cells(agent, setting, (30,), [SWEEP_SEED], EPISODES)


def third_stage(agent: str, setting: Options, preset: str) -> list[Cell]:
    """The runs that are judged, of the best setting."""
    if preset == "laptop":
        return _cells(agent, setting, FEW_SIZES, SEEDS, EPISODES)
    return _cells(agent, setting, SIZES, range(5), EPISODES)


def cells(preset: str) -> list[Cell]:
    """The first stage of every method, which is the same under both presets."""
    del preset
    return [one for agent in METHODS for setting in settings(agent) for one in first_stage(agent, setting)]


def next_cells(preset: str, rows: Sequence[RunRow]) -> list[Cell]:
    """The second and third stages of the methods whose earlier stages are complete."""
    wanted = []
    for agent in METHODS:
        for setting in finalists(agent, rows):
            wanted += second_stage(agent, setting)
        chosen = best(agent, rows)
        if chosen is not None:
            wanted += third_stage(agent, chosen, preset)
    return wanted


def finalists(agent: str, rows: Sequence[RunRow]) -> list[Options]:
    """The four best settings of the first stage; none while one of its runs is missing."""
    return _ranked(settings(agent), lambda setting: first_stage(agent, setting), rows)[:FINALISTS]


def best(agent: str, rows: Sequence[RunRow]) -> Options | None:
    """The best of the four settings over both stages; None while one of their runs is missing."""
    return next(iter(_ranked(finalists(agent, rows), lambda setting: _sweep(agent, setting), rows)), None)


def _sweep(agent: str, setting: Options) -> list[Cell]:
    return first_stage(agent, setting) + second_stage(agent, setting)


def _ranked(
    chosen: Sequence[Options], cells_of: Callable[[Options], list[Cell]], rows: Sequence[RunRow]
) -> list[Options]:
    """Best first: most runs solved, then the smallest sum of log episodes, then the grid's order."""
    runs = {setting: select(rows, cells_of(setting)) for setting in chosen}
    if any(len(runs[setting]) < len(cells_of(setting)) for setting in chosen):
        return []

    def order(setting: Options) -> tuple[int, float]:
        times = analysis.solve_times(runs[setting])
        return -sum(time.solved for time in times), sum(math.log(time.episode) for time in times)

    return sorted(chosen, key=order)


ScorePairs = Mapping[str, tuple[DeepSeaScore, DeepSeaScore]]
"""Deterministic and stochastic, by method."""


def scores(rows: Sequence[RunRow]) -> ScorePairs:
    """Over the five sizes and seeds 0–2. TDU and BDQN use `paper` on deterministic and `listing` on stochastic Deep Sea."""
    wanted = {
        agent: deep_sea_cells([agent], SEEDS, sizes=FEW_SIZES, variants=[False])
        + deep_sea_cells([agent], SEEDS, sizes=FEW_SIZES, variants=[True], preset="listing")
        for agent in ENSEMBLES
    }
    for agent in METHODS:
        chosen = best(agent, rows)
        wanted[agent] = third_stage(agent, chosen, "laptop") if chosen else []
    by_size = {agent: by_variant(select(rows, runs)) for agent, runs in wanted.items()}
    return {agent: (score(both[False], FEW_SIZES), score(both[True], FEW_SIZES)) for agent, both in by_size.items()}


def by_variant(runs: Sequence[RunRow]) -> dict[bool, dict[int, list[RunRow]]]:
    """Runs by whether Deep Sea is stochastic, and by size."""
    found: dict[bool, dict[int, list[RunRow]]] = {False: {}, True: {}}
    for row in runs:
        found[is_stochastic(row.env)].setdefault(size_of(row.env), []).append(row)
    return found


def c3(found: ScorePairs) -> Verdict:
    """Of all methods TDU alone is near-optimal on both variants."""
    lacking = [
        name.upper()
        for name, both in found.items()
        for stochastic, one in enumerate(both)
        if len(one.by_seed) < (1 if name in ENSEMBLES and not stochastic else len(SEEDS))
    ]
    if lacking:
        return Verdict("not yet enough data", f"runs of {', '.join(dict.fromkeys(lacking))} are missing")
    value = {name: [one.official.estimate for one in both] for name, both in found.items()}
    near = [name for name, both in value.items() if min(both) >= 0.9]
    alone, collapses = near == ["tdu"], value["su"][0] >= 0.75 and value["su"][1] <= value["su"][0] / 2
    statements: dict[str, bool | None] = {
        "TDU alone reaches 0.9 on both variants": alone,
        "SU reaches 0.75 on deterministic Deep Sea, and at most half of its score on stochastic Deep Sea": collapses,
    }
    for name in ("nns", "qex"):
        rows = [row for one in found[name] for row in one.rows]
        solved = statistics.share(analysis.solved_count(rows), len(rows))
        reached = analysis.at_least(solved, 0.25)
        words = f"{name.upper()} solves less than a quarter of its runs ({wording.interval(solved)} of {len(rows)})"
        statements[words] = None if reached is None else not reached
    numbers = ", ".join(f"{name} {both[0]:.2f} / {both[1]:.2f}" for name, both in value.items())
    words = f"{wording.statements(statements)}; official scores, deterministic / stochastic: {numbers}"
    if all(statements.values()):
        return Verdict("reproduced", words)
    return Verdict("partly reproduced" if alone or collapses else "not reproduced", words)


def report(rows: Sequence[RunRow]) -> Findings:
    """The chosen settings, the score of every method, every run."""
    found = scores(rows)
    body = [
        "## Scores",
        "The share of runs that are solved on sizes 10, 20, 30, 40 and 50, seeds 0–2, with Wilson's 95 % interval. "
        "*Official*: bsuite's rule at the episodes that bsuite logs. *Every episode*: the same rule at every episode. "
        "TDU and BDQN use `listing` on stochastic and `paper` on deterministic Deep Sea.",
        "![Scores of every method](baselines.svg)",
        _score_table(found),
        "## Settings",
        "Chosen on seed 100. Every setting runs on sizes 10 and 20 for at most 3,000 episodes, the four best also on size 30 "
        "for at most 10,000. Solved and episodes are those of the chosen setting in these six runs.",
        _settings_table(rows),
    ]
    every = ["Episodes to solve by seed. A run with > was not solved.", _runs_table(rows), _older_table(rows)]
    figures = {"baselines": lambda: draw_scores(found)}
    shown = [row for both in found.values() for one in both for row in one.rows]
    return Findings({"C3": c3(found)}, "\n\n".join(body), figures, "\n\n".join(filter(None, every)), shown)


def _score_table(found: ScorePairs) -> str:
    lines = []
    for name, both in found.items():
        for stochastic, one in zip(VARIANTS, both, strict=True):
            numbers = [wording.interval(one.official), wording.interval(one.all)] if one.by_seed else ["–", "–"]
            lines.append([name, variant(stochastic), str(len(one.rows)), *numbers])
    return wording.table(["method", "Deep Sea", "runs", "official (95 %)", "every episode (95 %)"], lines)


def _settings_table(rows: Sequence[RunRow]) -> str:
    lines = []
    for agent in METHODS:
        every = settings(agent)
        wanted = [one for setting in every for one in first_stage(agent, setting)]
        line = [agent, str(len(every)), f"{len(select(rows, wanted))} of {len(wanted)}"]
        chosen = best(agent, rows)
        if chosen is None:
            lines.append([*line, "not chosen yet", "–", "–"])
            continue
        fixed = FIXED.get(agent, {}).items()
        words = ", ".join(f"{name} = {value}" for name, value in chosen if (name, value) not in fixed)
        runs = select(rows, _sweep(agent, chosen))
        solved = f"{analysis.solved_count(runs)} of {len(runs)}"
        lines.append([*line, words, solved, wording.solve_episodes(runs)])
    return wording.table(["method", "settings", "runs of stage 1", "chosen", "solved", "episodes"], lines)


def _runs_table(rows: Sequence[RunRow]) -> str:
    lines = []
    for agent in METHODS:
        chosen = best(agent, rows)
        runs = select(rows, third_stage(agent, chosen, "paper")) if chosen else []
        lines += _run_lines(agent, runs)
    return _by_size(lines) if lines else "No method has a chosen setting yet."


def _older_table(rows: Sequence[RunRow]) -> str:
    """Runs with the settings that the paper reports as best, if they are not the chosen ones."""
    lines = []
    for agent in METHODS:
        chosen = best(agent, rows)
        judged = {row.identity for row in select(rows, third_stage(agent, chosen, "paper"))} if chosen else set()
        default = select(rows, _cells(agent, (), SIZES, range(5), EPISODES))
        lines += _run_lines(agent, [row for row in default if row.identity not in judged])
    words = "The paper's best settings, seed 0. These runs are older than the procedure and do not count."
    return f"{words}\n\n{_by_size(lines)}" if lines else ""


def _run_lines(agent: str, runs: Sequence[RunRow]) -> list[list[str]]:
    lines = []
    for stochastic, by_size in by_variant(runs).items():
        if by_size:
            each = [wording.solve_episodes(by_size.get(size, ()), mark=luck) for size in FEW_SIZES]
            lines.append([agent, variant(stochastic), *each])
    return lines


def _by_size(lines: Sequence[Sequence[str]]) -> str:
    return wording.table(["method", "Deep Sea", *(f"size {n}" for n in FEW_SIZES)], lines)


BASELINES = Grid(
    summary="figure 1: CTS, RND, SU, NNS and QEX on Deep Sea, with settings from a sweep",
    claims={
        "C3": "of all methods only TDU is near-optimal on both variants. NNS and QEX do not work. SU is good on "
        "deterministic Deep Sea and collapses on stochastic Deep Sea."
    },
    rules="settings are chosen on seed 100 and judged on seeds 0–2. TDU alone reaches 0.9 on both variants; SU falls by "
    "half; NNS and QEX solve less than a quarter.",
    next_cells=next_cells,
    left_out="16 of 21 sizes, and seeds 3 and 4, of the runs that are judged.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
