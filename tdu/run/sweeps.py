"""Sweeps: many runs in one folder, on this machine or on a Ray cluster.

A sweep is a folder of runs. The name of a run's folder has its settings and a few characters of its config's checksum.
Starting a sweep again continues the runs that are missing or were interrupted. A failed run does not stop the others.
"""

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdu import agents, environments
from tdu.errors import RunError, UserError
from tdu.options import whole_number
from tdu.run.folder import RunConfig, read_config, read_result
from tdu.run.plan import resolve
from tdu.run.processes import Job
from tdu.run.runners.mastery import Until


class Cell(NamedTuple):
    """One run of a sweep."""

    env: str
    agent: str
    preset: str
    options: tuple[tuple[str, Any], ...] = ()
    seed: int = 0
    episodes: int | None = None
    steps: int | None = None
    num_envs: int = 1
    until: Until = "mastered"
    until_return: float | None = None
    success_return: float | None = None

    @property
    def options_text(self) -> str:
        return " ".join(f"{name}={_text(value)}" for name, value in self.options)

    @property
    def name(self) -> str:
        """The run's name in progress displays."""
        return " ".join(filter(None, (self.env, self.preset, self.agent, self.options_text, str(self.seed))))

    def settings(self) -> dict[str, Any]:
        """The settings of the run, as a config file for `tdu train --config` holds them."""
        return {name: value for name, value in self._asdict().items() if name != "options" and value is not None} | {
            "config": dict(self.options)
        }

    def config(self) -> RunConfig:
        settings = self.settings()
        return resolve(**settings.pop("config"), **settings).config

    def job(self, folder: Path) -> Job:
        out = run_folder(folder, self.name, self.config())
        return Job(self.name, ["--resume-if-there"], out, self.settings())


def run_folder(parent: Path, name: str, config: RunConfig) -> Path:
    """The folder of a run: its name and a few characters of its config's checksum."""
    return parent / f"{file_name(name)}-{config.digest()}"


def plan(
    targets: Sequence[str],
    agent_names: Sequence[str],
    *,
    seeds: int = 1,
    grid: dict[str, Sequence[Any]] | None = None,
    preset: str | None = None,
    num_envs: int | None = None,
    **settings: Any,
) -> list[Cell]:
    """Every run of a sweep, without duplicates, checked before anything runs. `settings` are fields of `Cell`.

    Without `preset`, each environment has its default (`agents.default_preset`).
    """
    seeds = whole_number("seeds", seeds, 1, 10**6)
    ids = [environments.parse(env).canonical() for target in targets for env in environments.expand(target)]
    envs = list(dict.fromkeys(map(str, ids)))
    for env in envs:
        environments.default_episodes(env)  # refuses an unknown id
    grid = grid or {}
    cells: dict[str, Cell] = {}
    for agent, env in itertools.product(dict.fromkeys(agent_names), envs):
        env_id = environments.parse(env)
        chosen = preset or agents.default_preset(agent, of_the_paper=env_id.is_of_the_paper, kind=env_id.kind)
        for values in itertools.product(*grid.values()):
            options = tuple(zip(grid, values, strict=True))
            size = agents.default_num_envs(agent, chosen) if num_envs is None else num_envs
            for seed in range(seeds):
                cell = Cell(env, agent, chosen, options, seed=seed, num_envs=size, **settings)
                cells.setdefault(cell.config().digest(), cell)
    return list(cells.values())


def spread(cells: Sequence[Cell]) -> list[Cell]:
    """The same runs, ordered so that every part of them from the start covers all experiments and their settings evenly.

    The first setting of each experiment comes first, then one that is far from it, then those half as far, and so on.
    """
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        name = environments.parse(cell.env).experiment or cell.env
        groups.setdefault((name, cell.agent, cell.preset, cell.options_text, str(cell.seed)), []).append(cell)
    turns = [(turn, cell) for group in groups.values() for turn, cell in zip(_turns(len(group)), group, strict=True)]
    return [cell for _, cell in sorted(turns, key=lambda of: of[0])]


def _turns(count: int) -> list[int]:
    """For each of `count` places, when its turn is: in the order of the van der Corput sequence."""
    bits = max(count - 1, 1).bit_length()
    order = sorted(range(count), key=lambda place: int(f"{place:0{bits}b}"[::-1], 2))
    return [order.index(place) for place in range(count)]


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """`["beta=0.1,1", "prior_scale=0,3"]` as lists by name. A value that is itself a list is joined with x: 64x64."""
    grid: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.replace("-", "_")
        if not equals or not values or not all(values.split(",")):
            raise UserError(f"'{text}' is not a grid; write name=value,value.")
        if name in grid:
            raise UserError(f"--grid has {name} twice; write all its values in one --grid.")
        chosen = values.split(",")
        twice = next((v for v in chosen if chosen.count(v) > 1), None)
        if twice is not None:
            raise UserError(f"--grid has {name}={twice} twice; write a list of numbers with x, as in {twice}x{twice}.")
        grid[name] = [v.replace("x", ",") if re.fullmatch(r"\d+(x\d+)+", v) else v for v in chosen]
    return grid


def missing(cells: Sequence[Cell], folder: Path) -> list[Job]:
    """Jobs of the runs that have not finished."""
    return [job for cell in cells for job in [cell.job(folder)] if not _is_finished(cell, job.out)]


def _is_finished(cell: Cell, out: Path) -> bool:
    """Whether this very run has finished there. If the folder holds anything else, the run itself reports the error."""
    try:
        stored, config = read_config(out), cell.config()
        if config.episodes is None and config.steps is None and stored.steps is None:  # the environment's default
            config = dataclasses.replace(config, episodes=stored.episodes)
        return stored.unwatched() == config and read_result(out) is not None
    except RunError:
        return False


def file_name(text: str) -> str:
    """A text as a file name: no special characters, and short enough for every file system."""
    name = re.sub(r"[^A-Za-z0-9=.,_]", "-", text)
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


_MAX_NAME = 180


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
