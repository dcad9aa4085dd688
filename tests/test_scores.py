"""bsuite's official scores: equal to bsuite 0.3.6's own code, by golden values it gave on an old pandas."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bsuite import sweep
from bsuite.logging import csv_load
from bsuite.utils import wrappers

from tdu.errors import UserError
from tdu.reporting import bsuite_scores, summary

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def logs():
    return pd.read_csv(GOLDEN / "bsuite_logs.csv.gz")


@pytest.fixture(scope="module")
def golden():
    return json.loads((GOLDEN / "bsuite_scores.json").read_text())["agents"]


def test_scores_equal_bsuite_s_own(logs, golden):
    assert len(golden) >= 5
    for agent, expected in golden.items():
        scores = bsuite_scores.score_frame(logs[logs.agent == agent].drop(columns="agent"))
        assert len(scores) == 23
        for score in scores:
            assert score.score == pytest.approx(expected["scores"][score.experiment], abs=1e-12, nan_ok=True), (
                agent,
                score,
            )
            assert score.finished == expected["finished"][score.experiment]
        assert bsuite_scores.by_tag(scores) == pytest.approx(expected["tags"], abs=1e-12, nan_ok=True)


def test_the_golden_agents_differ_and_some_have_not_finished(golden):
    assert not all(golden["unfinished"]["finished"].values())
    assert golden["perfect"]["scores"]["deep_sea"] > 0.9 > golden["poor"]["scores"]["deep_sea"]
    for experiment in golden["good"]["scores"]:
        assert len({round(agent["scores"][experiment], 6) for agent in golden.values()}) > 1, experiment


def test_rows_are_written_when_bsuite_writes_them():
    theirs = {episode for episode in range(1, 12_346) if wrappers._logarithmic_logging(episode)}
    assert bsuite_scores.logged_episodes(12_345) == theirs


def test_csv_is_read_by_bsuite(tmp_path):
    episodes = np.arange(1, 31)
    log = dict.fromkeys(("steps", "total_return", "episode_len", "episode_return", "total_regret"), episodes * 1.0)
    log |= {"episode": episodes, "head": episodes, "bonus": episodes, "loss": episodes, "seconds": episodes}
    bsuite_scores.write_csv(log, "catch/3", tmp_path)
    frame, _ = csv_load.load_bsuite(str(tmp_path))
    assert set(frame.bsuite_id) == {"catch/3"}
    assert set(frame.bsuite_env) == {"catch"}
    assert sorted(frame.episode) == sorted(bsuite_scores.logged_episodes(30))
    assert "head" not in frame


def test_a_log_of_another_version_is_refused(logs):
    frame = logs[(logs.agent == "good") & (logs.bsuite_id == "catch/0")].drop(columns="agent")
    with pytest.raises(UserError, match="no id of bsuite"):
        bsuite_scores.score_frame(frame.assign(bsuite_id="catch/99"))
    with pytest.raises(UserError, match="lack what bsuite"):
        bsuite_scores.score_frame(frame.drop(columns="total_regret"))


def test_every_id_is_known():
    assert len(sweep.SWEEP) == 468


def test_the_table_says_what_its_scores_stand_on():
    scored = {
        "scores": {"catch": 0.9, "bandit": 0.5},
        "by_seed": {"catch": [0.8, 1.0], "bandit": [0.5]},
        "finished": {"catch": True, "bandit": False},
        "settings": {"catch": [20, 20], "bandit": [1, 20]},
        "tags": {"basic": 0.7},
    }
    found = {"runs": 3, "unfinished": [], "agents": {"tdu": {"environments": {}, "bsuite": scored}}}
    table = summary.as_text(found, published=True)
    assert "| catch | 0.900 (0.800–1.000) |" in table
    assert "| bandit (1 of 20 settings) * | 0.500 |" in table
    assert "not all episodes" in table
    assert "over all settings" in table
