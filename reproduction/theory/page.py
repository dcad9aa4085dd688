"""The theory's page, made from its tables alone, and the statistics that it shares with the figures."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reproduction import wording
from reproduction.theory.agents import AGENTS, TASKS
from reproduction.theory.statements import BIAS_FAMILIES, DISTRIBUTIONS, FAMILIES, READINGS, TableRow

TableRows = Sequence[TableRow]
Tables = dict[str, list[TableRow]]

SOLVED = 1e-6
"""A relative residual below this counts as solved."""
CERTAIN = 1e-9
"""A bound above this is not a rounding error."""
RESAMPLES = 2000
TRACKS = (
    ("q_with_q", "σ(Q) with true σ(Q)"),
    ("td_with_td", "σ(δ) with true σ(δ)"),
    ("td_with_q", "σ(δ) with true σ(Q)"),
    ("td_of_policy_with_td", "σ(δ) of the policy with true σ(δ)"),
)


def where(rows: TableRows, **fixed: Any) -> list[TableRow]:
    """The rows with these entries."""
    return [row for row in rows if all(row[name] == value for name, value in fixed.items())]


def interval(count: int, statistic: Callable[[Any], float]) -> tuple[float, float, float]:
    """A statistic of the rows with these indices, and its bootstrap interval over rows."""
    whole = statistic(np.arange(count))
    rng = np.random.default_rng(count)
    with np.errstate(invalid="ignore"):
        drawn = [statistic(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    finite = np.array(drawn)[np.isfinite(drawn)]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    return whole, float(low), float(high)


def share(rows: TableRows, among: str) -> tuple[float, float, float]:
    """Share of the transitions of a kind at which V[δ] is less biased, resampled by problem."""
    less, of = (np.array([row[name] for row in rows], float) for name in (f"less_{among}", among))
    return interval(len(rows), lambda i: _ratio(less[i].sum(), of[i].sum()))


def share_outside(rows: TableRows) -> tuple[float, float, float]:
    """The same outside the condition."""
    less, of = (
        np.array([row[a] - row[b] for row in rows], float) for a, b in (("less_met", "less_inside"), ("met", "inside"))
    )
    return interval(len(rows), lambda i: _ratio(less[i].sum(), of[i].sum()))


def correlation(rows: TableRows, name: str) -> tuple[float, float, float]:
    """Mean of a column over seeds, resampled by seed; seeds without a number are left out."""
    numbers = np.array([row[name] for row in rows], float)
    numbers = numbers[np.isfinite(numbers)]
    return interval(len(numbers), lambda i: float(numbers[i].mean()) if len(i) else float("nan"))


def solved_upto(rows: TableRows, equation: str, n: int) -> int:
    """The largest N up to which the equations are solved on every seed."""
    best = 0
    for pairs in sorted({row["pairs"] for row in rows}):
        if max(row["residual"] for row in where(rows, equation=equation, n=n, pairs=pairs)) > SOLVED:
            break
        best = pairs
    return best


def none_from(rows: TableRows, n: int) -> int | None:
    """The smallest N from which only the zero covariance solves the Bellman equations on every seed, by certificate."""
    first = None
    for pairs in sorted({row["pairs"] for row in rows}, reverse=True):
        group = where(rows, equation="variance, Bellman, covariance", n=n, pairs=pairs)
        if min(row["certificate"] for row in group) < CERTAIN:
            break
        first = pairs
    return first


def page(tables: Tables, settings: TableRow) -> str:
    """The page in Markdown."""
    parts = [
        "# The theory, checked",
        f"Made by `tdu reproduce theory` (preset {settings['preset']}) from the tables in this folder; "
        "docs/theory.md explains the statements and the checks. Intervals are 95 % of a bootstrap over problems or seeds.",
        _outcomes(tables),
        "## Lemma 1",
        "p(θ) is the true posterior of Q_π, which has no bias. The table has the residuals of the Bellman equations of its "
        "moments, with the expectation over r and s' read in three ways. They are relative to the posterior's standard "
        "deviation (mean) or variance, median over problems. In brackets: the share of pairs with a residual above five "
        "standard errors.",
        _lemma1_table(tables["lemma1"]),
        "![Lemma 1](lemma1.svg)",
        "## Theorem 1",
        "The largest number of pairs N at which the best layer of n features solves its equations on every seed (relative "
        f"residual below {SOLVED:g}). Covariances are found by a limited number of projected gradient steps, so their true "
        "numbers may be larger.",
        _theorem1_table(tables["theorem1"]),
        "![Theorem 1](theorem1.svg)",
        "## Theorem 2",
        _theorem2_words(tables["theorem2"]),
        _theorem2_table(tables["theorem2"]),
        _theorem2_grid(tables["theorem2"]),
        "![Theorem 2](theorem2.svg)",
        "## The agents' own networks",
        _agents_words(agents_of(tables), settings["training"]["samples"]),
        _agents_table(agents_of(tables)),
        "![Agents](agents.svg)",
    ]
    return "\n\n".join(parts) + "\n"


def _outcomes(tables: Tables) -> str:
    """The result of each part, one line each."""
    lemma, first, second, agents = tables["lemma1"], tables["theorem1"], tables["theorem2"], agents_of(tables)
    fails = {}
    for moment in ("mean", "variance"):
        group = where(lemma, moment=moment, reading=READINGS[0])
        fails[moment] = _ratio(sum(row["refuting_pairs"] for row in group), sum(row["pairs"] for row in group))
    layers = sorted({row["n"] for row in first})
    mean, covariance = (
        ", ".join(str(solved_upto(first, equation, n)) for n in layers)
        for equation in ("mean, Bellman", "variance, Bellman, covariance")
    )
    groups = [
        where(agents, task=task, agent=agent, steps=steps)
        for task in TASKS
        for agent in AGENTS
        for steps in sorted({row["steps"] for row in agents})
    ]
    gains = [gain(group, "td_of_policy_with_td") for group in groups]
    sufficient = all(row["less_inside"] == row["inside"] for row in second)
    return "\n".join(
        (
            f"- Lemma 1 {'is false' if max(fails.values()) > 0.05 else 'holds'} as stated: the true posterior, which has "
            f"no bias, fails its equations by five standard errors at {fails['mean']:.0%} (mean) and "
            f"{fails['variance']:.0%} (variance) of pairs.",
            f"- Theorem 1: a layer of n = {', '.join(map(str, layers))} features solves the mean's equations up to N = "
            f"{mean} pairs, and with a covariance the variance's up to {covariance}; stated are n + 1 and n².",
            f"- Theorem 2's identities hold. Its condition is {'sufficient' if sufficient else 'a sign and not sufficient'}: "
            f"V[δ] is less biased in {share(second, 'inside')[0]:.0%} of the transitions inside it and in "
            f"{share_outside(second)[0]:.0%} of those outside.",
            f"- The agents' own σ(δ) tracks its truth better than σ(Q) does its own in {sum(low > 0 for _, low, _ in gains)} "
            f"of {len(gains)} comparisons, and worse in {sum(high < 0 for _, _, high in gains)}.",
        )
    )


def agents_of(tables: Tables) -> TableRows:
    """The rows of (d)."""
    return [row for task in TASKS for row in tables[f"agents_{task}"]]


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below else float("nan")


def median(rows: TableRows, name: str) -> float:
    """The median of a column."""
    return float(np.median([row[name] for row in rows]))


def _between(numbers: tuple[float, float, float]) -> str:
    middle, low, high = numbers
    return "–" if np.isnan(middle) else f"{middle:.2f} ({low:.2f} … {high:.2f})"


def _lemma1_table(rows: TableRows) -> str:
    body = []
    for moment in ("mean", "variance"):
        for reading in READINGS:
            cells = []
            for family in FAMILIES:
                group = where(rows, moment=moment, reading=reading, family=family)
                surely = _ratio(sum(row["refuting_pairs"] for row in group), sum(row["pairs"] for row in group))
                cells.append(f"{median(group, 'relative_residual'):.2g} ({surely:.0%})")
            body.append([moment, reading, *cells])
    worst = max(
        median(where(rows, moment=moment, reading=reading, family=family), "relative_error")
        for moment in ("mean", "variance")
        for reading in READINGS[:-1]  # in its own MDP a draw has no residual, and no sampling error
        for family in FAMILIES
    )
    table = wording.table(["moment", "expectation under", *FAMILIES], body)
    return f"{table}\n\nSampling error of these numbers, median over problems: {worst:.2g} at most."


def _theorem1_table(rows: TableRows) -> str:
    layers = sorted({row["n"] for row in rows})
    body = [
        [equation, *(str(solved_upto(rows, equation, n)) for n in layers)]
        for equation in dict.fromkeys(row["equation"] for row in rows)
    ]
    nothing = [none_from(rows, n) for n in layers]
    body.append(
        ["only the zero covariance, certified, from", *("–" if first is None else str(first) for first in nothing)]
    )
    for name, count in (
        ("n", lambda n: n), ("n + 1", lambda n: n + 1), ("n(n + 1)/2", lambda n: n * (n + 1) // 2), ("n²", lambda n: n * n),
    ):  # fmt: skip
        body.append([f"*{name}*", *(f"*{count(n)}*" for n in layers)])
    return wording.table(["equations", *(f"n = {n}" for n in layers)], body)


def _theorem2_words(rows: TableRows) -> str:
    names = ("met", "inside", "in_text", "repaired", "decided", "sure")
    total = {name: sum(row[name] for row in rows) for name in names}
    of_all = {name: f"{_ratio(count, total['met']):.0%}" for name, count in total.items()}
    less = {name: _between(share(rows, name)) for name in (*names, "decided_inside", "sure_inside")}
    agrees = all(row["less_mean"] == row["mean_inside"] for row in rows)
    sentences = (
        f"{total['met']} transitions in {len(rows)} problems.",
        f"Both identities hold to {max(row['identity_error'] for row in rows):.1g} of the values' mean square.",
        f"The mean's condition {'agrees' if agrees else 'does not agree'} with the outcome in every problem.",
        f"The variance's condition holds in {of_all['inside']} of them; in the form of the text, in {of_all['in_text']}.",
        f"V[δ] is less biased in {less['met']} of all, in {less['inside']} of those inside the condition, in "
        f"{_between(share_outside(rows))} of those outside, and in {less['in_text']} of those inside the text's.",
        f"σ(δ) is less biased than σ(Q) in {_ratio(sum(row['less_sd'] for row in rows), total['met']):.2f}.",
        f"Relative to its true size V[δ] is less biased in only "
        f"{_ratio(sum(row['less_relative'] for row in rows), total['met']):.2f}.",
        f"Inside the condition, with terms of one sign ({total['repaired']} transitions), it is in {less['repaired']}.",
        f"The sampling error of the true variance is {median(rows, 'sampling_error'):.2f} of the bias in the median.",
        f"Where the comparison is beyond three standard errors of that ({of_all['decided']}), V[δ] is less biased in "
        f"{less['decided']}, inside the condition in {less['decided_inside']}.",
        "A finite ensemble is a sample of p(θ) as well. The table's last column is the standard error of its variance, as a "
        "share of the bias. This is no error if p(θ) is defined as the ensemble itself.",
        f"Where the comparison is beyond three standard errors of both ({of_all['sure']}), V[δ] is less biased in "
        f"{less['sure']}, inside the condition in {less['sure_inside']}.",
    )
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _theorem2_table(rows: TableRows) -> str:
    body = []
    for name in DISTRIBUTIONS:
        group = where(rows, distribution=name)
        inside = _ratio(sum(row["inside"] for row in group), sum(row["met"] for row in group))
        of_sd = _ratio(sum(row["less_sd"] for row in group), sum(row["met"] for row in group))
        of_own = _ratio(sum(row["less_relative"] for row in group), sum(row["met"] for row in group))
        relative = [
            f"{median(group, column):.2f}" for column in ("relative_bias_q", "relative_bias_td", "member_error")
        ]
        shares = [_between(x) for x in (share(group, "met"), share(group, "inside"), share_outside(group))]
        body.append([name, f"{inside:.0%}", *shares, f"{of_sd:.2f}", f"{of_own:.2f}", *relative])
    head = ["p(θ)", "inside the condition", "V[δ] less biased", "inside", "outside", "σ(δ) less biased"]
    head += ["V[δ] less biased relative to its own size", "relative bias of V[Q]", "of V[δ]"]
    head += ["error of V[Q] from finitely many members, share of its bias"]
    return wording.table(head, body)


def _theorem2_grid(rows: TableRows) -> str:
    body = []
    for family in BIAS_FAMILIES:
        for count in sorted({row["transitions"] for row in rows}):
            cells = []
            for gamma in sorted({row["gamma"] for row in rows}):
                group = where(rows, family=family, transitions=count, gamma=gamma)
                cells.append(_between(share(group, "met")) if group else "–")
            body.append([family, str(count), *cells])
    return wording.table(["family", "transitions", *(f"γ = {g}" for g in sorted({row["gamma"] for row in rows}))], body)


def _agents_words(rows: TableRows, samples: int) -> str:
    errors = np.array([row[f"{name}_error"] for row in rows for name, _ in TRACKS], float)
    errors = errors[np.isfinite(errors)]
    sentences = (
        "Spearman's rank correlation over all state-action pairs that can be reached, mean over seeds.",
        "The agents' own δ uses each member's best next action. δ of the policy uses the policy's action, like the true δ; "
        "only that comparison is like for like.",
        f"The truth is {samples} draws. The resulting standard error of the correlation of one seed is "
        f"{np.median(errors):.2f} in the median, {np.quantile(errors, 0.95):.2f} or less in 95 % and {errors.max():.2f} at "
        "most (jackknife).",
    )
    return " ".join(sentences)


def _agents_table(rows: TableRows) -> str:
    body = []
    for task in TASKS:
        for agent in AGENTS:
            for steps in sorted({row["steps"] for row in rows}):
                group = where(rows, task=task, agent=agent, steps=steps)
                cells = [_between(correlation(group, f"{name}_all")) for name, _ in TRACKS]
                gains = [_between(gain(group, name)) for name in ("td_with_td", "td_of_policy_with_td")]
                body.append([task, agent, str(steps), *cells, *gains])
    head = ["task", "agent", "steps", *(words for _, words in TRACKS), "σ(δ) − σ(Q)", "σ(δ) of the policy − σ(Q)"]
    return wording.table(head, body)


def gain(rows: TableRows, name: str) -> tuple[float, float, float]:
    """How much better a correlation is than that of σ(Q) with its own truth."""
    return correlation([{"gain": row[f"{name}_all"] - row["q_with_q_all"]} for row in rows], "gain")
