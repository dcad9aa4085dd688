"""Appendix D: β and the bandit over heads on the whole of bsuite, official settings and episodes (claim C7)."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from tdu import runs
from tdu.agents.grids import BETAS
from tdu.environments.bsuite import imported
from tdu.experiments import deep_sea, sea_scores, seas
from tdu.experiments.experiment import (
    EPISODES,
    Grid,
    Measured,
    Report,
    Verdict,
    cell,
    checked,
    interval_words,
    judged,
    markdown,
)
from tdu.experiments.rows import Row, first_of_each
from tdu.reporting import bsuite_scores, drawing, statistics
from tdu.reporting.figures import ORDER
from tdu.reporting.statistics import Interval
from tdu.reporting.summary import published_scores
from tdu.sweeps import Cell

SETTINGS = {
    "mountain_car": 20, "catch": 20, "cartpole": 20, "bandit": 20, "discounting_chain": 20, "umbrella_length": 23,
    "memory_len": 23, "deep_sea": 21, "deep_sea_stochastic": 21, "bandit_noise": 20, "bandit_scale": 20, "catch_noise": 20,
    "catch_scale": 20, "cartpole_noise": 20, "cartpole_scale": 20, "mountain_car_noise": 20, "mountain_car_scale": 20,
    "umbrella_distract": 23, "memory_size": 17, "cartpole_swingup": 20, "mnist": 20, "mnist_noise": 20, "mnist_scale": 20,
}  # fmt: skip
"""How many settings each experiment has; those first that the claim is about."""

IN_FULL = ("mountain_car",)
ALIKE = ("bandit", "catch", "cartpole", "mountain_car")
"""Experiments whose settings differ by chance alone: what is published of all compares with any of them."""
BANDIT = {"head_choice": "ucb1"}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "β = 0 (BDQN)": ("bdqn", {}),
    "β = 1": ("tdu", {}),
    "β = 1, bandit": ("tdu", BANDIT),
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"β = {beta:g}": ("tdu", {"beta": beta}) for beta in BETAS if beta not in (0.0, 1.0)},
    "QU": ("qu", {}),
    "Q+UCB": ("q_ucb", {}),
}
"""Of the longer preset alone."""
TAGS = {
    "basic": ("bandit", "cartpole", "catch", "mnist", "mountain_car"),
    "noise": (
        "bandit_noise", "cartpole_noise", "catch_noise", "deep_sea_stochastic", "mnist_noise", "mountain_car_noise",
        "umbrella_distract", "umbrella_length",
    ),
    "scale": ("bandit_scale", "cartpole_scale", "catch_scale", "mnist_scale", "mountain_car_scale"),
    "credit_assignment": (
        "cartpole", "catch", "catch_noise", "catch_scale", "discounting_chain", "umbrella_distract", "umbrella_length",
    ),
    "generalization": (
        "cartpole", "cartpole_noise", "cartpole_scale", "cartpole_swingup", "mnist", "mnist_noise", "mnist_scale",
        "mountain_car", "mountain_car_noise", "mountain_car_scale",
    ),
    "exploration": ("cartpole_swingup", "deep_sea", "deep_sea_stochastic"),
    "memory": ("memory_len", "memory_size"),
}  # fmt: skip
"""bsuite's own; a test compares them."""

PUBLISHED = published_scores()["boot_dqn (published)"]
CARS, ENOUGH, LOSS = 5, 10, 0.05
"""Bounds of the verdict: settings of Mountain Car, which differ by their seed alone; other experiments; a loss of score."""


def environment(bsuite_id: str) -> tuple[str, int | None]:
    """The environment of an id and its limit of episodes; the seas are those of the other experiments."""
    name, _, index = bsuite_id.partition("/")
    if name in ("deep_sea", "deep_sea_stochastic"):
        return seas.sea(sea_scores.SIZES[int(index)], stochastic=name != "deep_sea"), EPISODES
    return bsuite_id, None


def ids(preset: str) -> list[str]:
    """Settings of every experiment; on a laptop the first, the middle and the last, and no MNIST, which needs data."""
    found = []
    for name, count in SETTINGS.items():
        every = preset == "paper" or name in IN_FULL
        if not (preset == "laptop" and name.startswith("mnist")):
            found += [f"{name}/{i}" for i in (range(count) if every else (0, count // 2, count - 1))]
    return found


def cells(preset: str) -> list[Cell]:
    """β = 0 (BDQN), β = 1 and the bandit for an id before the next id; first the settings that the verdict rests on."""
    wanted = []
    for bsuite_id in sorted(ids(preset), key=_turn):
        env, limit = environment(bsuite_id)
        wanted += [cell(env, "bdqn", 0, episodes=limit), cell(env, "tdu", 0, episodes=limit)]
        wanted += [cell(env, "tdu", 0, episodes=limit, **BANDIT)]
        if preset == "paper":
            wanted += [cell(env, agent, 0, episodes=limit, **options) for agent, options in MORE.values()]
    return wanted


def _turn(bsuite_id: str) -> int:
    name, _, index = bsuite_id.partition("/")
    if name in IN_FULL and int(index) < CARS:
        return 0
    turns = {0: 0, SETTINGS[name] // 2: 1, SETTINGS[name] - 1: 2}
    return turns.get(int(index), 3)


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """bsuite's official score of this setting alone."""
    if result.env.startswith("deep_sea:"):
        return deep_sea.measure(folder, result)
    (score,) = bsuite_scores.score_logs({result.env: runs.read_log(folder / "log.csv")})
    return Measured(score=round(min(max(score.score, 0.0), 1.0), 4))


Scores = dict[str, dict[str, float]]
"""By variant and bsuite id."""


def report(rows: Sequence[Row]) -> Report:
    """Scores by experiment and by tag, of the settings and seeds that all three variants have."""
    every = _scores(rows, VARIANTS)
    shared = set.intersection(*(set(mine) for mine in every.values()))
    ordered = sorted({i for i, _ in shared}, key=ids("paper").index)
    compared = {
        name: {
            i: float(np.mean([score for run, score in mine.items() if run in shared and run[0] == i])) for i in ordered
        }
        for name, mine in every.items()
    }
    by_experiment = {name: _by_experiment(mine) for name, mine in compared.items()}
    by_tag = {name: _by_tag(mine) for name, mine in by_experiment.items()}
    body = ["## Scores", _how_far(every, shared)]
    figures = {}
    if shared:
        body += [_table(by_experiment, compared)]
        if differences := _differences(compared):
            body += [
                "Differences on the same settings, the mean over settings of Mountain Car or over experiments, with "
                "Student's interval over those (experiments are few and unlike, so that one of them can make it wide):",
                _difference_table(differences),
            ]
        body += ["![Score by experiment](bars.svg)", "![Score by tag](radar.svg)", _tag_table(by_tag)]
        body += [_more_words(rows, ordered), "### Every setting that all three have", _every_table(compared)]
        title = _title(ordered)
        figures = {"bars": lambda: _draw_bars(by_experiment, title), "radar": lambda: _draw_radar(by_tag, title)}
    return Report({"C7": _verdict(compared)}, "\n\n".join(filter(None, body)), figures)


def _scores(
    rows: Sequence[Row], variants: Mapping[str, tuple[str, dict[str, Any]]]
) -> dict[str, dict[tuple[str, int], float]]:
    """By variant, setting and seed."""
    found: dict[str, dict[tuple[str, int], float]] = {name: {} for name in variants}
    names = {environment(i): i for i in ids("paper")}
    wanted = {(agent, _options_text(agent, options)): name for name, (agent, options) in variants.items()}
    for row in first_of_each(rows).values():
        name, bsuite_id = wanted.get((row.agent, row.options)), names.get((row.env, row.limit))
        if name and bsuite_id and row.preset == "paper" and row.score is not None:
            found[name][bsuite_id, row.seed] = row.score
    return found


def _options_text(agent: str, options: dict[str, Any]) -> str:
    return cell("catch/0", agent, 0, **options).options_text


def _by_experiment(scores: dict[str, float]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for bsuite_id, score in scores.items():
        groups.setdefault(bsuite_id.partition("/")[0], []).append(score)
    return {name: float(np.mean(groups[name])) for name in ORDER if name in groups}


def _by_tag(scores: dict[str, float]) -> dict[str, float]:
    groups = {tag: [scores[name] for name in names if name in scores] for tag, names in TAGS.items()}
    return {tag: float(np.mean(values)) for tag, values in groups.items() if values}


def _how_far(every: Mapping[str, Mapping[tuple[str, int], float]], shared: Set[tuple[str, int]]) -> str:
    counts = ", ".join(f"{name} {len({i for i, _ in mine})}" for name, mine in every.items())
    more = sum(seed > 0 for _, seed in shared)
    return (
        f"Of bsuite's 468 settings there are: {counts}; {len({i for i, _ in shared})} of them in all three variants with the "
        "same seed, and only those runs are compared. A score is bsuite 0.3.6's of a setting alone, and the mean over an "
        f"experiment's settings; one seed of each{f' and {more} runs of others' if more else ''}. Official environments and "
        "episodes."
    )


def _table(by_experiment: Scores, compared: Scores) -> str:
    first = next(iter(by_experiment.values()))
    counts = Counter(i.partition("/")[0] for i in next(iter(compared.values())))
    lines = []
    for name in first:
        published = PUBLISHED.get(name) if name in ALIKE or counts[name] == SETTINGS[name] else None
        cells = [f"{mine[name]:.3f}" for mine in by_experiment.values()]
        lines.append(
            [name, f"{counts[name]} of {SETTINGS[name]}", *cells, "–" if published is None else f"{published:.2f}"]
        )
    return markdown(["experiment", "settings", *by_experiment, "boot_dqn (published)"], lines) + (
        "\n\nPublished scores are of all settings. Beside ours they stand where that compares: where settings differ by "
        "chance alone, or all were run. The first settings of the other experiments are mostly their easiest: a memory or an "
        "umbrella of one step, a sea of size 10."
    )


def _more_words(rows: Sequence[Row], ordered: Sequence[str]) -> str:
    """Other β, QU and Q+UCB, where they have runs on the settings that are compared."""
    found = {
        name: _by_experiment({i: score for (i, seed), score in mine.items() if seed == 0 and i in ordered})
        for name, mine in _scores(rows, MORE).items()
    }
    found = {name: mine for name, mine in found.items() if mine}
    if not found:
        return ""
    names = [name for name in ORDER if any(name in mine for mine in found.values())]
    lines = [[name, *(f"{mine[name]:.3f}" if name in mine else "–" for mine in found.values())] for name in names]
    return "Other variants, seed 0, the means over those of the settings above that each has:\n\n" + markdown(
        ["experiment", *found], lines
    )


def _every_table(compared: Scores) -> str:
    first = next(iter(compared.values()))
    return markdown(["setting", *compared], [[i, *(f"{mine[i]:.3f}" for mine in compared.values())] for i in first])


def _tag_table(by_tag: Scores) -> str:
    tags = list(next(iter(by_tag.values())))
    return markdown(["tag", *by_tag], [[tag, *(f"{mine[tag]:.3f}" for mine in by_tag.values())] for tag in tags])


def _differences(compared: Scores) -> dict[str, tuple[int, Interval]]:
    """What is compared, of how many settings or experiments, and the mean difference with its paired interval."""
    without, with_bonus, bandit = compared.values()
    cars = [i for i in without if i.startswith("mountain_car/")]
    experiments = [_by_experiment(mine) for mine in (without, with_bonus)]
    pairs = {
        BONUS_ON_CARS: [with_bonus[i] - without[i] for i in cars],
        BANDIT_ON_CARS: [bandit[i] - with_bonus[i] for i in cars],
        BONUS_ELSEWHERE: [experiments[1][name] - experiments[0][name] for name in _others(compared)],
    }
    return {what: (len(mine), statistics.mean_interval(mine)) for what, mine in pairs.items() if len(mine) > 1}


def _others(compared: Scores) -> list[str]:
    """The experiments that are no Mountain Car."""
    names = dict.fromkeys(i.partition("/")[0] for i in next(iter(compared.values())))
    return [name for name in names if not name.startswith("mountain_car")]


BONUS_ON_CARS = "Mountain Car, β = 1 less β = 0"
BANDIT_ON_CARS = "Mountain Car, bandit less β = 1"
BONUS_ELSEWHERE = "other experiments, β = 1 less β = 0"


def _difference_table(differences: dict[str, tuple[int, Interval]]) -> str:
    lines = [[what, str(count), interval_words(mine, 3)] for what, (count, mine) in differences.items()]
    return markdown(["score", "settings or experiments", "mean difference (95 %)"], lines)


def _verdict(compared: Scores) -> Verdict:
    without, with_bonus, bandit = (compared[name] for name in VARIANTS)
    cars, others = [i for i in without if i.startswith("mountain_car/")], _others(compared)
    if len(cars) < CARS or len(others) < ENOUGH:
        words = f"all three variants have {len(cars)} settings of Mountain Car and {len(others)} other experiments"
        return Verdict("not yet enough data", f"{words}; {CARS} and {ENOUGH} are asked for")
    means = [float(np.mean([mine[i] for i in cars])) for mine in (without, with_bonus, bandit)]
    differences = _differences(compared)
    hurt, repaired, elsewhere = (differences[what][1] for what in (BONUS_ON_CARS, BANDIT_ON_CARS, BONUS_ELSEWHERE))
    hurts = True if hurt.estimate < -LOSS and hurt.high < 0 else False if hurt.low > -LOSS else None
    repairs = repaired.estimate >= -hurt.estimate / 2 and repaired.low > 0 if hurts else None
    repairing = {} if hurts is False else {"the bandit repairs that": repairs}  # of nothing, nothing
    keeps = True if elsewhere.low > -LOSS else False if elsewhere.high < -LOSS else None
    statements = {
        f"a bonus hurts Mountain Car (change {interval_words(hurt, 3)})": hurts,
        **repairing,
        f"the other {len(others)} experiments are kept (change {interval_words(elsewhere, 3)}; {_farthest(compared)})": keeps,
    }
    words = (
        f"{checked(statements)} (Mountain Car, {len(cars)} settings: {means[0]:.3f} without the bonus, {means[1]:.3f} with "
        f"it, {means[2]:.3f} with the bandit)"
    )
    return Verdict(judged(*statements.values()), words)


def _farthest(compared: Scores) -> str:
    """The one other experiment that a bonus changes most."""
    without, with_bonus = (_by_experiment(compared[name]) for name in list(VARIANTS)[:2])
    change = {name: with_bonus[name] - without[name] for name in _others(compared)}
    name = max(change, key=lambda name: abs(change[name]))
    return f"the most, {change[name]:+.3f}, is {name}'s".replace("-", "−")


def _title(shared: Sequence[str]) -> str:
    """How much of bsuite a figure shows."""
    counts = Counter(i.partition("/")[0] for i in shared)
    easy = any(count == 1 and name not in ALIKE for name, count in counts.items())
    return f"{len(shared)} of bsuite's 468 settings" + (
        ", mostly the first of each experiment, often its easiest" if easy else ""
    )


def _draw_bars(by_experiment: Scores, title: str) -> Any:
    drawn, axes = drawing.figure(10.5, 4.2)
    axes.set_title(title, fontsize=10)
    names = list(next(iter(by_experiment.values())))
    for i, (variant, mine) in enumerate(by_experiment.items()):
        at = [k + 0.27 * (i - 1) for k in range(len(names))]
        axes.bar(at, [mine[name] for name in names], 0.26, color=_COLOURS[i], label=variant)
    for k, name in enumerate(names):
        if not any(mine[name] for mine in by_experiment.values()):
            axes.annotate("0", (k, 0), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(names)), [name.replace("_", " ") for name in names], rotation=40, ha="right", fontsize=8)
    axes.set(ylabel="bsuite score (of the settings run)", ylim=(0, 1.05))
    drawn.legend(frameon=False, fontsize=9, loc="outside upper center", ncols=3)
    return drawn


def _draw_radar(by_tag: Scores, title: str) -> Any:
    drawn, axes = drawing.figure(6, 5.4, subplot_kw={"polar": True})
    drawn.suptitle(title, fontsize=10)
    tags = list(next(iter(by_tag.values())))
    angles = [2 * np.pi * i / len(tags) for i in range(len(tags))]
    for i, (variant, mine) in enumerate(by_tag.items()):
        values = [mine[tag] for tag in tags]
        axes.plot([*angles, angles[0]], [*values, values[0]], color=_COLOURS[i], linewidth=3.2 - 0.9 * i, label=variant)
    axes.set_xticks(angles, [tag.replace("_", "\n") for tag in tags])
    axes.tick_params(axis="x", pad=28)
    axes.set_rlabel_position(180 / len(tags))  # between two tags
    axes.set_ylim(0, 1)
    drawn.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=3)
    return drawn


_COLOURS = (drawing.COLOURS["bdqn"], drawing.COLOURS["tdu"], "#d08a1d")

BSUITE = Grid(
    summary="appendix D: β and the bandit over heads on all of bsuite",
    claims={
        "C7": "TDU keeps BDQN's performance over the whole suite, except that a bonus hurts Mountain Car, and UCB1's "
        "choice of heads repairs that."
    },
    rules=f"it asks for {CARS} settings of Mountain Car, which differ by chance alone, and {ENOUGH} other experiments in all "
    f"three variants, and is three statements. A bonus hurts: Mountain Car's mean score falls by more than {LOSS}, and the "
    f"interval of the difference lies below 0 (contradicted if it lies above −{LOSS}). The bandit repairs: it brings back at "
    "least half of such a loss, and its interval lies above 0; where nothing is hurt this is left "
    "out. The rest is kept: the interval of the mean difference over "
    f"the other experiments, noise and scale on Mountain Car not among them, lies above −{LOSS} (contradicted if below). "
    "Partly if some hold, inconclusive if none holds and none is contradicted.",
    cells=cells,
    left_out="all settings but the first, the middle and the last of each experiment (Mountain Car is whole), MNIST, "
    "which needs its data, β other than 0 and 1, QU and Q+UCB.",
    measure=measure,
    report=report,
    check=imported,
)
