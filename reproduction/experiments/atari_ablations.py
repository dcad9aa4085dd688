"""Appendix E: number of explorers N × prior scale λ, and β with the explorers' own policy, on eight Atari games.

The paper fixes β = 1 for N × λ, and N = 5, λ = 0 for β. A run has 5 billion frames; there are 3 seeds. A row has one
score, so the explorers' policy is a separate run: the same training, evaluated on the explorers' mean value. Every
point of the curves of β is a separate run too: the same training, stopped earlier.
"""

from collections.abc import Sequence
from typing import Any

from reproduction import analysis, drawing, wording
from reproduction.atari_runs import FEWEST, GamePlan, body, compare, mean, measure, pick, too_few
from reproduction.experiment import Findings, Grid, Verdict
from reproduction.rows import RunRow
from tdu.agents.grids import R2D2_BETAS, R2D2_EXPLORERS, R2D2_HEADS, R2D2_PRIOR_SCALES
from tdu.environments.atari import ABLATION, DENSE, EXPLORATION
from tdu.report import variance
from tdu.report.atari_scores import Scored
from tdu.run.sweeps import Cell

HARD = tuple(game for game in ABLATION if game in EXPLORATION)

_N_LAMBDA = {
    f"N = {n}, λ = {scale:g}": (n, scale) for n in R2D2_EXPLORERS for scale in R2D2_PRIOR_SCALES
}  # fmt: skip
_BETA = {f"β = {beta:g}": beta for beta in R2D2_BETAS}
_LOW, *_, _HIGH = _BETA


def explorers_of(name: str) -> str:
    """The setting whose runs are evaluated on the explorers."""
    return f"{name}, explorers' policy"


def _with_heads(n: int, scale: float) -> tuple[str, dict[str, Any]]:
    options = {"explorers": n, "exploiters": R2D2_HEADS - n, "prior_scale": scale}
    return ("tdu_r2d2_prior" if scale else "tdu_r2d2"), options


SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: _with_heads(*chosen) for name, chosen in _N_LAMBDA.items()},
    **{name: ("tdu_r2d2", {"beta": beta}) for name, beta in _BETA.items()},
    **{explorers_of(name): ("tdu_r2d2", {"beta": beta, "evaluate": "explorers"}) for name, beta in _BETA.items()},
}
"""β = 1 and N = 5, λ = 0 are the same runs."""

_POLICIES = (*_BETA, *map(explorers_of, _BETA))
_CHOSEN = ("N = 2, λ = 0.1", "N = 5, λ = 0", *_POLICIES)

_SHARES = (0.1, 0.3)
"""Shares of the frames at which the curves of β have points before their end."""

PLANS = {
    "laptop": GamePlan(
        {name: SETTINGS[name] for name in _CHOSEN},
        ("gravitar", "space_invaders"),
        seeds=2,
        preset="atari-small",
        frames=400_000,
    ),
    "paper": GamePlan(SETTINGS, ABLATION, seeds=3, preset="paper", frames=5_000_000_000),
}

RULE = (
    f"every verdict uses runs of the preset `paper` and requires {FEWEST} seeds of each setting on each of its games. "
    "Scores are human-normalised. Every test is an analysis of variance that controls for game. A comparison with p of "
    "0.05 or more is open. `heads` is two statements: N makes no difference, and λ makes none. Each holds if p is 0.05 "
    "or more with the other one controlled for as well, and fails otherwise. (This is what the paper reports. It does "
    f"not show that there is no effect.) `beta` is two statements: {_HIGH} scores more than {_LOW} on "
    f"{', '.join(HARD)}, and less on {', '.join(DENSE)}. `explorers` is one: on the games with dense rewards, at "
    f"{_HIGH}, the explorers' policy scores less than the exploiters'. A claim is reproduced if all its statements hold "
    "and partly reproduced if some do. If none holds, it is not reproduced if one fails, and inconclusive otherwise."
)


def cells(preset: str) -> list[Cell]:
    """The runs of a preset: those that verdicts use, then the other points of the curves."""
    plan = PLANS[preset]
    return [*plan.cells(), *(cell for at in reversed(shorter(plan)) for cell in at.cells())]


def shorter(plan: GamePlan) -> list[GamePlan]:
    """The runs of β again, stopped earlier."""
    settings = {name: SETTINGS[name] for name in _POLICIES}
    return [plan._replace(settings=settings, frames=int(share * plan.frames)) for share in _SHARES]


def report(rows: Sequence[RunRow]) -> Findings:
    """A line per game and setting, and the verdicts."""
    scored = PLANS["paper"].scored(rows)
    text, figures = body(PLANS, rows)
    for preset, plan in PLANS.items():
        if draw := _curves(plan, rows):
            name = f"{preset}_beta"
            figures[name] = draw
            text += (
                f"\n\n### β and the explorers' policy, preset `{preset}`\n\nMean over games of the mean over seeds. A point "
                f"is the end of a run. Only games that have runs count.\n\n![Score against frames by β]({name}.svg)"
            )
    return Findings({"heads": heads(scored), "beta": beta(scored), "explorers": explorers(scored)}, text, figures)


def heads(scored: Sequence[Scored]) -> Verdict:
    """The verdict on N and λ."""
    if few := too_few(scored, list(_N_LAMBDA), ABLATION):
        return few
    runs = pick(scored, list(_N_LAMBDA), ABLATION)
    statements: dict[str, bool | None] = {}
    for i, name in enumerate(("N", "λ")):
        factor = [_N_LAMBDA[run.agent][i] for run in runs]
        test = variance.anova(
            [run.hns for run in runs], factor, [(run.game, _N_LAMBDA[run.agent][1 - i]) for run in runs]
        )
        words = "" if test is None else f" (F = {test.f:.2f}, p = {test.p:.4f})"
        statements[f"{name} makes no difference{words}"] = None if test is None else test.p >= 0.05
    return Verdict(analysis.judged(*statements.values()), wording.statements(statements))


def beta(scored: Sequence[Scored]) -> Verdict:
    """The verdict on β."""
    if few := too_few(scored, [_LOW, _HIGH], ABLATION):
        return few
    statements: dict[str, bool | None] = {}
    for games, where, first, second in ((HARD, "exploration", _HIGH, _LOW), (DENSE, "dense rewards", _LOW, _HIGH)):
        test = compare(pick(scored, [first], games), pick(scored, [second], games))
        statements[f"{first} scores more than {second} on games with {where} ({test.words})"] = test.above
    return Verdict(analysis.judged(*statements.values()), wording.statements(statements))


def explorers(scored: Sequence[Scored]) -> Verdict:
    """The verdict on the explorers' policy."""
    names = [_HIGH, explorers_of(_HIGH)]
    if few := too_few(scored, names, DENSE):
        return few
    test = compare(*(pick(scored, [name], DENSE) for name in names))
    return Verdict(
        analysis.judged(test.above),
        f"exploiters against explorers at {_HIGH} on games with dense rewards: {test.words}",
    )


def _curves(plan: GamePlan, rows: Sequence[RunRow]) -> drawing.Drawing | None:
    """Score against frames: exploiters' policy as solid lines, explorers' as dotted ones. None without runs."""
    by_frames = {at.frames: pick(at.scored(rows), list(_POLICIES), plan.games) for at in (*shorter(plan), plan)}
    if not any(by_frames.values()):
        return None

    def draw() -> "drawing.Figure":
        drawn, axes = drawing.figure(9, 3.6, 1, 2)
        kinds = {"hard exploration games": HARD, "games with dense rewards": DENSE}
        for one, (kind, games) in zip(axes, kinds.items(), strict=True):
            for i, name in enumerate(_POLICIES):
                groups = {at: pick(runs, [name], games) for at, runs in by_frames.items()}
                means = {at: mean(group) for at, group in groups.items() if group}
                colour, line = drawing.GREYS[i % len(_BETA)], "-" if name in _BETA else ":"
                one.plot(list(means), list(means.values()), line, color=colour, marker="o", markersize=4, label=name)
            one.set_xscale("log")
            one.set_xticks(list(by_frames), [f"{at / 1e6:g}" for at in by_frames])
            one.minorticks_off()
            one.set_xlabel("million frames")
            one.set_title(kind, fontsize=10)
        axes[0].set_ylabel("mean human-normalised score")
        drawn.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside right upper")
        return drawn

    return draw


ATARI_ABLATIONS = Grid(
    summary="appendix E: explorers, prior scale and β of TDU-R2D2 on Atari",
    claims={
        "heads": "The score does not change significantly with the number of explorers N, nor with the prior scale λ.",
        "beta": "A larger β helps on hard exploration games and costs score on games with dense rewards.",
        "explorers": "With a large β the explorers lose interest in the game's own reward: their policy scores less.",
    },
    rules=RULE,
    left_out="six of the eight games, seven of the nine pairs of N and λ, one of three seeds, and nearly all "
    "frames. Gravitar and Space Invaders at 400,000 frames with the preset atari-small are in "
    "their place. They show that the experiment runs, and are too short to judge a claim.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
