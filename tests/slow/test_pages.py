"""Pages under results/ are reproduced from their rows bit for bit, and the docs quote them correctly."""

import csv
import json
import re
from pathlib import Path

import pytest

from reproduction import catalogue, deep_sea_runs, pages, reproduce, rows
from reproduction.rows import FILE

ROOT = Path(__file__).parents[2]


def text_of(path):
    return path.read_text().splitlines()


@pytest.mark.parametrize("name", list(catalogue.grids()))
def test_every_page_and_figure_is_made_again_bit_for_bit(name, tmp_path):
    """Uses the number of committed rows that the page states; later rows do not matter."""
    page = ROOT / "results" / name / pages.PAGE
    preset, counts = pages.made_from(page)
    every = reproduce.read_all(ROOT / "results", pytest.fail)
    assert all(len(every[other]) >= count for other, count in counts.items())
    made = tmp_path / name
    pages.write(name, preset, {other: theirs[: counts.get(other, 0)] for other, theirs in every.items()}, made)
    for path in sorted(made.iterdir()):
        committed = page.parent / path.name
        if path.suffix == ".png":
            import matplotlib.image

            assert (matplotlib.image.imread(path) == matplotlib.image.imread(committed)).all(), path.name
        else:
            assert path.read_bytes() == committed.read_bytes(), path.name
    kept = {p.name for p in page.parent.iterdir() if p.suffix in (".svg", ".png")}
    assert kept == {p.name for p in made.iterdir() if p.suffix != ".md"}


def test_the_committed_rows_are_all_understood():
    for name in catalogue.grids():
        assert rows.read(ROOT / "results" / name / FILE, pytest.fail) or name not in ("deep_sea", "binary_tree")


def test_the_verdicts_of_the_claims_are_the_pages():
    claims = (ROOT / "docs" / "claims.md").read_text()
    for name, grid in catalogue.grids().items():
        page = (ROOT / "results" / name / pages.PAGE).read_text()
        for claim in (claim for claim in grid.claims if re.fullmatch(r"C\d", claim)):
            word = re.search(rf"^- \*\*{claim}: (.*?)\.\*\*", page, re.MULTILINE).group(1)
            line = next(line for line in claims.splitlines() if line.startswith(f"| {claim} |"))
            assert f"[{word}](../results/{name}/README.md)" in line


def test_the_speeds_of_the_results_are_the_files():
    results = (ROOT / "docs" / "results.md").read_text()
    speed = json.loads((ROOT / "results" / "bench.json").read_text())
    steps, ratios = speed["steps_per_second"]["single"], speed["ratio_to_bsuite"]
    times = [f"{1000 / steps[size]:.2f}" for size in ("10", "20", "50")]
    assert f"takes {times[0]}, {times[1]} and {times[2]} ms on one core" in results
    for where, words in (
        ("single", "{:.0f}×, {:.0f}× and {:.0f}× the speed"),
        ("per core", "{:.0f}×, {:.0f}× and {:.0f}× with a run"),
    ):
        assert words.format(*(ratios[where][size] for size in ("10", "20", "50"))) in results
    stepwise = json.loads((ROOT / "results" / "stepwise_speed.json").read_text())["ratio_to_bsuite"]
    words = (
        f"{stepwise['cartpole/0']}× boot_dqn on `cartpole/0`, {min(stepwise.values())}× to {max(stepwise.values())}×"
    )
    assert words in results


def test_the_runs_on_other_jax_libraries_are_the_file():
    page = (ROOT / "docs" / "jax-environments.md").read_text()
    with (ROOT / "results" / "jax_native.csv").open() as f:
        made = list(csv.DictReader(f))
    for row in made:
        if row["env"].startswith("navix"):
            first = f"{int(row['first_reward_step']):,}" if row["first_reward_step"] else "never"
            size = re.search(r"\d+", row["env"])[0]
            name = f"DoorKey {size}×{size}"
            cells = [name, row["agent"], first, row["return_last_100"], row["greedy_return"]]
            assert f"| {' | '.join(cells)} |" in page
        else:
            steps = "1 million" if row["steps"] == "1000000" else f"{int(row['steps']):,}"
            last, greedy = (
                f"| {steps} | {value / 22:.1%} (return {value:.2f}) |".replace("%", " %").replace("-", "−")
                for value in (float(row["return_last_100"]), float(row["greedy_return"]))
            )
            assert f"last 100 episodes of training {last}" in page
            assert steps != "1 million" or f"greedy policy {greedy}" in page


def test_published_deep_sea_reference_lines():
    assert dict(deep_sea_runs.published()["DP-DQN"])[20] == 407
    assert "HyperAgent" not in deep_sea_runs.published(), "budgets are not what it took"


def test_the_readme_s_episodes_are_the_pages():
    readme = (ROOT / "README.md").read_text()
    tree = (ROOT / "results" / "binary_tree" / pages.PAGE).read_text()
    (ratios,) = re.findall(r"^\| 1 \| (0\.\d\d \(50\).*?) \|", tree, re.MULTILINE)
    by_depth = {depth: ratio for ratio, depth in re.findall(r"([\d.]+) \((\d+)\)", ratios)}
    words = f"{by_depth['50']} of Bootstrapped DQN's episodes at depth 50, "
    words += f"{by_depth['100']} at 100 and {by_depth['250']} at 250"
    assert f"TDU needs {words}." in readme
    tail = (ROOT / "results" / "forgetting" / pages.PAGE).read_text()
    medians = [
        re.search(rf"\| {a}, the paper's settings \| 12 \| 10 of 12 \| (\d+) ", tail).group(1) for a in ("TDU", "BDQN")
    ]
    words = f"of twelve seeds\n  each both solve ten (TDU's median {medians[0]}, BDQN's {medians[1]};"
    assert words in (ROOT / "docs" / "results.md").read_text()
    solved = {
        a: re.search(rf"^\| {a}, the paper's settings \| (\d+) of 12 \| (\d+) of 12 \| (.*?) \|", tail, re.M)
        for a in ("TDU", "BDQN")
    }
    p = float(solved["BDQN"].group(3).partition("p = ")[2])
    claims = " ".join((ROOT / "docs" / "claims.md").read_text().split())
    words = "TDU solves {} at size 30 and {} at size 40, BDQN {} and {} (p = {:.1g} over both sizes)"
    assert words.format(*solved["TDU"].groups()[:2], *solved["BDQN"].groups()[:2], p) in claims
    assert "2 are stuck" in tail
    assert "none of the four changes solves sooner" in tail
    page = (ROOT / "results" / "deep_sea" / pages.PAGE).read_text()
    found = re.findall(r"^\| paper \| \w+ \| \d+ \| \d+, \d+ \| (.*?) \| (.*?) \|", page, re.MULTILINE)
    (ratio, p), (other_ratio, other_p) = found
    words = f"TDU needs {ratio} of BDQN's episodes there ({p}), and {other_ratio} on stochastic Deep Sea ({other_p})"
    assert words in claims
    scores = [
        re.search(rf"^\| {a}, boot_dqn \| stochastic \| .*? \| [^|]*\| ([\d.]+) \(", page, re.MULTILINE).group(1)
        for a in ("tdu", "bdqn")
    ]
    assert f"TDU scores {scores[0]} and BDQN {scores[1]} on stochastic Deep Sea" in claims


def test_the_readme_s_results_are_the_pages():
    readme, claims, task = ((ROOT / name).read_text() for name in ("README.md", "docs/claims.md", "docs/your-task.md"))
    rows_of_claims = [line.split(" | ") for line in claims.splitlines() if re.match(r"\| C\d ", line)]
    verdicts = [re.match(r"\[([a-z ]+)", cells[2]).group(1) for cells in rows_of_claims]
    counts = [verdicts.count(word) for word in ("reproduced", "partly reproduced", "checked", "not yet enough data")]
    assert sum(counts) == 9
    number = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
    found = re.search(r"(\w+) claims are reproduced, (\w+) partly\..* (\w+) claims need more data", readme).groups()
    assert [word.lower() for word in found] == [number[counts[i]] for i in (0, 1, 3)]
    assert counts[2] == 1
    ratio = re.search(r"^\| tdu, dqn \|.*?\| ([\d.]+) \(", task, re.MULTILINE).group(1)
    assert f"TDU needs {ratio} of the steps of DQN with the same settings" in readme
    scaling = (ROOT / "results" / "scaling" / pages.PAGE).read_text()
    mean, best = re.search(r"at episode (\d+) \(.*?\+ OIS (\d,\d+)", scaling).groups()
    assert f"at episode {int(mean):,} on average" in readme
    assert f"The best published mean is {best}" in readme
    cells = next(line.split(" | ") for line in scaling.splitlines() if line.startswith("| 100 |"))
    seconds, stochastic = cells[3], cells[5]
    assert f"in {seconds.removesuffix(' s')} seconds on one core" in readme
    episodes = [int(e.replace(",", "")) for e in stochastic.split(", ")]
    assert f"at episode {round(sum(episodes) / 3):,} on average" in readme
