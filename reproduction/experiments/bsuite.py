"""Appendix D: β and the bandit over heads on the whole of bsuite, official settings and episodes (claim C7)."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import deep_sea_runs, drawing, statistics, wording
from reproduction.analysis import judged
from reproduction.experiment import EPISODES, Findings, Grid, Measured, Verdict, cell
from reproduction.rows import RunRow, first_of_each
from reproduction.statistics import Interval
from tdu.agents.grids import BETAS, ETAS
from tdu.environments import parse
from tdu.environments.bsuite import imported
from tdu.environments.bsuite_twins.experiments import DEEP_SEAS, split
from tdu.report import bsuite_scores
from tdu.report.bsuite_summary import published_scores
from tdu.report.figures import ORDER
from tdu.run import folder as run_folder
from tdu.run.sweeps import Cell

SETTINGS = {
    "mountain_car": 20, "catch": 20, "cartpole": 20, "bandit": 20, "discounting_chain": 20, "umbrella_length": 23,
    "memory_len": 23, "deep_sea": 21, "deep_sea_stochastic": 21, "bandit_noise": 20, "bandit_scale": 20, "catch_noise": 20,
    "catch_scale": 20, "cartpole_noise": 20, "cartpole_scale": 20, "mountain_car_noise": 20, "mountain_car_scale": 20,
    "umbrella_distract": 23, "memory_size": 17, "cartpole_swingup": 20, "mnist": 20, "mnist_noise": 20, "mnist_scale": 20,
}  # fmt: skip
"""Number of settings of each experiment; those of the claim first."""

IN_FULL = ("mountain_car",)
ALIKE = ("bandit", "catch", "cartpole", "mountain_car")
"""Experiments whose settings differ only by their seed: published scores over all settings compare with any of them."""
BANDIT: dict[str, Any] = {"head_choice": "ucb1"}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "β = 0 (BDQN)": ("bdqn", {}),
    "β = 1": ("tdu", {}),
    "β = 1, bandit": ("tdu", BANDIT),
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"β = {beta:g}": ("tdu", {"beta": beta}) for beta in BETAS if beta not in (0.0, 1.0)},
    "QU": ("qu", {}),
    "Q+UCB": ("q_ucb", {}),
    **{f"β = 1, bandit, η = {eta:g}": ("tdu", BANDIT | {"ucb_eta": eta}) for eta in ETAS if eta != 8.0},
}
"""Only with the preset `paper`."""
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
"""bsuite's own tags; a test compares them."""

PUBLISHED = published_scores()["boot_dqn (published)"]
CARS, ENOUGH, LOSS = 5, 10, 0.05
"""Bounds of the verdict: settings of Mountain Car, other experiments, and loss of score."""


def environment(bsuite_id: str) -> tuple[str, int | None]:
    """The environment of an id and its limit of episodes; Deep Sea is that of the other experiments."""
    name, index = split(bsuite_id)
    if name in DEEP_SEAS:
        return deep_sea_runs.deep_sea_id(deep_sea_runs.SIZES[index], stochastic=DEEP_SEAS[name]), EPISODES
    return bsuite_id, None


def ids(preset: str) -> list[str]:
    """Settings of every experiment; with `laptop` the first, the middle and the last, and no MNIST, which needs data."""
    found = []
    for name, count in SETTINGS.items():
        every = preset == "paper" or name in IN_FULL
        if not (preset == "laptop" and name.startswith("mnist")):
            found += [f"{name}/{i}" for i in (range(count) if every else (0, count // 2, count - 1))]
    return found


def cells(preset: str) -> list[Cell]:
    """β = 0 (BDQN), β = 1 and the bandit for one id before the next; the settings that the verdict uses first."""
    variants = [*VARIANTS.values(), *(MORE.values() if preset == "paper" else ())]
    wanted = []
    for bsuite_id in sorted(ids(preset), key=_turn):
        env, limit = environment(bsuite_id)
        wanted += [cell(env, agent, 0, episodes=limit, **options) for agent, options in variants]
    return wanted


def _turn(bsuite_id: str) -> int:
    name, index = split(bsuite_id)
    if name in IN_FULL and index < CARS:
        return 0
    turns = {0: 0, SETTINGS[name] // 2: 1, SETTINGS[name] - 1: 2}
    return turns.get(index, 3)


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """bsuite's official score of this setting alone."""
    if parse(result.env).source == "deep_sea":
        return deep_sea_runs.measure(folder, result)
    (score,) = bsuite_scores.score_logs({result.env: run_folder.read_log(folder / "log.csv")})
    return Measured(score=round(min(max(score.score, 0.0), 1.0), 4))


VariantScores = dict[str, dict[str, float]]
"""By variant and bsuite id."""


def report(rows: Sequence[RunRow]) -> Findings:
    """VariantScores by experiment and by tag, of the settings and seeds that all three variants have."""
    every = _scores(rows, VARIANTS)
    shared = set.intersection(*(set(scores) for scores in every.values()))
    ordered = sorted({i for i, _ in shared}, key=ids("paper").index)
    compared = _compared(every, shared, ordered)
    own = _compared(_scores(rows, VARIANTS, official=False), shared, ordered)
    by_experiment = {name: _by_experiment(scores) for name, scores in compared.items()}
    by_tag = {name: _by_tag(scores) for name, scores in by_experiment.items()}
    body, details = [_how_far(every, shared)], list[str]()
    figures = {}
    if shared:
        body += ["![Score by experiment](bars.svg)"]
        if differences := _differences(compared):
            body += [
                "Mean differences over settings of Mountain Car or over experiments, with Student's interval:",
                _difference_table(differences),
            ]
        body += [_table(by_experiment, compared, {name: _by_experiment(scores) for name, scores in own.items()})]
        tags = [tag for tag in TAGS if tag in by_tag["β = 1"]]
        details = ["![Score by tag](radar.svg)", _score_table("tag", tags, by_tag), _more_words(rows, ordered)]
        details += ["### Every setting that all three have", _score_table("setting", ordered, compared)]
        title = _title(ordered)
        figures = {"bars": lambda: _draw_bars(by_experiment, title), "radar": lambda: _draw_radar(by_tag, title)}
    return Findings({"C7": _verdict(compared)}, "\n\n".join(body), figures, "\n\n".join(filter(None, details)))


def _compared(
    every: Mapping[str, Mapping[tuple[str, int], float]], shared: Set[tuple[str, int]], ordered: Sequence[str]
) -> VariantScores:
    """Means over the seeds that all variants have."""
    return {
        name: {
            i: float(np.mean([score for run, score in scores.items() if run in shared and run[0] == i]))
            for i in ordered
        }
        for name, scores in every.items()
    }


def _scores(
    rows: Sequence[RunRow], variants: Mapping[str, tuple[str, dict[str, Any]]], *, official: bool = True
) -> dict[str, dict[tuple[str, int], float]]:
    """By variant, setting and seed. `official` checks Deep Sea's rule only at the episodes that bsuite logs."""
    found: dict[str, dict[tuple[str, int], float]] = {name: {} for name in variants}
    names = {environment(i): i for i in ids("paper")}
    wanted = {(agent, _options_text(agent, options)): name for name, (agent, options) in variants.items()}
    for row in first_of_each(rows).values():
        name, bsuite_id = wanted.get((row.agent, row.options)), names.get((row.env, row.limit))
        if name and bsuite_id and row.preset == "paper" and row.score is not None:
            by_rule = official and parse(row.env).source == "deep_sea"
            found[name][bsuite_id, row.seed] = float(deep_sea_runs.counts_officially(row)) if by_rule else row.score
    return found


def _options_text(agent: str, options: dict[str, Any]) -> str:
    return cell("catch/0", agent, 0, **options).options_text


def _by_experiment(scores: dict[str, float]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for bsuite_id, score in scores.items():
        groups.setdefault(parse(bsuite_id).experiment, []).append(score)
    return {name: float(np.mean(groups[name])) for name in ORDER if name in groups}


def _by_tag(scores: dict[str, float]) -> dict[str, float]:
    groups = {tag: [scores[name] for name in names if name in scores] for tag, names in TAGS.items()}
    return {tag: float(np.mean(values)) for tag, values in groups.items() if values}


def _how_far(every: Mapping[str, Mapping[tuple[str, int], float]], shared: Set[tuple[str, int]]) -> str:
    counts = ", ".join(f"{name} {len({i for i, _ in scores})}" for name, scores in every.items())
    more = sum(seed > 0 for _, seed in shared)
    return (
        f"bsuite has 468 settings. Done are: {counts}. The {len({i for i, _ in shared})} that all three variants have with "
        "the same seed are compared. A score is bsuite 0.3.6's official score of one setting, averaged over an experiment's "
        f"settings. One seed of each{f', and {more} runs of others' if more else ''}."
    )


def _table(by_experiment: VariantScores, compared: VariantScores, own: VariantScores) -> str:
    first = next(iter(by_experiment.values()))
    counts = Counter(parse(i).experiment for i in next(iter(compared.values())))
    lines = []
    for name in first:
        published = PUBLISHED.get(name) if name in ALIKE or counts[name] == SETTINGS[name] else None
        cells = [f"{scores[name]:.3f}" for scores in by_experiment.values()]
        lines.append(
            [name, f"{counts[name]} of {SETTINGS[name]}", *cells, "–" if published is None else f"{published:.2f}"]
        )
        if name in DEEP_SEAS:
            lines.append([f"{name}, every episode", "", *(f"{scores[name]:.3f}" for scores in own.values()), "–"])
    return wording.table(["experiment", "settings", *by_experiment, "boot_dqn (published)"], lines) + (
        "\n\nPublished scores are averages over all settings. They are shown if settings differ only by their seed or all "
        "were run. *Every episode*: Deep Sea's rule checked at every episode. The first setting of the other experiments is "
        "mostly the easiest."
    )


def _more_words(rows: Sequence[RunRow], ordered: Sequence[str]) -> str:
    """Other β, QU and Q+UCB, if they have runs on the settings that are compared."""
    found = {
        name: _by_experiment({i: score for (i, seed), score in scores.items() if seed == 0 and i in ordered})
        for name, scores in _scores(rows, MORE).items()
    }
    found = {name: scores for name, scores in found.items() if scores}
    names = [name for name in ORDER if any(name in scores for scores in found.values())]
    words = "Other variants, seed 0, each averaged over the settings above that it has:\n\n"
    return words + _score_table("experiment", names, found) if found else ""


def _score_table(title: str, names: Sequence[str], columns: VariantScores) -> str:
    lines = [[n, *(f"{scores[n]:.3f}" if n in scores else "–" for scores in columns.values())] for n in names]
    return wording.table([title, *columns], lines)


def _differences(compared: VariantScores) -> dict[str, tuple[int, Interval]]:
    """By comparison: the number of settings or experiments, and the mean difference with its interval."""
    without, with_bonus, bandit = compared.values()
    cars = [i for i in without if i.startswith("mountain_car/")]
    experiments = [_by_experiment(scores) for scores in (without, with_bonus)]
    change = {name: experiments[1][name] - experiments[0][name] for name in _others(compared)}
    pairs = {
        BONUS_ON_CARS: [with_bonus[i] - without[i] for i in cars],
        BANDIT_ON_CARS: [bandit[i] - with_bonus[i] for i in cars],
        BONUS_ELSEWHERE: [change[name] for name in _judged(compared)],
        BONUS_ON_ALL: list(change.values()),
    }
    return {what: (len(scores), statistics.mean_interval(scores)) for what, scores in pairs.items() if len(scores) > 1}


def _others(compared: VariantScores) -> list[str]:
    """The experiments that are not Mountain Car."""
    names = dict.fromkeys(parse(i).experiment for i in next(iter(compared.values())))
    return [name for name in names if not name.startswith("mountain_car")]


def _judged(compared: VariantScores) -> list[str]:
    """The other experiments that are not identical in all variants; all of them if fewer than two are not."""
    by_experiment = [_by_experiment(scores) for scores in compared.values()]
    others = _others(compared)
    differ = [name for name in others if len({scores[name] for scores in by_experiment}) > 1]
    return differ if len(differ) > 1 else others


BONUS_ON_CARS = "Mountain Car, β = 1 less β = 0"
BANDIT_ON_CARS = "Mountain Car, bandit less β = 1"
BONUS_ELSEWHERE = "other experiments that are not identical, β = 1 less β = 0"
BONUS_ON_ALL = "all other experiments, β = 1 less β = 0"


def _difference_table(differences: dict[str, tuple[int, Interval]]) -> str:
    lines = [[what, str(count), wording.interval(scores, 3)] for what, (count, scores) in differences.items()]
    return wording.table(["score", "settings or experiments", "mean difference (95 %)"], lines)


def _verdict(compared: VariantScores) -> Verdict:
    cars, others = [i for i in compared["β = 1"] if i.startswith("mountain_car/")], _others(compared)
    if len(cars) < CARS or len(others) < ENOUGH:
        words = f"all three variants have {len(cars)} settings of Mountain Car and {len(others)} other experiments"
        return Verdict("not yet enough data", f"{words}; {CARS} and {ENOUGH} are required")
    differences = _differences(compared)
    hurt, repaired, elsewhere, on_all = (
        differences[what][1] for what in (BONUS_ON_CARS, BANDIT_ON_CARS, BONUS_ELSEWHERE, BONUS_ON_ALL)
    )
    hurts = True if hurt.estimate < -LOSS and hurt.high < 0 else False if hurt.low > -LOSS else None
    repairs = repaired.estimate >= -hurt.estimate / 2 and repaired.low > 0 if hurts else None
    keeps = True if elsewhere.low > -LOSS else False if elsewhere.high < -LOSS else None
    verbs = {True: "hurts", False: "does not hurt", None: "may hurt"}
    words = f"a bonus {verbs[hurts]} Mountain Car (change {wording.interval(hurt, 3)})"
    if hurts:
        words += f", the bandit {'repairs' if repairs else 'does not repair'} that ({wording.interval(repaired, 3)})"
    kept = {True: "keep their score", False: "lose score", None: "may lose score"}
    count = differences[BONUS_ELSEWHERE][0]
    words += f", and the {count} other experiments {'that are not identical ' * (count < len(others))}{kept[keeps]} "
    words += f"(change {wording.interval(elsewhere, 3)}"
    words += f"; over all {len(others)}: {wording.interval(on_all, 3)})" if count < len(others) else ")"
    statements = (
        [hurts, keeps] if hurts is False else [hurts, repairs, keeps]
    )  # without a loss there is nothing to repair
    return Verdict(judged(*statements), words)


def _title(shared: Sequence[str]) -> str:
    """How much of bsuite a figure shows."""
    counts = Counter(parse(i).experiment for i in shared)
    easy = any(count == 1 and name not in ALIKE for name, count in counts.items())
    return f"{len(shared)} of bsuite's 468 settings" + (
        ", mostly the first of each experiment, often its easiest" if easy else ""
    )


def _draw_bars(by_experiment: VariantScores, title: str) -> "drawing.Figure":
    drawn, axes = drawing.figure(10.5, 4.2)
    axes.set_title(title, fontsize=10)
    names = list(next(iter(by_experiment.values())))
    for i, (variant, scores) in enumerate(by_experiment.items()):
        at = [k + 0.27 * (i - 1) for k in range(len(names))]
        axes.bar(at, [scores[name] for name in names], 0.26, color=_COLOURS[i], label=variant)
    for k, name in enumerate(names):
        if not any(scores[name] for scores in by_experiment.values()):
            axes.annotate("0", (k, 0), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(names)), [name.replace("_", " ") for name in names], rotation=40, ha="right", fontsize=8)
    axes.set(ylabel="bsuite score (of the settings run)", ylim=(0, 1.05))
    drawn.legend(frameon=False, fontsize=9, loc="outside upper center", ncols=3)
    return drawn


def _draw_radar(by_tag: VariantScores, title: str) -> "drawing.Figure":
    drawn, axes = drawing.figure(6, 5.4, subplot_kw={"polar": True})
    drawn.suptitle(title, fontsize=10)
    tags = list(next(iter(by_tag.values())))
    angles = [2 * np.pi * i / len(tags) for i in range(len(tags))]
    for i, (variant, scores) in enumerate(by_tag.items()):
        values = [scores[tag] for tag in tags]
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
    rules=f"a bonus lowers Mountain Car's score by more than {LOSS}, the bandit brings back half of that, and the other "
    f"experiments lose less than {LOSS} (95 % intervals). Experiments that are identical in all variants do not count.",
    left_out="all settings but the first, the middle and the last of each experiment (Mountain Car is whole), MNIST, "
    "which needs its data, β other than 0 and 1, QU and Q+UCB, and the bandit's η other than 8.",
    cells=cells, measure=measure, report=report,
    check=imported,
)  # fmt: skip
