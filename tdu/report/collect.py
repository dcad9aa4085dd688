"""Everything that scores, figures and pages read from folders: runs, sweeps and results, with their problems."""

import csv
import dataclasses
import io
import shlex
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tdu import agents, files, user_code
from tdu.errors import UserError
from tdu.files import Json
from tdu.options import as_json
from tdu.report import readme
from tdu.run import folder as runs
from tdu.run.folder.log import Log
from tdu.run.folder.records import LARGEST_REAL, RECENT, WATCH
from tdu.run.folder.snapshots import Record
from tdu.run.runners.protocol import Clock

ROWS, TEXT, FILM = "runs.csv", "README.md", "film.gif"
_MAX_FILM_BYTES, _MAX_BYTES = 4_000_000, 2**26  # Largest film on a page, and largest file of results that is read


class StoredRun(NamedTuple):
    """A run as its folder holds it."""

    folder: Path
    agent: str  # The agent's label, with the budget where the agent has several on an environment
    config: runs.RunConfig
    result: runs.RunResult | None  # None while the run is not finished
    state: str  # finished, running or interrupted
    date: str  # The day on which the newest of its files was written
    log: Log
    evaluations: Log  # evaluations.csv, and the evaluation at the run's end; empty without --evaluate-every
    record: Record | None
    film: bytes | None
    notes: list[str]  # Problems and warnings

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def has_episodes(self) -> bool:
        return len(self.log.get("episode", ())) > 0

    @property
    def trained_return(self) -> runs.GreedyReturn | None:
        """Return of the trained policy: at the end of the run, or at the last evaluation so far."""
        if self.result is not None and self.result.greedy_return is not None:
            return self.result.greedy_return
        if not self.evaluations:
            return None
        mean, error, episodes, *others = (self.evaluations[name][-1].item() for name in _EVALUATION[2:])
        return runs.GreedyReturn(mean, error, episodes, *(None if np.isnan(number) else number for number in others))

    @property
    def best_return(self) -> float | None:
        end = [] if self.trained_return is None else [self.trained_return.mean]
        return max([*self.evaluations.get("greedy_return", np.zeros(0)).tolist(), *end], default=None)

    @property
    def last_return(self) -> float | None:
        """Mean return of the last training episodes."""
        returns = self.log.get("episode_return", np.zeros(0))[-RECENT:]
        return float(returns.mean()) if len(returns) and np.isfinite(returns).all() else None

    @property
    def has_reached_goal(self) -> bool:
        """Whether the run ended because an evaluation reached its return, or its task was mastered or solved."""
        result, config = self.result, self.config
        if result is None or result.reached_return is not None:
            return result is not None
        is_solving = result.optimal_depth is None or config.until == "solved"
        goal = result.solved_episode if is_solving else result.mastered_episode
        is_early = not config.budget.spent(Clock(result.steps, result.episodes))
        return config.until != "budget" and goal is not None and is_early

    def first_reached(self, target: float) -> tuple[int, int] | None:
        """Episode and step of the first evaluation that returned at least `target`."""
        for episode, steps, mean in zip(*(self.evaluations.get(name, ()) for name in _MOMENT), strict=True):
            if mean >= target:
                return int(episode), int(steps)
        return None


_MOMENT = ("episode", "steps", "greedy_return")
_EVALUATION = (*_MOMENT, "standard_error", "evaluation_episodes", "mean_length", "success_rate")
"""The columns of evaluations.csv, in the order of GreedyReturn's fields."""


class CsvTable(NamedTuple):
    name: str
    columns: list[str]
    rows: list[list[str]]


class Results(NamedTuple):
    """A folder of results/: its README, the figures in it, and its CSV files."""

    name: str
    text: str
    figures: dict[str, bytes]
    tables: list[CsvTable]
    notes: list[str]


class Collected(NamedTuple):
    """Everything that was read, and the reason for each path that was left out."""

    runs: list[StoredRun]
    results: list[Results]
    left_out: dict[str, str]


def collect(paths: Sequence[Path], *, with_records: bool = True) -> Collected:
    """Reads the runs. A damaged one is left out with a reason; it is an error if nothing can be read."""
    found, results, left_out = list[StoredRun](), list[Results](), dict[str, str]()
    for path in dict.fromkeys(paths):
        if not path.is_dir():
            raise UserError(f"{path} is not a folder.")
        inside = [path] if (path / runs.CONFIG).exists() else runs.find_runs(path)
        for folder in inside:
            try:
                found.append(read_run(folder, with_record=with_records))
            except UserError as e:
                left_out[str(folder)] = str(e)
        if (path / ROWS).exists() or (not inside and (path / TEXT).exists()):
            results.append(_read_results(path, left_out))
        elif not inside:
            left_out[str(path)] = "it has no runs in it."
    results = [one for one in results if one.text or one.tables]
    if not found and not results:
        raise UserError(" ".join(f"{name}: {why}" for name, why in left_out.items()) or "there is nothing to show.")
    return Collected(with_budgets(found), results, left_out)


def read_run(folder: Path, *, with_record: bool = False) -> StoredRun:
    """A run's folder. An unreadable config, result or log is an error; other unreadable files are noted."""
    notes: list[str] = []
    config, result = runs.read_config(folder), runs.read_result(folder)
    log, invalid = _usable(runs.read_checked_log(folder, config, result, notes.append))
    if config.agent in agents.AGENTS:  # the code of others is not imported here
        agents.configure(config.agent, config.config)  # refuses unknown options, and values out of range
    agent = label(config)
    if log and "episode" not in log:
        raise UserError("its log has no column episode.")
    state = "finished" if result is not None else "running" if runs.is_in_use(folder) else "interrupted"
    if invalid:
        notes.append(f"its log has values that are not finite in {', '.join(invalid)}; they are ignored.")
    if not log or not len(log["episode"]):
        notes.append("no episode has ended yet.")
    evaluations: Log = {}
    try:
        evaluations = _with_end(_checked(_usable(runs.read_evaluations(folder, config, notes.append))[0]), result)
    except UserError as e:
        notes.append(f"its evaluations are left out: {e}")
    record = None
    try:
        record = runs.read_record(folder, config, notes.append) if with_record else None
    except UserError as e:
        notes.append(f"its record is left out: {e}")
    film = _read_film(folder / FILM, notes.append) if with_record else None
    notes = list(dict.fromkeys(notes))
    return StoredRun(folder, agent, config, result, state, _date(folder), log, evaluations, record, film, notes)


def _usable(log: Log) -> tuple[Log, list[str]]:
    """A log in which numbers that are too large to compute with are not finite, and the columns with such numbers."""
    finite = {n: np.where(np.abs(x) <= LARGEST_REAL, x, np.nan) if x.dtype.kind == "f" else x for n, x in log.items()}
    return finite, [name for name, numbers in finite.items() if not np.isfinite(numbers).all()]


def _checked(evaluations: Log) -> Log:
    if evaluations and not evaluations.keys() >= set(_EVALUATION):
        raise UserError(f"a column is missing; {', '.join(_EVALUATION)} are needed.")
    whole = np.isfinite([evaluations[name] for name in _MOMENT]).all(axis=0) if evaluations else np.zeros(0, bool)
    return {name: numbers[whole] for name, numbers in evaluations.items()} if whole.any() else {}


def _with_end(evaluations: Log, result: runs.RunResult | None) -> Log:
    """Evaluations during the run, and the one at its end where it came later."""
    greedy = result and result.greedy_return
    if not evaluations or result is None or greedy is None or evaluations["episode"][-1] >= result.episodes:
        return evaluations
    end = zip(_EVALUATION, (result.episodes, result.steps, *dataclasses.astuple(greedy)), strict=True)
    return {name: np.append(evaluations[name], np.nan if x is None else x) for name, x in end}


def _read_film(path: Path, note: Callable[[str], None]) -> bytes | None:
    try:
        film = files.read_bytes(path, _MAX_FILM_BYTES)
        if film.startswith((b"GIF87a", b"GIF89a")):
            return film
        note(f"{FILM} is not a GIF and is not shown.")
    except FileNotFoundError:
        pass
    except OSError as e:
        note(f"{FILM} is not shown: {e.strerror}.")
    return None


def _date(folder: Path) -> str:
    files = (folder / name for name in (runs.CONFIG, runs.LOG, runs.RESULT))
    newest = max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
    return time.strftime("%Y-%m-%d", time.localtime(newest))


def _read_results(folder: Path, left_out: dict[str, str]) -> Results:
    """A folder of results; a file that cannot be read is left out with a reason."""
    text, figures, tables, notes = "", dict[str, bytes](), list[CsvTable](), list[str]()
    try:
        text = files.read_bytes(folder / TEXT, _MAX_BYTES).decode()
    except FileNotFoundError:
        notes.append(f"it has no {TEXT}; only its tables are shown.")
    except (OSError, ValueError) as e:
        left_out[str(folder / TEXT)] = f"it cannot be read ({e})."
    for name in readme.figures_of(text):
        try:
            figures[name] = files.read_bytes(folder / name, _MAX_BYTES)
        except OSError as e:
            notes.append(f"its figure {name} is not shown: {e.strerror}.")
    for path in sorted(folder.glob("*.csv")):
        try:
            tables.append(_read_table(path))
        except (OSError, ValueError, csv.Error) as e:
            left_out[str(path)] = f"it cannot be read ({e})."
    return Results(folder.resolve().name, text, figures, tables, notes)


def _read_table(path: Path) -> CsvTable:
    text = io.StringIO(files.read_bytes(path, _MAX_BYTES).decode(), newline="")
    columns, *rows = list(csv.reader(text)) or [[]]
    if not columns or any(len(row) != len(columns) for row in rows):
        raise ValueError("its rows are of different lengths" if columns else "it is empty")
    return CsvTable(path.name, columns, rows)


def groups(shown: Sequence[StoredRun]) -> dict[tuple[str, str], list[StoredRun]]:
    """Runs by environment and agent, in order of appearance. The runs of a group differ in their seed."""
    found: dict[tuple[str, str], list[StoredRun]] = {}
    for run in shown:
        found.setdefault((run.config.env, run.agent), []).append(run)
    return found


def with_budgets(shown: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs, with the budget in the label of an agent that ran an environment with several budgets."""
    budgets: dict[tuple[str, str], set[str]] = {}
    for run in shown:
        budgets.setdefault((run.agent, run.config.env), set()).add(_budget(run))
    several = {agent for (agent, _), some in budgets.items() if len(some) > 1}
    return [run._replace(agent=f"{run.agent} {_budget(run)}") if run.agent in several else run for run in shown]


def _budget(run: StoredRun) -> str:
    limits = (("episodes", run.config.episodes), ("steps", run.config.steps))
    words = [f"{name}={limit}" for name, limit in limits if limit is not None]
    return " ".join(words if run.config.until == "mastered" else [*words, f"until={run.config.until}"])


def budget_axis(shown: Sequence[StoredRun]) -> str:
    """The unit of the runs' budget: steps where one has a budget of steps, else episodes."""
    return "steps" if any(run.config.steps is not None for run in shown) else "episodes"


def label(config: runs.RunConfig) -> str:
    """The agent's name, its nearest preset if that is not the paper's, its changed options, and several environments."""
    preset, changed = _nearest_preset(config)
    words = (f"{k}={'x'.join(map(str, v)) if isinstance(v, list) else v}" for k, v in changed.items())
    return " ".join((config.agent, *(() if preset == "paper" else (preset,)), *words))


def command(config: runs.RunConfig, seeds: Sequence[int]) -> str | None:
    """The command that trains such runs again; None for an environment or an agent that only a script has."""
    is_known = config.agent in agents.AGENTS or config.agent.startswith(user_code.PREFIX)
    if config.env.startswith("object:") or not is_known:
        return None
    preset, changed = _nearest_preset(config)
    flags = {"agent": config.agent, "preset": preset, "episodes": config.episodes, "steps": config.steps}
    flags |= {"until": config.until if config.until != "mastered" else None}
    flags |= {"num_envs": changed.pop("num_envs")} if "num_envs" in changed else {}
    flags |= {"engine": "ray", "actors": config.actors} if config.actors else {}
    flags |= {name: x for name, x in config.to_json().items() if name in ("until_return", "success_return", *WATCH)}
    several = len(seeds) > 1 and sorted(seeds) == list(range(len(seeds)))
    flags |= {"seeds": len(seeds)} if several else {"seed": seeds[0]}
    words = ["tdu", "train", config.env]
    for name, value in (flags | changed).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return shlex.join(words)


def _nearest_preset(config: runs.RunConfig) -> tuple[str, Json]:
    """The preset with the fewest changed options, and the changes, with another number of environments last.

    An agent of the user's, whose code is not imported here, is compared with all agents.
    """

    def changed(name: str, preset: str) -> Json:
        default = _defaults(name, preset)
        return {k: v for k, v in config.config.items() if k not in default or v != default[k]}

    names = [config.agent] if config.agent in agents.AGENTS else [*agents.AGENTS]
    pairs = [(name, preset) for name in names for preset in agents.presets(name)]
    name, preset = min(pairs, key=lambda pair: len(changed(*pair)))
    usual = config.num_envs == agents.default_num_envs(name, preset)
    return preset, changed(name, preset) | ({} if usual else {"num_envs": config.num_envs})


@lru_cache
def _defaults(name: str, preset: str) -> Json:
    return as_json(agents.configure(name, {}, preset))
