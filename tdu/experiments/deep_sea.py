"""Figure 1: every method on Deep Sea, 21 sizes, deterministic and stochastic (claims C1, C2 and C3)."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdu import runs
from tdu.experiments.experiment import (
    EPISODES,
    Grid,
    Measured,
    Report,
    Verdict,
    at_least,
    cell,
    checked,
    ended,
    every_word,
    interval_words,
    judged,
    markdown,
    middle,
    p_words,
    sooner,
)
from tdu.experiments.rows import Row, first_of_each
from tdu.experiments.seas import (
    ABOUT_LUCK,
    EARLY,
    LUCK,
    UNKNOWN,
    is_stochastic,
    luck,
    luck_words,
    sea,
    size_of,
    without_luck,
)
from tdu.reporting import drawing, statistics
from tdu.reporting.bsuite_scores import beats_dithering
from tdu.reporting.statistics import Episodes, Interval
from tdu.sweeps import Cell

SIZES = tuple(range(10, 51, 2))
FEW_SIZES = (10, 20, 30, 40, 50)
FIGURE_1 = ("cts", "rnd", "su", "nns", "qex")
OTHERS = (*FIGURE_1, "dqn")
ENSEMBLES = ("tdu", "bdqn")
METHODS = (*((name, "paper") for name in (*ENSEMBLES, *OTHERS)), *((name, "boot_dqn") for name in ENSEMBLES))
HEADS = 20
PUBLISHED = {("bdqn", False): "1.00", ("bdqn", True): "0.90", ("dqn", False): "0.00", ("dqn", True): "0.00"}
"""Of bsuite's own agents, from the table that DreamerV3 was published with."""

NEARLY, GOOD, FAILS, DROP = 0.9, 0.75, 0.25, 0.1
"""Bounds of the verdicts."""


def cells(preset: str) -> list[Cell]:
    """TDU and BDQN on every size, TDU at λ = 1, then the other methods, then both with bsuite's own boot_dqn settings."""
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
        cell(sea(n, stochastic=False), "tdu", seed, prior_scale=1.0) for seed in range(2 if thin else 5) for n in SIZES
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
    options: str = "",
    sizes: Sequence[int] = SIZES,
    limit: int = EPISODES,
) -> dict[int, list[Row]]:
    """One agent's runs with these changes to its preset, by size, one row for each seed."""
    found: dict[int, list[Row]] = {}
    size_of_sea = {sea(size, stochastic=stochastic): size for size in sizes}
    for row in first_of_each(rows).values():
        mine = (row.agent, row.preset, row.options, row.limit) == (agent, preset, options, limit)
        if mine and row.env in size_of_sea:
            found.setdefault(size_of_sea[row.env], []).append(row)
    return {size: sorted(found[size], key=lambda row: row.seed) for size in sorted(found)}


class Score(NamedTuple):
    """bsuite's score of one method: the share of sizes solved."""

    by_seed: dict[int, int]
    """Solved sizes of each seed that has all of `sizes`."""
    all: Interval
    sizes: Sequence[int]
    solved: Sequence[Row]
    """The runs that count."""

    @property
    def is_whole(self) -> bool:
        """Whether a seed has every size."""
        return bool(self.by_seed) and len(self.sizes) == len(SIZES)

    def marked(self, mark: str) -> list[Row]:
        """Those of its solved runs that bear a mark."""
        return [row for row in self.solved if luck(row) == mark]


def score(by_size: Mapping[int, Sequence[Row]], sizes: Sequence[int]) -> Score:
    """Over the seeds that have all of some sizes, so that every size weighs the same."""
    found = {(size, row.seed): row for size in sizes for row in by_size.get(size, ())}
    seeds = sorted({seed for _, seed in found if all((size, seed) in found for size in sizes)})
    solved = {
        seed: [row for size in sizes if beats_dithering((row := found[size, seed]).solved_episode, size)]
        for seed in seeds
    }
    by_seed = {seed: len(mine) for seed, mine in solved.items()}
    every = statistics.share(sum(by_seed.values()), len(seeds) * len(sizes))
    return Score(by_seed, every, sizes, [row for mine in solved.values() for row in mine])


def best_score(by_size: Mapping[int, Sequence[Row]]) -> Score:
    """Over all sizes where a seed has them, otherwise over the five that every method is run on."""
    whole = score(by_size, SIZES)
    return whole if whole.by_seed else score(by_size, FEW_SIZES)


def report(rows: Sequence[Row]) -> Report:
    """Scores of every method, episodes of TDU and BDQN, tests between them, ψ."""
    found = _by_method(rows)
    shown = [row for by_size in (*found.values(), at_one(rows)) for mine in by_size.values() for row in mine]
    stochastic = [row for row in shown if is_stochastic(row.env)]
    scores = _scores(rows)
    body = [
        "## Scores",
        "bsuite 0.3.6's score: the share of sizes that were solved before dithering would have. Seeds that have all of the "
        "sizes said, and over those seeds with Wilson's 95 % interval (rather wide: sizes are no coin flips); other runs are "
        "in the tables below. Published: bsuite's own boot_dqn and dqn, all 21 sizes. By luck: of the runs that count as "
        "solved, those with fewer than ten chests, and those of stochastic seas whose chests were not written down. Without "
        f"luck: with the former taken as unsolved, and those of the latter that were solved before episode {EARLY}; they "
        "stopped there and might have been solved later, so that this is a lower bound.",
        _score_table(scores, _scores(without_luck(rows, early_unknown=True))),
        "![Scores of every method](scores.svg)",
        "## Episodes to solve",
        "Every run of TDU and BDQN; a hollow triangle is a run that was not solved within 10,000 episodes. Reference "
        "lines are published elsewhere: DP-DQN injects optimistic transitions that know the sea (407 episodes at "
        "size 20; another page of its authors says 602 ± 104), RLSVI is tabular.",
        "![Episodes to solve](deep_sea.svg)",
        _comparisons(rows),
        luck_words(stochastic, rows, lambda rows: {"C2": _c2(rows, mine := _scores(rows)), "C3": _c3(mine)}),
        _psi(rows),
        _episodes_table(rows, stochastic=False),
        _episodes_table(rows, stochastic=True),
        _others_table(found),
    ]
    verdicts = {"C1": _c1(scores, score(at_one(rows), SIZES)), "C2": _c2(rows, scores), "C3": _c3(scores)}
    figures = {"deep_sea": lambda: _draw_episodes(rows), "scores": lambda: _draw_scores(scores)}
    return Report(verdicts, "\n\n".join(body), figures, shown)


Scores = Mapping[tuple[str, str, bool], Score]
"""By agent, preset and whether the seas are stochastic."""


def _by_method(rows: Sequence[Row]) -> dict[tuple[str, str, bool], dict[int, list[Row]]]:
    return {(a, preset, s): group(rows, a, stochastic=s, preset=preset) for a, preset in METHODS for s in (False, True)}


def _scores(rows: Sequence[Row]) -> Scores:
    return {method: best_score(by_size) for method, by_size in _by_method(rows).items()}


def at_one(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """TDU's runs at λ = 1, deterministic, by size."""
    return group(rows, "tdu", stochastic=False, options="prior_scale=1.0")


def _score_table(scores: Scores, sober: Scores) -> str:
    lines = []
    for agent, preset in METHODS:
        for stochastic in (False, True):
            mine = scores[agent, preset, stochastic]
            if mine.by_seed:
                seeds = ", ".join(
                    f"{solved / len(mine.sizes):.2f} (seed {seed})" for seed, solved in mine.by_seed.items()
                )
                name = agent if preset == "paper" else f"{agent}, {preset}"
                sizes = "all 21" if mine.is_whole else ", ".join(map(str, mine.sizes))
                without = f"{sober[agent, preset, stochastic].all.estimate:.2f}" if stochastic and mine.solved else "–"
                cells = [
                    name,
                    _variant(stochastic),
                    sizes,
                    seeds,
                    interval_words(mine.all),
                    _lucky_words(mine),
                    without,
                ]
                lines.append([*cells, PUBLISHED.get((agent, stochastic), "–")])
    header = ["method", "sea", "sizes", "by seed", "all (95 %)", "by luck", "without luck", "published"]
    return markdown(header, lines)


def _lucky_words(mine: Score) -> str:
    told = [f"{len(mine.marked(LUCK))}"] + [f"{n} unknown" for n in [len(mine.marked(UNKNOWN))] if n]
    return ", ".join(told) if mine.solved else "–"


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
            both = [best_score(group(rows, a, stochastic=stochastic, preset=preset)).by_seed for a in ENSEMBLES]
            scored = [seed for seed in both[0] if seed in both[1]]
            chosen = {"all": rows} | {f"{seed} alone": [r for r in rows if r.seed == seed] for seed in scored}
            if len(scored) > 1:
                chosen[", ".join(map(str, scored)) + " (scored)"] = [r for r in rows if r.seed in scored]
            for which, mine in chosen.items():
                pairs = compared(mine, stochastic=stochastic, preset=preset)
                if pairs:
                    lines.append([preset, _variant(stochastic), which, *_comparison(pairs)])
    words = (
        "TDU against BDQN, each size compared with itself: how many times BDQN's episodes TDU needs (geometric mean "
        "over sizes of the ratio of medians, unsolved runs taken as solved at their last episode, which draws it to 1; sizes "
        "that neither solved are left out; Student's interval over sizes), and the log-rank test stratified by size (z above "
        "0: TDU solves sooner; unsolved runs are censored; z and p by permutation within sizes)."
    )
    header = ["preset", "sea", "seeds", "sizes", "runs (TDU, BDQN)", "ratio (95 %)", "z", "p"]
    return words + "\n\n" + markdown(header, lines)


def _comparison(pairs: Sequence[tuple[Sequence[Row], Sequence[Row]]]) -> list[str]:
    """Cells of a line: sizes, runs, ratio, z and p."""
    times = [(ended(a), ended(b)) for a, b in pairs]
    test = statistics.stratified_logrank(times)
    told = [(a, b) for a, b in times if any(e.solved for e in (*a, *b))]
    ratio = (
        statistics.ratio_of_medians([([e.episode for e in a], [e.episode for e in b]) for a, b in told])
        if told
        else None
    )
    runs_of = [sum(len(pair[i]) for pair in pairs) for i in (0, 1)]
    return [
        str(len(pairs)),
        f"{runs_of[0]}, {runs_of[1]}",
        interval_words(ratio) if ratio else "–",
        f"{test.z:+.2f}",
        p_words(test.p),
    ]


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
        "likelihood-ratio interval (an estimate of 1 says that every run was solved). Published are 0.80 for bootstrapped "
        "DQN without priors and 0.87 with, reliable up to N ≈ 20 and 30 (R. Knyazhitskiy, A Unified Scaling Law for "
        "Bootstrapped DQNs, TU Delft 2025, over 40,000 configurations)."
    )
    return words + "\n\n" + markdown(["agent", "sea", "runs", "ψ (95 %)"], lines)


def _episodes_table(rows: Sequence[Row], *, stochastic: bool) -> str:
    found = {
        agent if preset == "paper" else f"{agent}, {preset}": group(rows, agent, stochastic=stochastic, preset=preset)
        for preset in ("paper", "boot_dqn")
        for agent in ENSEMBLES
    }
    if not stochastic:
        found["tdu, λ = 1"] = at_one(rows)
    found = {name: by_size for name, by_size in found.items() if by_size}
    lines = []
    for size in SIZES:
        cells = [str(size)]
        for by_size in found.values():
            mine = by_size.get(size, [])
            median = statistics.median_words([r.solved_episode for r in mine], EPISODES) if mine else "–"
            cells += [median, every_word(mine, mark=luck)]
        lines.append(cells)
    header = ["size", *(words for name in found for words in (f"{name}: median", "every seed"))]
    title = f"### {_variant(stochastic).capitalize()}, every run\n\n"
    return title + (f"{ABOUT_LUCK}\n\n" if stochastic else "") + markdown(header, lines)


def _others_table(found: Mapping[tuple[str, str, bool], Mapping[int, Sequence[Row]]]) -> str:
    """Every run of the methods beside TDU and BDQN, with their chests."""
    lines = []
    for agent in OTHERS:
        for stochastic in (False, True):
            by_size = found[agent, "paper", stochastic]
            if by_size:
                cells = [_with_chests(by_size.get(n, ())) for n in FEW_SIZES]
                lines.append([agent, _variant(stochastic), *cells])
    words = "Episodes to solve, every seed, and in brackets how often the chest was reached."
    header = ["method", "sea", *(f"size {n}" for n in FEW_SIZES)]
    return f"### The other methods, every run\n\n{words}\n\n{markdown(header, lines)}"


def _with_chests(rows: Sequence[Row]) -> str:
    return every_word(rows, mark=lambda row: luck(row) + ("" if row.successes is None else f" ({row.successes})"))


def _c1(scores: Scores, one: Score) -> Verdict:
    mine = [scores[agent, "paper", False] for agent in ENSEMBLES]
    if not all(s.is_whole for s in mine):
        return Verdict("not yet enough data", _lacking(scores, False))
    tdu, bdqn = map(_solved_words, mine)
    words = f"of the deterministic seas at λ = 3 TDU solves {tdu}, and BDQN {bdqn}; at λ = 1 TDU "
    if not one.is_whole:
        return Verdict("not yet enough data", words + "has no seed with all 21 yet")
    return Verdict(judged(*(s.all.estimate == 1 for s in (*mine, one))), words + f"solves {_solved_words(one)}")


def _c2(rows: Sequence[Row], scores: Scores) -> Verdict:
    tdu, bdqn = (scores[agent, "paper", True] for agent in ENSEMBLES)
    before = scores["bdqn", "paper", False]
    seeds = [seed for seed in tdu.by_seed if seed in bdqn.by_seed]
    if not (tdu.is_whole and bdqn.is_whole and before.is_whole and seeds):
        return Verdict("not yet enough data", _lacking(scores, True))
    scored = [row for row in rows if row.seed in seeds]
    test = statistics.stratified_logrank([(ended(a), ended(b)) for a, b in compared(scored, stochastic=True)])
    drops = _dropped(bdqn.all, before.all.estimate - DROP)
    recovers = at_least(tdu.all, NEARLY)
    unsolved = [len(mine.by_seed) * len(SIZES) - len(mine.solved) for mine in (tdu, bdqn)]
    at_all = statistics.stratified_logrank([(_at_all(a), _at_all(b)) for a, b in compared(scored, stochastic=True)])
    scores_words = f"{before.all.estimate:.2f} deterministic, {interval_words(bdqn.all)} stochastic"
    checks = {
        f"BDQN loses much of its score ({scores_words})": drops,
        f"TDU recovers nearly all of it ({interval_words(tdu.all)})": recovers,
        f"TDU solves sooner (stratified log-rank z = {test.z:+.2f}, {p_words(test.p)})": sooner(test),
    }
    words = (
        f"{checked(checks)} ({_seeds_words(seeds)}; unsolved are {unsolved[0]} of TDU's runs and {unsolved[1]} of BDQN's, "
        f"{p_words(at_all.p)})"
    )
    if all(checks.values()):
        return Verdict("reproduced", words)
    if sooner(test) or (drops and recovers):
        return Verdict("partly reproduced", words)
    return Verdict("not reproduced" if False in checks.values() else "inconclusive", words)


def _dropped(found: Interval, bound: float) -> bool | None:
    """Whether all of an interval is below a bound."""
    reached = at_least(found, bound)
    return None if reached is None else not reached


def _at_all(rows: Sequence[Row]) -> list[Episodes]:
    """Whether runs were solved, whenever that was."""
    return [Episodes(int(row.solved_episode is None), row.solved_episode is not None) for row in rows]


def _solved_words(mine: Score) -> str:
    seeds = (
        f" on each of {len(mine.by_seed)} seeds" if len(mine.by_seed) > 1 else f" on seed {next(iter(mine.by_seed))}"
    )
    every = len(mine.by_seed) * len(mine.sizes)
    return f"all {len(mine.sizes)}{seeds}" if mine.all.estimate == 1 else f"{sum(mine.by_seed.values())} of {every}"


def _seeds_words(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _c3(scores: Scores) -> Verdict:
    methods = (*ENSEMBLES, *FIGURE_1)
    lacking = [f"{a} {_variant(s)}" for a in methods for s in (False, True) if not scores[a, "paper", s].by_seed]
    if lacking:
        return Verdict("not yet enough data", f"the sizes {_few()} are not all there of {', '.join(lacking)}")
    value = {(a, s): scores[a, "paper", s].all for a in methods for s in (False, True)}
    near = {a: _both(at_least(value[a, False], NEARLY), at_least(value[a, True], NEARLY)) for a in methods}
    others = [near[a] for a in methods if a != "tdu"]
    alone = _both(near["tdu"], False if any(others) else None if None in others else True)
    good = at_least(value["su", False], GOOD)
    collapses = _both(good, _dropped(value["su", True], value["su", False].estimate / 2))
    checks = {"TDU alone is near-optimal on both": alone, "SU is good on deterministic seas": good}
    if good is not False:  # from nothing, nothing collapses
        checks["SU collapses on stochastic seas"] = collapses
    for name in ("nns", "qex"):
        both = [scores[name, "paper", s] for s in (False, True)]
        count = sum(len(mine.by_seed) * len(mine.sizes) for mine in both)
        solved = statistics.share(sum(len(mine.solved) for mine in both), count)
        fails = _dropped(solved, FAILS)
        checks[f"{name.upper()} does not work ({interval_words(solved)} of {count})"] = fails
    numbers = ", ".join(f"{a} {value[a, False].estimate:.2f} / {value[a, True].estimate:.2f}" for a in methods)
    words = f"{checked(checks)} ({numbers})"
    if all(checks.values()):
        return Verdict("reproduced", words)
    if alone or collapses:
        return Verdict("partly reproduced", words)
    return Verdict("not reproduced" if False in (alone, good, collapses) else "inconclusive", words)


def _both(*statements: bool | None) -> bool | None:
    """Whether all hold; None where none is false and one is open."""
    return False if False in statements else None if None in statements else True


def _few() -> str:
    return ", ".join(map(str, FEW_SIZES))


def _lacking(scores: Scores, stochastic: bool) -> str:
    whole = [agent for agent in ENSEMBLES if scores[agent, "paper", stochastic].is_whole]
    return f"a seed with all 21 {_variant(stochastic)} sizes is there of {' and '.join(whole) or 'neither agent'}"


def _draw_episodes(rows: Sequence[Row]) -> Any:
    drawn, axes = drawing.figure(11, 4.6, columns=2, sharey=True)
    references = published()
    for one, stochastic in zip(axes, (False, True), strict=True):
        for shift, above, agent in zip((-0.35, 0.35), (5, 12), ENSEMBLES, strict=True):
            by_size = group(rows, agent, stochastic=stochastic)
            for i, (size, mine) in enumerate(by_size.items()):
                label = agent.upper() if i == 0 else None
                colour = drawing.COLOURS[agent]
                drawing.runs(one, size + shift, ended(mine), colour=colour, label=label, above=above)
            medians = [middle(mine) for mine in by_size.values()]
            one.plot([n + shift for n in by_size], medians, color=drawing.COLOURS[agent], linewidth=1.3, alpha=0.8)
        if not stochastic:
            for colour, (method, points) in zip(drawing.GREYS, references.items(), strict=False):
                one.plot(*zip(*points, strict=True), "--", color=colour, linewidth=1, label=f"{method} (published)")
        one.axhline(EPISODES, color="0.7", linewidth=0.8)
        if stochastic:
            one.plot([], [], "^", color="0.4", markerfacecolor="none", label="not solved (× runs)")
            one.plot([], [], color="0.4", linewidth=1.3, label="median (at the top: unsolved)")
        one.set(xlabel="size N", yscale="log", title=f"{_variant(stochastic).capitalize()} Deep Sea", ylim=(3, 20_000))
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
            mine, x = scores[*method, stochastic], i + shift
            below = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "color": colour}
            if not mine.by_seed:
                axes.annotate("not\nrun", (x, 0), (0, 3), **below)
                continue
            y, low, high = mine.all
            axes.bar(x, y, 0.38, color=colour, alpha=0.85 if mine.is_whole else 0.4)
            axes.errorbar(x, y, [[y - low], [high - y]], color="0.25", capsize=2, linewidth=1)
            axes.annotate(str(len(mine.by_seed) * len(mine.sizes)), (x, high), (0, 3), **below)
    names = [agent if preset == "paper" else f"{agent}\n{preset}" for agent, preset in METHODS]
    axes.set_xticks(range(len(METHODS)), names)
    axes.set(ylabel="bsuite score", xlim=(-0.6, len(METHODS) - 0.4), ylim=(0, 1.09))
    drawn.suptitle("Share of sizes solved, with the number of runs (pale: five sizes, not 21)", fontsize=11)
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
        "C1": "TDU and BDQN solve all 21 deterministic sizes at λ = 3, TDU also at λ = 1.",
        "C2": "on stochastic seas BDQN loses much of its score, and TDU recovers nearly all of it.",
        "C3": "of all methods only TDU is near-optimal on both; NNS and QEX do not work, SU is good on deterministic "
        "seas and collapses on stochastic ones.",
    },
    rules="a seed is scored once it has every size. A score reaches a bound, or misses it, if all of its 95 % interval does; "
    "otherwise that is open.\n\n"
    "- C1 asks for all 21 sizes and is three statements: BDQN at λ = 3, TDU at λ = 3, and TDU at λ = 1 solve every one on "
    "every such seed. (The last was added on 18 November 2026, before any run of it.) Partly if some hold.\n"
    f"- C2 asks for all stochastic sizes and is three statements: BDQN drops by at least {DROP}; TDU scores at least "
    f"{NEARLY}; and, our own, the log-rank test stratified by size, on seeds that both have whole, says that TDU solves "
    "sooner (p < 0.05, by permutation within sizes). Partly if the test alone holds, or the two scores.\n"
    f"- C3 asks for the sizes {_few()} of every method, and takes all 21 where they are there. A method is near-optimal from "
    f"{NEARLY} on both seas; SU is good from {GOOD} on the deterministic ones and collapses from there to half (where it "
    f"is not good, that is left out); NNS and QEX do not work below {FAILS} of all their runs. Partly if TDU alone is "
    "near-optimal, or SU is good and collapses: that NNS and QEX fail is not enough.\n"
    "- These rules were made stricter twice on 17 November 2026, after reviews, with the rows of then at hand. Before, a "
    "seed was scored from five sizes on, C1 held from 0.95, estimates decided and not intervals, and C3 held partly with any "
    "one statement. No verdict changed with the intervals; that NNS and QEX do not work became open.",
    cells=cells,
    left_out="the other methods at 16 of 21 sizes, boot_dqn's settings on deterministic seas, and all seeds but 0 "
    "and 1 (of the other methods and of boot_dqn's settings all but 0).",
    measure=measure,
    report=report,
)
