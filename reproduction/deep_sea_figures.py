"""The figures of Deep Sea: episodes to solve, and every method's score."""

from collections.abc import Mapping, Sequence

from reproduction import analysis, drawing
from reproduction.deep_sea_runs import ENSEMBLES, FEW_SIZES, DeepSeaScore, group, published, variant
from reproduction.experiment import EPISODES
from reproduction.rows import RunRow


def draw_episodes(rows: Sequence[RunRow], panels: Sequence[tuple[bool, str]]) -> "drawing.Figure":
    """Every run of TDU and BDQN by size; a panel is (stochastic, preset)."""
    drawn, axes = drawing.figure(11, 4.6, columns=len(panels), sharey=True)
    references = published()
    lowest = 30 if all(stochastic for stochastic, _ in panels) else 3
    for one, (stochastic, preset) in zip(axes, panels, strict=True):
        for shift, above, agent in zip((-0.35, 0.35), (5, 12), ENSEMBLES, strict=True):
            by_size = group(rows, agent, stochastic=stochastic, preset=preset)
            for i, (size, runs) in enumerate(by_size.items()):
                label = agent.upper() if i == 0 else None
                colour = drawing.COLOURS[agent]
                drawing.runs(one, size + shift, analysis.solve_times(runs), colour=colour, label=label, above=above)
            medians = [analysis.middle(runs) for runs in by_size.values()]
            one.plot([n + shift for n in by_size], medians, color=drawing.COLOURS[agent], linewidth=1.3, alpha=0.8)
        if not stochastic:
            for colour, (method, points) in zip(drawing.GREYS, references.items(), strict=False):
                one.plot(*zip(*points, strict=True), "--", color=colour, linewidth=1, label=f"{method} (published)")
        one.axhline(EPISODES, color="0.7", linewidth=0.8)
        if not any(group(rows, agent, stochastic=stochastic, preset=preset) for agent in ENSEMBLES):
            one.annotate("no runs yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color="0.4")
        if stochastic:
            one.plot([], [], "^", color="0.4", markerfacecolor="none", label="not solved (× runs)")
            one.plot([], [], color="0.4", linewidth=1.3, label="median (at the top: unsolved)")
        title = f"{variant(stochastic).capitalize()} Deep Sea, {preset}"
        one.set(xlabel="size N", yscale="log", title=title, ylim=(lowest, 20_000))
        one.set_xticks(FEW_SIZES)
        one.set_xlim(8.5, 51.5)
        one.legend(frameon=False, fontsize=8, loc="lower right")
    axes[0].set_ylabel("episodes to solve")
    return drawn


def draw_scores(scores: Mapping[str, tuple[DeepSeaScore, DeepSeaScore]]) -> "drawing.Figure":
    """Official scores with their intervals by method, each deterministic and stochastic."""
    drawn, axes = drawing.figure(9, 3.8)
    for shift, stochastic, colour in ((-0.2, False, "#4a7ab5"), (0.2, True, "#c77c3a")):
        axes.bar([0], [0], color=colour, alpha=0.85, label=variant(stochastic))
        for i, both in enumerate(scores.values()):
            score, x = both[stochastic], i + shift
            style = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "color": colour}
            if not score.by_seed:
                axes.annotate("not\nrun", (x, 0), (0, 3), **style)
                continue
            y, low, high = score.official
            axes.bar(x, y, 0.38, color=colour, alpha=0.85 if score.is_whole else 0.4)
            axes.errorbar(x, y, [[y - low], [high - y]], color="0.25", capsize=2, linewidth=1)
            axes.annotate(str(len(score.rows)), (x, high), (0, 3), **style)
    axes.set_xticks(range(len(scores)), scores)
    axes.set(ylabel="bsuite score", xlim=(-0.6, len(scores) - 0.4), ylim=(0, 1.09))
    drawn.suptitle("Share of runs solved, with the number of runs (pale: five sizes, not 21)", fontsize=11)
    drawn.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    return drawn
