"""The theory experiment: parts can be interrupted, tables alone make the page, and the docs example works."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from reproduction import theory
from reproduction.theory import agents as theory_agents
from reproduction.theory import page as theory_page
from reproduction.theory import statements as theory_rows
from reproduction.theory.agents import Training
from tdu.errors import UserError
from tdu.theory import transition_bias

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "theory"
SMALL = theory.PRESETS["smoke"].sizes


def nobody(share):
    del share


def test_the_committed_page_is_made_again_bit_for_bit(tmp_path):
    for name in ("settings.json", "timing.json", *(f"{part}.csv" for part in theory.PARTS)):
        shutil.copy(RESULTS / name, tmp_path)
    theory.draw(tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in RESULTS.iterdir())
    assert len(made) >= 8 + 2 + len(theory.PARTS) + 1
    for name in made:
        assert (tmp_path / name).read_bytes() == (RESULTS / name).read_bytes(), name


def test_the_committed_settings_are_the_laptop_s():
    settings = json.loads((RESULTS / "settings.json").read_text())
    chosen = theory.PRESETS["laptop"]
    assert settings["preset"] == "laptop"
    assert settings["sizes"] == json.loads(json.dumps(chosen.sizes._asdict()))
    assert settings["training"] == json.loads(json.dumps(chosen.training._asdict()))
    assert chosen.training.seeds >= 5
    for task in theory_agents.TASKS:
        rows = theory.read(RESULTS / f"agents_{task}.csv")
        assert len(rows) == 2 * chosen.training.seeds * len(chosen.training.checkpoints)


def test_the_committed_run_was_one_and_short_and_the_page_on_it_says_so():
    timing = json.loads((RESULTS / "timing.json").read_text())
    whole, parts = timing["seconds_uninterrupted"], timing["seconds"]
    assert list(parts) == list(theory.PARTS)
    assert sum(part["wall"] for part in parts.values()) <= whole["wall"]
    assert sum(part["processor"] for part in parts.values()) <= whole["processor"] < 15 * 60, (
        "of one core; on the wall it is a matter of company"
    )
    words = (ROOT / "docs" / "theory.md").read_text()
    assert f"{whole['wall']:.0f} s, {whole['processor']:.0f} s of processor time" in words
    solves = json.loads((ROOT / "results" / "theory_solves.json").read_text())["states"]
    ratios = [case["jax_over_numpy"] for case in solves.values()]
    assert f"{min(ratios):.1f} to {max(ratios):.1f} times as long" in words


def test_the_page_has_the_largest_sampling_error_and_the_comparison_like_for_like():
    rows = theory.read(RESULTS / "lemma1.csv")
    cells = {}
    for row in rows:
        if row["reading"] != "each draw's own MDP":
            cells.setdefault((row["family"], row["reading"], row["moment"]), []).append(row["relative_error"])
    worst = max(np.median(errors) for errors in cells.values())
    page = (RESULTS / "README.md").read_text()
    assert 0.02 < worst < 0.03
    assert f"median over problems: {worst:.2g} at most." in page
    agents = theory.read(RESULTS / "agents_tree.csv")
    same = theory_page.where(agents, agent="tdu", steps=200)
    middle = np.mean([row["td_of_policy_with_td_all"] for row in same])
    (line,) = [line for line in page.splitlines() if line.startswith("| tree | tdu | 200 |")]
    assert line.split("|")[7].split()[0] == f"{middle:.2f}"


def test_only_what_is_missing_is_computed(tmp_path, monkeypatch):
    computed = []

    def part(name):
        def rows(preset, tell):
            del preset
            computed.append(name)
            tell(0.5)
            return iter(theory.read(RESULTS / f"{name}.csv"))

        return rows

    monkeypatch.setattr(theory, "PARTS", {name: part(name) for name in theory.PARTS})
    said = []
    page = theory.reproduce(tmp_path / "new", preset="smoke", say=said.append)
    assert computed == list(theory.PARTS)
    assert "# The theory" in page.read_text()
    timing = json.loads((tmp_path / "new" / "timing.json").read_text())
    assert timing["seconds_uninterrupted"]["wall"] >= 0
    (tmp_path / "new" / "theorem1.csv").unlink()
    computed.clear()
    theory.reproduce(tmp_path / "new", preset="smoke", say=said.append)
    assert computed == ["theorem1"]
    again = json.loads((tmp_path / "new" / "timing.json").read_text())
    assert again["seconds_uninterrupted"] is None, "not in one process"
    assert all(again["seconds"].values())
    assert any("kept" in words for words in said)
    with pytest.raises(UserError, match="other settings"):
        theory.reproduce(tmp_path / "new", preset="laptop", say=said.append)
    with pytest.raises(UserError, match="did you mean 'laptop'"):
        theory.reproduce(tmp_path / "new", preset="labtop", say=said.append)
    (tmp_path / "new" / "lemma1.csv").unlink()
    with pytest.raises(UserError, match=r"no lemma1\.csv"):
        theory.draw(tmp_path / "new")


def test_lemma_1_holds_in_each_draw_s_own_mdp_alone():
    sizes = SMALL._replace(seeds=1, lemma_samples=4000)
    rows = list(theory_rows.lemma1(sizes, nobody))
    refuted = {(r["family"], r["reading"], r["moment"]): r["refuting_pairs"] for r in rows}
    for family in theory_rows.FAMILIES:
        assert refuted[family, "each draw's own MDP", "mean"] == refuted[family, "each draw's own MDP", "variance"] == 0
        assert refuted[family, "true MDP", "mean"] > 0
        assert refuted[family, "mean of the posterior", "variance"] > 0
        if family != "cyclic":
            assert refuted[family, "mean of the posterior", "mean"] == 0
    again = list(theory_rows.lemma1(sizes, nobody))
    assert rows == again, "the same seeds give the same rows"


def test_the_kinks_of_theorem_1_are_found():
    rows = list(theory_rows.theorem1(SMALL._replace(layers=(2, 3), pairs=tuple(range(1, 9))), nobody))
    for n in (2, 3):
        free = n * (n + 1) // 2
        assert theory_page.solved_upto(rows, "mean, Bellman", n) == n
        assert theory_page.solved_upto(rows, "mean, truth", n) == n
        assert theory_page.solved_upto(rows, "variance, truth, symmetric", n) == free
        assert theory_page.solved_upto(rows, "variance, truth, factorised", n) == n
        assert theory_page.solved_upto(rows, "variance, Bellman, symmetric", n) == free - 1
        assert theory_page.solved_upto(rows, "variance, Bellman, p(w)p(ϑ)", n) == free
        assert theory_page.solved_upto(rows, "variance, Bellman, covariance", n) < free - 1


def test_theorem_2_s_rows_keep_what_is_proved(monkeypatch):
    monkeypatch.setattr(theory_rows, "BIAS_FAMILIES", ("tree",))
    rows = list(theory_rows.theorem2(SMALL._replace(seeds=1), nobody))
    assert [r["distribution"] for r in rows] == list(theory_rows.DISTRIBUTIONS)
    for row in rows:
        assert row["identity_error"] < 1e-13
        assert row["less_repaired"] == row["repaired"], "with terms of one sign the condition is sufficient"
        assert row["less_mean"] == row["mean_inside"], "the mean's condition is exact"
        assert 0 <= row["less_inside"] <= row["inside"] <= row["met"]
        assert 0 <= row["less_sure"] <= row["sure"] <= row["met"]


def test_the_error_of_a_comparison_is_that_of_repeating_it():
    # Over many fresh draws of both sides, the spread of |Bias V[Q]| − |Bias V[δ]| equals _gain_error of one draw.
    rng = np.random.default_rng(0)
    gains, errors = [], []
    for _ in range(300):
        theta, truth = rng.normal(0, 1, (50, 1, 2)), rng.normal(0, [2, 1], (400, 1, 2))
        record = transition_bias(theta, truth, gamma=0.9)
        gains.append(abs(record.var_q[0]) - abs(record.var_td[0]))
        errors.append(np.hypot(*(theory_rows._gain_error(x, record, 0.9)[0] for x in (theta, truth))))
    assert np.std(gains) == pytest.approx(np.mean(errors), rel=0.15)


def test_what_is_proved_holds_in_the_committed_rows():
    rows = theory.read(RESULTS / "theorem2.csv")
    assert all(row["less_repaired"] == row["repaired"] and row["less_mean"] == row["mean_inside"] for row in rows)
    assert max(row["identity_error"] for row in rows) < 1e-13
    assert sum(row["inside"] - row["less_inside"] for row in rows) > 0, "and the condition alone is not sufficient"


def test_the_agents_networks_are_compared_with_the_posterior_of_what_they_met(monkeypatch):
    monkeypatch.setattr(theory_agents, "AGENTS", ("tdu",))
    small = {"hidden_sizes": (4,), "exploiters": 3, "explorers": 1, "batch_size": 4, "min_replay": 16}
    training = Training(seeds=2, checkpoints=(100, 200), samples=60, options=small)
    rows = list(theory_agents.rows("tree", training, nobody))
    assert [(r["seed"], r["steps"]) for r in rows] == [(0, 100), (0, 200), (1, 100), (1, 200)]
    for row in rows:
        assert 2 <= row["pairs_met"] <= 20
        correlations = {name: value for name, value in row.items() if "_with_" in name}
        errors = [correlations.pop(name) for name in list(correlations) if name.endswith("_error")]
        assert len(correlations) == 10
        assert all(-1 <= value <= 1 for value in correlations.values())
        assert len(errors) == 5
        assert all(0 < error < 0.5 for error in errors), "sixty draws of the truth are few"
    assert rows[1]["true_sd_q"] < rows[0]["true_sd_q"], "more data leave less uncertain"
    assert rows[0]["q_with_q_all"] != rows[2]["q_with_q_all"], "two seeds are two runs"


def test_spearman_is_scipy_s():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 30).astype(float), rng.normal(size=30)
    assert theory_agents.spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert theory_agents.spearman(y, np.exp(y)) == pytest.approx(1)
    assert np.isnan(theory_agents.spearman(np.ones(5), y[:5]))
    assert np.isnan(theory_agents.spearman(x[:2], y[:2]))


def test_the_pages_ten_lines_work(capsys):
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "theory.md").read_text(), re.S)
    (snippet,) = [s for s in snippets if "transition_bias" in s]
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    names = {}
    exec(snippet, names)  # our own documentation
    record = names["record"]
    assert record.var_td == pytest.approx(record.var_td_predicted, abs=1e-12)
    assert len(capsys.readouterr().out.split()) == 3
