"""Figure 1: every method on Deep Sea, 21 sizes, deterministic and stochastic (claims C1, C2 and C3)."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdu import runs
from tdu.experiments.experiment import (
    EPISODES,
    Grid,
    Measured,
    Report,
    Verdict,
    cell,
    ended,
    every_word,
    interval_words,
    markdown,
    p_words,
)
from tdu.experiments.rows import Row, first_of_each
from tdu.reporting import drawing, statistics
from tdu.reporting.bsuite_scores import beats_dithering
from tdu.reporting.statistics import Interval
from tdu.sweeps import Cell

SIZES = tuple(range(10, 51, 2))
FEW_SIZES = (10, 20, 30, 40, 50)
FIGURE_1 = ("cts", "rnd", "su", "nns", "qex")
OTHERS = (*FIGURE_1, "dqn")
ENSEMBLES = ("tdu", "bdqn")
METHODS = (*((name, "paper") for name in (*ENSEMBLES, *OTHERS)), *((name, "boot_dqn") for name in ENSEMBLES))
HEADS = 20
SCORED_SEEDS = (0, 1)
PUBLISHED = {("bdqn", False): "1.00", ("bdqn", True): "0.90", ("dqn", False): "0.00", ("dqn", True): "0.00"}
"""Of bsuite's own agents, from the table that DreamerV3 was published with."""

NEAR_FULL, NEARLY, GOOD, FAILS, DROP = 0.95, 0.9, 0.75, 0.25, 0.1
"""Bounds of the verdicts."""


def sea(size: int, *, stochastic: bool) -> str:
    """The id of a sea."""
    return f"deep_sea:size={size}" + (",stochastic=true" if stochastic else "")


def size_of(env: str) -> int:
    """The size in an id."""
    return int(env.partition("size=")[2].partition(",")[0])


def is_stochastic(env: str) -> bool:
    """Whether an id is that of a stochastic sea."""
    return "stochastic=true" in env


def cells(preset: str) -> list[Cell]:
    """TDU and BDQN on every size, then the other methods, then both with bsuite's own boot_dqn settings."""
    thin = preset == "laptop"
    both = (False, True)
    wanted = [
        cell(sea(n, stochastic=s), agent, seed)
        for seed in range(2 if thin else 5)
        for s in both
        for n in SIZES
        for agent in ENSEMBLES
    ]
    wanted += [
        cell(sea(n, stochastic=s), agent, seed)
        for seed in range(1 if thin else 5)
        for n in (FEW_SIZES if thin else SIZES)
        for agent in OTHERS
        for s in both
    ]
    wanted += [
        cell(sea(n, stochastic=s), agent, seed, preset="boot_dqn")
        for seed in range(1 if thin else 5)
        for s in ((True,) if thin else both)
        for n in SIZES
        for agent in ENSEMBLES
    ]
    return wanted


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """Whether bsuite counts the run as solved, and how often the chest was reached."""
    chests = runs.read_log(folder / "log.csv")["denoised_return"]
    score = float(beats_dithering(result.solved_episode, size_of(result.env)))
    return Measured(score=score, successes=round(float(chests[-1])))


def group(
    rows: Sequence[Row],
    agent: str,
    *,
    stochastic: bool,
    preset: str = "paper",
    sizes: Sequence[int] = SIZES,
    limit: int = EPISODES,
) -> dict[int, list[Row]]:
    """One agent's runs without changes to its preset, by size, one row for each seed."""
    found: dict[int, list[Row]] = {}
    for row in first_of_each(rows).values():
        mine = (row.agent, row.preset, row.options, row.limit) == (agent, preset, "", limit)
        size = size_of(row.env) if row.env.startswith("deep_sea:size=") else 0
        if mine and size in sizes and row.env == sea(size, stochastic=stochastic):
            found.setdefault(size, []).append(row)
    return {size: sorted(found[size], key=lambda row: row.seed) for size in sorted(found)}


class Score(NamedTuple):
    """bsuite's score of one method: the share of sizes solved."""

    by_seed: dict[int, tuple[int, int]]
    """Solved and run sizes of each seed that has at least five."""
    all: Interval
    sizes: int

    @property
    def is_whole(self) -> bool:
        """Whether every size was run."""
        return self.sizes == len(SIZES)


def score(by_size: Mapping[int, Sequence[Row]], seeds: Sequence[int]) -> Score:
    """Over some seeds, so that every size weighs the same."""
    rows = [row for size, rows in by_size.items() if size in SIZES for row in rows if row.seed in seeds]
    by_seed = {}
    for seed in seeds:
        mine = [row for row in rows if row.seed == seed]
        if len(mine) >= len(FEW_SIZES):
            by_seed[seed] = (round(sum(row.score or 0.0 for row in mine)), len(mine))
    whole = [row for row in rows if row.seed in by_seed]
    return Score(
        by_seed,
        statistics.share(round(sum(row.score or 0.0 for row in whole)), len(whole)),
        len({row.env for row in whole}),
    )


def report(rows: Sequence[Row]) -> Report:
    """Scores of every method, episodes of TDU and BDQN, tests between them, ψ."""
    scores = {
        (agent, preset, s): score(group(rows, agent, stochastic=s, preset=preset), SCORED_SEEDS)
        for agent, preset in METHODS
        for s in (False, True)
    }
    body = [
        "## Scores",
        "bsuite 0.3.6's score: the share of sizes that were solved before dithering would have, of the sizes run. By "
        "seed, and over seeds with Wilson's 95 % interval. Published: bsuite's own boot_dqn and dqn, all 21 sizes.",
        _score_table(scores),
        "![Scores of every method](scores.svg)",
        "## Episodes to solve",
        "Every run of TDU and BDQN; a hollow triangle is a run that was not solved within 10,000 episodes. Reference "
        "lines are published elsewhere: DP-DQN injects optimistic transitions that know the sea (407 episodes at "
        "size 20; another page of its authors says 602 ± 104), RLSVI is tabular.",
        "![Episodes to solve](deep_sea.svg)",
        _comparisons(rows),
        _psi(rows),
        _episodes_table(rows, stochastic=False),
        _episodes_table(rows, stochastic=True),
    ]
    verdicts = {"C1": _c1(scores), "C2": _c2(rows, scores), "C3": _c3(scores)}
    figures = {"deep_sea": lambda: _draw_episodes(rows), "scores": lambda: _draw_scores(scores)}
    return Report(verdicts, "\n\n".join(body), figures)


Scores = Mapping[tuple[str, str, bool], Score]


def _score_table(scores: Scores) -> str:
    lines = []
    for agent, preset in METHODS:
        for stochastic in (False, True):
            mine = scores[agent, preset, stochastic]
            if mine.by_seed:
                cells = [agent if preset == "paper" else f"{agent}, {preset}", _variant(stochastic)]
                cells += [f"{solved / run:.2f} ({run})" for solved, run in mine.by_seed.values()]
                cells += ["–"] * (len(SCORED_SEEDS) - len(mine.by_seed))
                lines.append([*cells, interval_words(mine.all), PUBLISHED.get((agent, stochastic), "–")])
    header = ["method", "sea", *(f"seed {seed} (sizes run)" for seed in SCORED_SEEDS), "all (95 %)", "published"]
    return markdown(header, lines)


def _variant(stochastic: bool) -> str:
    return "stochastic" if stochastic else "deterministic"


def compared(rows: Sequence[Row], *, stochastic: bool, preset: str = "paper") -> list[tuple[list[Row], list[Row]]]:
    """TDU's and BDQN's runs, a pair for each size that both have."""
    first, second = (group(rows, agent, stochastic=stochastic, preset=preset) for agent in ENSEMBLES)
    return [(first[size], second[size]) for size in first if size in second]


def _comparisons(rows: Sequence[Row]) -> str:
    lines = []
    for preset in ("paper", "boot_dqn"):
        for stochastic in (False, True):
            pairs = compared(rows, stochastic=stochastic, preset=preset)
            if not pairs:
                continue
            test = statistics.stratified_logrank([(ended(a), ended(b)) for a, b in pairs])
            ratio = statistics.ratio_of_medians(
                [([e.episode for e in ended(a)], [e.episode for e in ended(b)]) for a, b in pairs]
            )
            runs_of = [sum(len(pair[i]) for pair in pairs) for i in (0, 1)]
            lines.append(
                [
                    preset,
                    _variant(stochastic),
                    str(len(pairs)),
                    f"{runs_of[0]}, {runs_of[1]}",
                    interval_words(ratio),
                    f"{test.z:+.2f}",
                    p_words(test.p),
                ]
            )
    words = (
        "TDU against BDQN, each size compared with itself: how many times BDQN's episodes TDU needs (geometric mean "
        "over sizes of the ratio of medians, unsolved runs taken as solved at their last episode, bootstrap interval "
        "over sizes and runs), and the log-rank test stratified by size (z above 0: TDU solves sooner; unsolved runs are "
        "censored)."
    )
    header = ["preset", "sea", "sizes", "runs (TDU, BDQN)", "ratio (95 %)", "z", "p"]
    return words + "\n\n" + markdown(header, lines)


def _psi(rows: Sequence[Row]) -> str:
    lines = []
    for stochastic in (False, True):
        for agent in ENSEMBLES:
            by_size = group(rows, agent, stochastic=stochastic)
            outcomes = [(n, sum(e.solved for e in ended(mine)), len(mine)) for n, mine in by_size.items()]
            if outcomes:
                found = statistics.fit_psi(outcomes, HEADS)
                lines.append([agent, _variant(stochastic), str(sum(o[2] for o in outcomes)), interval_words(found, 3)])
    words = (
        "ψ of the success probability 1 − (1 − ψ^N)^K, K = 20, by maximum likelihood within 10,000 episodes, with its "
        "likelihood-ratio interval (an estimate of 1 says that every run was solved). A study of 40,000 "
        "configurations has 0.80 for bootstrapped DQN without priors and 0.87 with."
    )
    return words + "\n\n" + markdown(["agent", "sea", "runs", "ψ (95 %)"], lines)


def _episodes_table(rows: Sequence[Row], *, stochastic: bool) -> str:
    columns = [(agent, preset) for preset in ("paper", "boot_dqn") for agent in ENSEMBLES]
    found = {c: group(rows, c[0], stochastic=stochastic, preset=c[1]) for c in columns}
    columns = [c for c in columns if found[c]]
    lines = []
    for size in SIZES:
        cells = [str(size)]
        for column in columns:
            mine = found[column].get(size, [])
            median = statistics.median_words([r.solved_episode for r in mine], EPISODES) if mine else "–"
            cells += [median, every_word(mine)]
        lines.append(cells)
    header = ["size"]
    for agent, preset in columns:
        name = agent if preset == "paper" else f"{agent}, {preset}"
        header += [f"{name}: median", "every seed"]
    return f"### {_variant(stochastic).capitalize()}, every run\n\n" + markdown(header, lines)


def _c1(scores: Scores) -> Verdict:
    mine = [scores[agent, "paper", False] for agent in ENSEMBLES]
    if not all(s.is_whole for s in mine):
        return Verdict("not yet enough data", _sizes_words(scores, False))
    reached = [s.all.estimate >= NEAR_FULL for s in mine]
    words = (
        f"TDU scores {mine[0].all.estimate:.2f} and BDQN {mine[1].all.estimate:.2f} on the deterministic seas at λ = 3"
    )
    words += f"{_seeds_words(mine)}, with λ = 1 not run"
    return Verdict("reproduced" if all(reached) else "partly reproduced" if any(reached) else "not reproduced", words)


def _c2(rows: Sequence[Row], scores: Scores) -> Verdict:
    tdu, bdqn = (scores[agent, "paper", True] for agent in ENSEMBLES)
    before = scores["bdqn", "paper", False]
    if not (tdu.is_whole and bdqn.is_whole and before.is_whole):
        return Verdict("not yet enough data", _sizes_words(scores, True))
    scored = [row for row in rows if row.seed in tdu.by_seed and row.seed in bdqn.by_seed]
    test = statistics.stratified_logrank([(ended(a), ended(b)) for a, b in compared(scored, stochastic=True)])
    drops = before.all.estimate - bdqn.all.estimate >= DROP
    recovers = tdu.all.estimate >= NEARLY
    sooner = test.z > 0 and test.p < 0.05
    checks = {
        f"BDQN loses much of its score ({before.all.estimate:.2f} deterministic, {bdqn.all.estimate:.2f} stochastic)": drops,
        f"TDU recovers nearly all of it ({tdu.all.estimate:.2f})": recovers,
        f"TDU solves sooner (stratified log-rank z = {test.z:+.2f}, {p_words(test.p)})": sooner,
    }
    words = _checked(checks) + _seeds_words([tdu, bdqn])
    if drops and recovers and sooner:
        return Verdict("reproduced", words)
    return Verdict("partly reproduced" if sooner or (drops and recovers) else "not reproduced", words)


def _checked(checks: Mapping[str, bool]) -> str:
    """Which statements hold and which do not."""
    held = [words for words, holds in checks.items() if holds]
    failed = [words for words, holds in checks.items() if not holds]
    return f"holds: {', '.join(held) or 'nothing'}; does not: {', '.join(failed) or 'nothing'}"


def _seeds_words(scores: Sequence[Score]) -> str:
    """How many sizes of each seed the scores rest on, where that is not all of them."""
    runs = {seed: min(s.by_seed.get(seed, (0, 0))[1] for s in scores) for seed in SCORED_SEEDS}
    if all(count == len(SIZES) for count in runs.values()):
        return ""
    scored = (f"{count} of {len(SIZES)} sizes of seed {seed}" for seed, count in runs.items() if count)
    return f"; scored so far: {', '.join(scored)}"


def _c3(scores: Scores) -> Verdict:
    needed = [(agent, s) for agent in (*ENSEMBLES, *FIGURE_1) for s in (False, True)]
    lacking = [f"{a} {_variant(s)}" for a, s in needed if scores[a, "paper", s].sizes < len(FEW_SIZES)]
    if lacking:
        return Verdict("not yet enough data", f"fewer than five sizes were run of {', '.join(lacking)}")
    value = {(a, s): scores[a, "paper", s].all.estimate for a, s in needed}
    both = [a for a in (*ENSEMBLES, *FIGURE_1) if min(value[a, False], value[a, True]) >= NEARLY]
    checks = {
        "NNS does not work": max(value["nns", False], value["nns", True]) <= FAILS,
        "QEX does not work": max(value["qex", False], value["qex", True]) <= FAILS,
        "SU is good on deterministic seas": value["su", False] >= GOOD,
        "SU collapses on stochastic seas": value["su", False] >= GOOD and value["su", True] <= value["su", False] / 2,
        "TDU alone is near-optimal on both": both == ["tdu"],
    }
    numbers = ", ".join(f"{a} {value[a, False]:.2f} / {value[a, True]:.2f}" for a in (*ENSEMBLES, *FIGURE_1))
    words = f"{_checked(checks)} ({numbers})"
    held = list(checks.values())
    return Verdict("reproduced" if all(held) else "partly reproduced" if any(held) else "not reproduced", words)


def _sizes_words(scores: Scores, stochastic: bool) -> str:
    counts = ", ".join(f"{agent} {scores[agent, 'paper', stochastic].sizes}" for agent in ENSEMBLES)
    return f"of the 21 {_variant(stochastic)} sizes there are: {counts}"


def _draw_episodes(rows: Sequence[Row]) -> Any:
    drawn, axes = drawing.figure(11, 4.6, columns=2, sharey=True)
    references = published()
    for one, stochastic in zip(axes, (False, True), strict=True):
        for shift, agent in zip((-0.35, 0.35), ENSEMBLES, strict=True):
            by_size = group(rows, agent, stochastic=stochastic)
            for i, (size, mine) in enumerate(by_size.items()):
                label = agent.upper() if i == 0 else None
                drawing.runs(one, size + shift, ended(mine), colour=drawing.COLOURS[agent], label=label)
            medians = [float(np.median([e.episode for e in ended(mine)])) for mine in by_size.values()]
            one.plot([n + shift for n in by_size], medians, color=drawing.COLOURS[agent], linewidth=1.3, alpha=0.8)
        if not stochastic:
            for colour, (method, points) in zip(drawing.GREYS, references.items(), strict=False):
                one.plot(*zip(*points, strict=True), "--", color=colour, linewidth=1, label=f"{method} (published)")
        one.axhline(EPISODES, color="0.7", linewidth=0.8)
        one.set(xlabel="size N", yscale="log", title=f"{_variant(stochastic).capitalize()} Deep Sea", ylim=(3, 16_000))
        one.set_xticks(FEW_SIZES)
        one.set_xlim(8.5, 51.5)
        one.legend(frameon=False, fontsize=8, loc="lower right")
    axes[0].set_ylabel("episodes to solve")
    return drawn


def _draw_scores(scores: Scores) -> Any:
    drawn, axes = drawing.figure(9, 3.8)
    for shift, stochastic, colour in ((-0.2, False, "#4a7ab5"), (0.2, True, "#c77c3a")):
        axes.bar([0], [0], color=colour, alpha=0.85, label=_variant(stochastic))
        for i, method in enumerate(METHODS):
            mine = scores[*method, stochastic]
            if not mine.by_seed:
                continue
            x, (y, low, high) = i + shift, mine.all
            axes.bar(x, y, 0.38, color=colour, alpha=0.85 if mine.is_whole else 0.4)
            axes.errorbar(x, y, [[y - low], [high - y]], color="0.25", capsize=2, linewidth=1)
            axes.annotate(str(mine.sizes), (x, 0), (0, 2), textcoords="offset points", ha="center", fontsize=7)
    names = [agent if preset == "paper" else f"{agent}\n{preset}" for agent, preset in METHODS]
    axes.set_xticks(range(len(METHODS)), names)
    axes.set(ylabel="bsuite score", xlim=(-0.6, len(METHODS) - 0.4), ylim=(0, 1.05))
    drawn.suptitle("Share of sizes solved (pale: not all 21 sizes were run; their number is below)", fontsize=11)
    drawn.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    return drawn


def published() -> dict[str, list[tuple[int, int]]]:
    """Episodes to solve that others have published, by method, as (size, episodes)."""
    found: dict[str, list[tuple[int, int]]] = {}
    with open(Path(statistics.__file__).parent / "published_deep_sea.csv", newline="") as f:
        for row in csv.DictReader(f):
            if "budget" not in row["note"]:
                found.setdefault(row["method"], []).append((int(row["size"]), int(row["episodes_to_solve"])))
    return found


DEEP_SEA = Grid(
    summary="figure 1: every method on Deep Sea, 21 sizes, deterministic and stochastic",
    claims={
        "C1": "TDU and BDQN solve all 21 deterministic sizes at λ = 3. (TDU also at λ = 1, the paper says: not judged here.)",
        "C2": "on stochastic seas BDQN loses much of its score, and TDU recovers nearly all of it.",
        "C3": "of all methods only TDU is near-optimal on both; NNS and QEX do not work, SU is good on deterministic "
        "seas and collapses on stochastic ones.",
    },
    rules=f"Seeds 0 and 1 are scored, each once it has five sizes. C1 asks for all 21 sizes; reproduced if both score at "
    f"least {NEAR_FULL}, partly if one does. C2 asks for all stochastic sizes: BDQN drops by at least {DROP}, TDU scores at "
    f"least {NEARLY}, and the log-rank test stratified by size, on the runs that are scored, says that TDU solves sooner "
    "(p < 0.05); partly if the test alone holds, or the two scores. C3 is five statements, each with a bound: a method "
    f"fails at or below {FAILS} on both seas, is good from {GOOD}, collapses from there to half, is near-optimal from "
    f"{NEARLY}; partly if some hold; at least five sizes of each method.",
    cells=cells,
    left_out="the other methods at 16 of 21 sizes, boot_dqn's settings on deterministic seas, and all seeds but 0 "
    "and 1 (of the other methods and of boot_dqn's settings all but 0).",
    measure=measure,
    report=report,
)
