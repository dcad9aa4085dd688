"""Runs of an agent on an environment.

`train.py` is the entry point. `plan.py` resolves the settings into one config and makes the runner. `loop.py` advances the
runner, and `observers.py` has what watches it: logs, checkpoints, evaluations, recordings (`recording.py`), trackers
(`track.py`), warnings and progress reports (shown by `progress.py`). `runners/` has the runners, `folder/` the files of a
run. `trained.py` is a trained agent and its greedy episodes; `stored.py` loads and evaluates a run. `processes.py` starts
several runs, `sweeps.py` plans them, `signals.py` and `one_core.py` deal with the system, and `bsuite_agent.py` is an
agent for bsuite's own loop.
"""
