"""What the pages tell people to type works as it stands there, made shorter."""

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def test_the_readme_s_many_seeds_in_one_call():
    (snippet,) = [s for s in snippets("README.md") if "vmap" in s]
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
    assert log.real.shape == (8, 60, 3)
    np.testing.assert_array_equal(log.length[:, :15], 4)
    assert len(np.unique(log.real[:, :15, 0].sum(axis=1))) > 1, "eight seeds are eight runs"


def test_your_own_environment_in_five_lines(tmp_path, monkeypatch, capsys):
    (snippet,) = [s for s in snippets("docs/environments.md") if "FrozenLake" in s]
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 5
    monkeypatch.chdir(tmp_path)
    exec(snippet.replace("episodes=500", "episodes=3, evaluation_episodes=0"), {})
    assert (tmp_path / "runs" / "lake" / "result.json").exists()
    assert re.fullmatch(r"[\d.]+ \d\n", capsys.readouterr().out)
