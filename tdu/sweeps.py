"""Sweeps: many runs in one folder, on this machine or on a Ray cluster.

A sweep is a folder of runs and nothing else, each a `tdu train` whose folder's name says what it is. Starting it again
continues what is missing or was cut off. A run that fails is reported and does not stop the others.
"""

import hashlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdu import agents, environments, runs
from tdu.environments import bsuite
from tdu.errors import RunError, UserError
from tdu.options import whole_number
from tdu.runners.parallel import Job


class Cell(NamedTuple):
    """One run of a sweep."""

    env: str
    agent: str
    preset: str = "paper"
    options: tuple[tuple[str, Any], ...] = ()
    seed: int = 0
    episodes: int | None = None
    stop: bool = True

    @property
    def words(self) -> str:
        """The options as a user would read them."""
        return " ".join(f"{name}={_text(value)}" for name, value in self.options)

    @property
    def name(self) -> str:
        """What tells the run from others."""
        return " ".join(filter(None, (self.env, self.preset, self.agent, self.words, str(self.seed))))

    def job(self, folder: Path) -> Job:
        """The `tdu train` of it."""
        arguments = [self.env, "--agent", self.agent, "--preset", self.preset, "--seed", str(self.seed), "--resume"]
        arguments += ["--episodes", str(self.episodes)] if self.episodes is not None else []
        arguments += [] if self.stop else ["--no-stop"]
        for option, value in self.options:
            flag = f"--{option.replace('_', '-')}"
            if isinstance(value, bool):
                arguments.append(flag if value else flag.replace("--", "--no-", 1))
            else:
                arguments += [flag, _text(value)]
        return Job(self.name, arguments, folder / file_name(self.name))


def expand(target: str) -> list[str]:
    """Environment ids of a target.

    `bsuite` is all of bsuite; `bsuite:testing` or `bsuite:` and a tag of it a part of it; an experiment's name all of its
    settings; anything else an environment's id.
    """
    if not target.strip():
        raise UserError("a target is empty; name an environment, a bsuite experiment, or bsuite for all of it.")
    if target == "bsuite" or (target.startswith("bsuite:") and "/" not in target):
        return bsuite.ids(target.partition(":")[2])
    if not set(target) & set(":/") and target not in environments.BUILT_IN:
        return bsuite.ids(target)
    if target in bsuite.DEEP_SEAS:
        return bsuite.ids(target)
    return [target]


def plan(
    targets: Sequence[str],
    agent_names: Sequence[str],
    *,
    seeds: int = 1,
    grid: dict[str, Sequence[Any]] | None = None,
    preset: str = "paper",
    episodes: int | None = None,
    stop: bool = True,
) -> list[Cell]:
    """Every run of a sweep; all options are checked here, before anything runs."""
    seeds = whole_number("seeds", seeds, 1, 10**6)
    if episodes is not None:
        episodes = whole_number("episodes", episodes, 1, 2**31 - 1)
    envs = list(dict.fromkeys(env for target in targets for env in expand(target)))
    for env in envs:
        environments.default_episodes(env)  # refuses what cannot be
    grid = grid or {}
    cells = []
    for agent, env in itertools.product(dict.fromkeys(agent_names), envs):
        for values in itertools.product(*grid.values()):
            options = tuple(zip(grid, values, strict=True))
            agents.configure(agent, dict(options), preset)
            cells += [Cell(env, agent, preset, options, seed, episodes, stop) for seed in range(seeds)]
    return cells


def parse_grid(words: Sequence[str]) -> dict[str, list[str]]:
    """`["beta=0.1,1", "prior_scale=0,3"]` as lists by name; values of a list of numbers are joined with x, as in 64x64."""
    grid: dict[str, list[str]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not values or not all(values.split(",")):
            raise UserError(f"'{word}' is not a grid; write name=value,value.")
        if name in grid:
            raise UserError(f"the grid names {name} twice; write all its values at once.")
        grid[name] = [v.replace("x", ",") if re.fullmatch(r"\d+(x\d+)+", v) else v for v in values.split(",")]
    return grid


def missing(cells: Sequence[Cell], folder: Path) -> list[Job]:
    """Jobs of the runs that have not finished. One that has, but was asked for otherwise, is an error."""
    return [job for cell in cells for job in [cell.job(folder)] if not _finished(cell, job.out)]


def _finished(cell: Cell, out: Path) -> bool:
    if not (out / "result.json").exists():
        return False
    try:
        config, _ = runs.read_config(out), runs.read_result(out)
    except RunError:
        return False  # the run itself will say what is wrong with its folder
    asked = {"episodes": cell.episodes or environments.default_episodes(cell.env), "stop": cell.stop}
    for name, value in asked.items():
        if value is not None and config[name] != value:
            raise RunError(f"{out} was run with {name}={config[name]} and not {value}; choose another --out.")
    return True


def found(folder: Path) -> list[Path]:
    """The folder of every run in a sweep's."""
    return sorted(path.parent for path in folder.glob("*/config.json"))


def file_name(words: str) -> str:
    """Words as the name of a file: no odd characters, and not longer than file systems allow."""
    name = re.sub(r"[^A-Za-z0-9=.,_]", "-", words)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


_LONGEST = 180


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
