"""Short versions of the kill and damage tests of runs; the long versions are in `benchmarks/`."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script, out, *arguments):
    command = [sys.executable, str(BENCHMARKS / script), *arguments, "--out", str(out)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return process, json.loads(out.read_text()) if out.exists() else None


def test_a_killed_run_comes_out_the_same(tmp_path):
    process, outcome = run("kill_and_resume.py", tmp_path / "kills.json", "--short", "--kinds", "compiled,vector")
    assert process.returncode == 0, process.stderr
    assert outcome["kinds"].keys() == {"compiled", "vector"}
    for kind in outcome["kinds"].values():
        assert kind["counts"]["kills"] == 1
        assert kind["counts"]["while_writing"] + kind["counts"]["between"] == 1
        assert kind["mismatches"] == []


def test_a_damaged_folder_gives_the_same_numbers_or_one_sentence(tmp_path):
    process, outcome = run("mutations.py", tmp_path / "mutations.json", "--mutations", "30", "--kinds", "bsuite")
    assert outcome is not None, process.stderr
    assert sum(outcome["outcomes"].values()) == 30 * 5
    assert outcome["outcomes"]["exact"] > 40
    assert outcome["outcomes"]["refused"] > 40
    assert outcome["violations"] == []
