"""Short versions of the code in the docs and in examples/. Links, lengths and generated tables of the pages."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import tdu
from tdu import agents

ROOT = Path(__file__).parents[2]


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def test_many_seeds_in_one_call():
    (snippet,) = [s for s in snippets("docs/gpu.md") if "vmap" in s]
    small = 'agents.configure("tdu", {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "min_replay": 16})'
    for long, short in (
        ("steps=10_000", "steps=60"),
        ("size=20", "size=4"),
        ('agents.configure("tdu", {})', small),
    ):
        assert long in snippet
        snippet = snippet.replace(long, short)
    names = {}
    exec(snippet, names)  # our own documentation
    log = names["log"]
    np.testing.assert_array_equal(log.filled, 15)
    assert log.episode_return.shape == (8, 60)
    np.testing.assert_array_equal(log.length[:, :15], 4)
    assert len(np.unique(log.episode_return[:, :15].sum(axis=1))) > 1, "eight seeds are eight runs"


def test_the_readme_s_own_environment(tmp_path, monkeypatch, capsys):
    (snippet,) = [s for s in snippets("README.md") if "my_env" in s]
    monkeypatch.chdir(tmp_path)
    exec(snippet.replace("steps=10_000, evaluate_every=20", "steps=900, evaluate_every=5, evaluation_episodes=1"), {})
    assert (tmp_path / "runs" / "mine" / "best").is_dir()
    printed = capsys.readouterr().out.split()
    assert 0 <= float(printed[-2]) <= 1
    assert printed[-1] in "0123"


def test_your_own_environment_in_five_lines(tmp_path, monkeypatch, capsys):
    (snippet,) = [s for s in snippets("docs/environments.md") if "FrozenLake" in s]
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 5
    monkeypatch.chdir(tmp_path)
    exec(snippet.replace("episodes=500", "episodes=3, evaluation_episodes=1"), {})
    assert (tmp_path / "runs" / "lake" / "result.json").exists()
    assert re.fullmatch(r"[\d.]+ \d\n", capsys.readouterr().out)


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    small = "steps=400, evaluation_episodes=1, exploiters=2, explorers=1, hidden_sizes=(8,), min_replay=16"
    code = code.replace("steps=10_000, evaluate_every=20", f"{small}, evaluate_every=4")
    code = code.replace("agent, steps=10_000", "agent, steps=120, evaluation_episodes=1").replace(
        "range(2)", "range(1)"
    )
    assert "10_000" not in code
    monkeypatch.chdir(tmp_path)
    exec("import matplotlib; matplotlib.use('Agg')\n" + code, {})  # our own documentation
    printed = capsys.readouterr().out
    for words in ("episodes with reward:", "trained policy:", "'standard_error'", "dqn ["):
        assert words in printed


def imported(place):
    spec = importlib.util.spec_from_file_location(Path(place).stem, ROOT / place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_of_an_own_task_trains():
    example = imported("examples/own_task.py")
    source = (ROOT / "examples/own_task.py").read_text().partition("__main__")[2]
    assert len([line for line in source.splitlines() if line.strip()]) <= 7, "an import, a run, and its output"
    options = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "min_replay": 16}
    run = tdu.train(example.Room(), episodes=5, evaluation_episodes=1, say=lambda words: None, **options)
    assert run.result["episodes"] == 5
    assert run.agent.act(0) in range(4)


def test_the_example_s_lock_is_opened():
    """Uses the example's settings. Without `return_cut`, one seed of five opens the lock (`results/lock.csv`)."""
    example = imported("examples/lock.py")
    is_open = {"evaluate_every": 20, "until_return": 0.95}
    run = tdu.train(example.make(), episodes=400, return_cut="worse", progress=None, say=[].append, **is_open)
    assert tuple(run.agent.act(right) for right in range(12)) == example.COMBINATION


@pytest.mark.parametrize(
    ("agent", "options", "words"),
    [
        ("tdu", {}, "try return_cut=worse"),
        ("tdu", {"return_cut": "worse"}, "try more steps, or a larger beta"),
        ("dqn", {}, "try more steps, or the agent tdu"),
    ],
)
def test_a_run_without_reward_suggests_what_to_try(agent, options, words):
    said, lock = [], imported("examples/lock.py").make()
    small = {"hidden_sizes": (8,), "min_replay": 16}
    small |= {"exploiters": 2, "explorers": 1} if agent == "tdu" else {}
    tdu.train(lock, agent, episodes=3, evaluation_episodes=0, progress=None, say=said.append, **small, **options)
    assert "no reward was found in 180 steps" in said[-1]
    assert words in said[-1]


def test_the_example_of_an_own_bonus_trains_and_its_options_are_options(monkeypatch):
    monkeypatch.setattr(agents, "AGENTS", dict(agents.AGENTS))
    imported("examples/own_bonus.py")
    options = {"hidden_sizes": (8,), "exploiters": 3, "explorers": 2, "min_replay": 16}
    runs = [tdu.train("deep_sea:size=4", "range", episodes=30, until="budget", beta=b, **options) for b in (0.0, 3.0)]
    assert runs[0].log["bonus"].max() > 0
    assert not np.array_equal(*(run.log["loss"] for run in runs))


def test_the_example_of_a_sweep_draws_its_picture(tmp_path, monkeypatch):
    example = imported("examples/sweep_and_plot.py")
    monkeypatch.setattr(example, "SIZES", (4,))
    monkeypatch.setattr(example, "EPISODES", 8)
    monkeypatch.setattr(example, "SEEDS", 1)
    assert example.main(tmp_path).stat().st_size > 5000
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 2


def test_the_example_of_many_seeds_runs_them():
    example = imported("examples/many_seeds_at_once.py")
    assert example.main(3, steps=60).shape == (3,)


def test_the_tables_on_your_own_task_are_those_of_the_files(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    levers, tasks, rows = (importlib.import_module(name) for name in ("levers", "tasks", "rows"))
    page = (ROOT / "docs" / "your-task.md").read_text()
    of_tasks = rows.read(ROOT / "results" / "tasks.csv")
    assert tasks.summary(of_tasks) in page, "python benchmarks/tasks.py --summary"
    assert tasks.pairs(of_tasks) in page, "python benchmarks/tasks.py --pairs"
    assert tasks.markdown(of_tasks) in (ROOT / "results" / "tasks.md").read_text(), (
        "python benchmarks/tasks.py --markdown"
    )
    page = (ROOT / "docs" / "levers.md").read_text()
    assert levers.markdown(rows.read(ROOT / "results" / "levers.csv")) in page, "python benchmarks/levers.py --markdown"


RESULTS = [*(ROOT / "results").rglob("*.md"), ROOT / "benchmarks" / "NOTES.md"]
PAGES = sorted(
    [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *(ROOT / "docs").rglob("*.md")]
)


def anchor(heading):
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        path = (page.parent / name) if name else page
        assert path.exists(), target
        if heading:
            assert heading in [anchor(line.lstrip("# ")) for line in path.read_text().splitlines() if line[:1] == "#"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_short_and_begin_with_the_reader_s_task(page):
    text = page.read_text()
    assert len(text.splitlines()) <= (100 if page.name == "README.md" else 150)
    if page.parent == ROOT / "docs":
        assert "After this page you" in text.split("## ")[0]


def test_the_site_has_every_page_and_needs_no_network():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = [path for section in site["nav"] for pages in section.values() for page in pages for path in page.values()]
    assert len(pages) == len(set(pages))
    written = {path for path in pages if not path.startswith("reference/")}
    missing = {path for path in written if not (ROOT / path).exists()}
    assert missing == {"docs/tutorial.md"}, "made from the notebook"
    documents = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "results").glob("*/README.md")]
    assert {str(page.relative_to(ROOT)) for page in documents} <= written
    assert site["theme"]["font"] is False
    assert "http" not in str([site.get(part) for part in ("extra", "extra_css", "extra_javascript")])
