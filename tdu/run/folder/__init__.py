"""A run's folder: config.json, log.csv, learner.csv, checkpoints/ and result.json, locked while the run goes on."""

from tdu.run.folder.folder import (
    Folder,
    find_runs,
    make_folder,
    read_checked_log,
    read_config,
    read_evaluations,
    read_record,
    read_result,
    read_template,
)
from tdu.run.folder.log import read_log
from tdu.run.folder.records import GreedyReturn, RunConfig, RunResult, read_json

__all__ = [
    "Folder",
    "GreedyReturn",
    "RunConfig",
    "RunResult",
    "find_runs",
    "make_folder",
    "read_checked_log",
    "read_config",
    "read_evaluations",
    "read_json",
    "read_log",
    "read_record",
    "read_result",
    "read_template",
]
