"""Sweeps: many runs in one folder, on this machine or on a Ray cluster.

A sweep is a folder of runs and nothing else, each a `tdu train` whose folder's name says what it is and carries a few
letters that stand for its whole config. Starting it again continues what is missing or was cut off. A run that fails is
reported and does not stop the others.
"""

import contextlib
import hashlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdu import agents, environments
from tdu.errors import RunError, UserError
from tdu.options import whole_number
from tdu.run import folder as runs
from tdu.run.plan import ask, is_as_asked
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

    @property
    def options_text(self) -> str:
        """The options as a user would read them."""
        return " ".join(f"{name}={_text(value)}" for name, value in self.options)

    @property
    def name(self) -> str:
        """What tells the run from others that a user would tell apart."""
        return " ".join(filter(None, (self.env, self.preset, self.agent, self.options_text, str(self.seed))))

    def config(self) -> runs.RunConfig:
        """All that defines the run, every option of its agent included."""
        unlimited = self.episodes is None and self.steps is None
        return ask(
            self.env,
            self.agent,
            seed=self.seed,
            episodes=environments.default_episodes(self.env) if unlimited else self.episodes,
            steps=self.steps,
            num_envs=self.num_envs,
            until=self.until,
            preset=self.preset,
            options=dict(self.options),
        )

    def job(self, folder: Path) -> Job:
        """The `tdu train` of it."""
        arguments = [self.env, "--agent", self.agent, "--preset", self.preset, "--seed", str(self.seed)]
        arguments += ["--episodes", str(self.episodes)] if self.episodes is not None else []
        arguments += ["--steps", str(self.steps)] if self.steps is not None else []
        usual = agents.default_num_envs(self.agent, self.preset)
        arguments += ["--num-envs", str(self.num_envs)] if self.num_envs != usual else []
        arguments += ["--until", self.until, "--resume-if-there"]
        for option, value in self.options:
            flag = f"--{option.replace('_', '-')}"
            if isinstance(value, bool):
                arguments.append(flag if value else flag.replace("--", "--no-", 1))
            else:
                arguments += [flag, _text(value)]
        return Job(self.name, arguments, run_folder(folder, self.name, self.config()))


def run_folder(parent: Path, name: str, config: runs.RunConfig) -> Path:
    """The folder of a run: its name and a few letters that stand for its whole config.

    Older versions had the name alone. Where such a folder holds the very same run, it is used.
    """
    older = parent / file_name(name)
    if (older / "config.json").exists():
        with contextlib.suppress(RunError):
            if is_as_asked(runs.read_config(older), config):
                return older
    return parent / f"{file_name(name)}-{config.digest()}"


def plan(
    targets: Sequence[str],
    agent_names: Sequence[str],
    *,
    seeds: int = 1,
    grid: dict[str, Sequence[Any]] | None = None,
    preset: str | None = None,
    episodes: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    until: Until = "mastered",
) -> list[Cell]:
    """Every run of a sweep; all options are checked here, before anything runs. Two that are the same run are one.

    Without a preset, each environment has its own (`agents.default_preset`).
    """
    seeds = whole_number("seeds", seeds, 1, 10**6)
    ids = [environments.parse(env).canonical() for target in targets for env in environments.expand(target)]
    envs = list(dict.fromkeys(map(str, ids)))
    for env in envs:
        environments.default_episodes(env)  # refuses what cannot be
    grid = grid or {}
    cells: dict[str, Cell] = {}
    for agent, env in itertools.product(dict.fromkeys(agent_names), envs):
        env_id = environments.parse(env)
        its_preset = preset or agents.default_preset(agent, of_the_paper=env_id.is_of_the_paper, kind=env_id.kind)
        for values in itertools.product(*grid.values()):
            options = tuple(zip(grid, values, strict=True))
            for seed in range(seeds):
                cell = Cell(
                    env,
                    agent,
                    its_preset,
                    options,
                    seed=seed,
                    episodes=episodes,
                    steps=steps,
                    num_envs=agents.default_num_envs(agent, its_preset) if num_envs is None else num_envs,
                    until=until,
                )
                cells.setdefault(cell.config().digest(), cell)
    return list(cells.values())


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """`["beta=0.1,1", "prior_scale=0,3"]` as lists by name; values of a list of numbers are joined with x, as in 64x64."""
    grid: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.replace("-", "_")
        if not equals or not values or not all(values.split(",")):
            raise UserError(f"'{text}' is not a grid; write name=value,value.")
        if name in grid:
            raise UserError(f"the grid names {name} twice; write all its values at once.")
        chosen = values.split(",")
        twice = next((v for v in chosen if chosen.count(v) > 1), None)
        if twice is not None:
            raise UserError(
                f"the grid names {name}={twice} twice; a list of numbers is written with x, as in {twice}x{twice}."
            )
        grid[name] = [v.replace("x", ",") if re.fullmatch(r"\d+(x\d+)+", v) else v for v in chosen]
    return grid


def missing(cells: Sequence[Cell], folder: Path) -> list[Job]:
    """Jobs of the runs that have not finished."""
    return [job for cell in cells for job in [cell.job(folder)] if not _is_finished(cell, job.out)]


def _is_finished(cell: Cell, out: Path) -> bool:
    """Whether the very run is there; of anything else in its folder, the run itself will say what is wrong with it."""
    try:
        return is_as_asked(runs.read_config(out), cell.config()) and runs.read_result(out) is not None
    except RunError:
        return False


def file_name(text: str) -> str:
    """A text as the name of a file: no odd characters, and not longer than file systems allow."""
    name = re.sub(r"[^A-Za-z0-9=.,_]", "-", text)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


_LONGEST = 180


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
