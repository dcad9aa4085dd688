"""`train`: an agent on an environment, from the first step to the result. `load`: a run that was."""

import dataclasses
import math
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdu import agents, checkpoints, environments, runs
from tdu import track as tracking
from tdu.environments import MadeEnvironment
from tdu.errors import RunError, TrainingError, UserError
from tdu.options import whole_number
from tdu.runners.compiled import CompiledRunner
from tdu.runners.protocol import Budget
from tdu.runners.rows import WALL_TIME, Row, columns
from tdu.runners.stepwise import StepwiseRunner
from tdu.trained import TrainedAgent
from tdu.types import Agent, Environment, EnvSpec

_RECENT = 100
"""`mean_return` is over so many last episodes."""


class Report(NamedTuple):
    """What a progress display is told after every piece of a run."""

    spec: EnvSpec
    episode: int
    episodes: int
    steps: int
    seconds: float
    """Time spent running, compilation left out, over the whole run."""
    session_seconds: float
    session_episodes: int
    session_steps: int
    last: Row | None
    mean_return: float
    bad_share: float | None


class Run(NamedTuple):
    """A run: its result, its log as arrays by column, and the agent as it is at its end."""

    result: dict[str, Any]
    log: dict[str, np.ndarray]
    agent: TrainedAgent


def train(
    env: Any,
    agent: str = "tdu",
    *,
    seed: int = 0,
    episodes: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    stop: bool = True,
    preset: str = "paper",
    checkpoint_seconds: float = 60.0,
    progress: Callable[[Report], None] | None = None,
    compiling: Callable[[], None] | None = None,
    say: Callable[[str], None] = print,
    track: str | None = None,
    **options: Any,
) -> Run:
    """Trains an agent and returns the run.

    Args:
        env: an environment's id, for example "deep_sea:size=20", or a dm_env object.
        agent: an agent's name.
        seed: of everything random in the run.
        episodes: at most so many; by default what the environment says.
        out: the run's folder; without one the run leaves nothing on the disk.
        resume: continue the run in that folder.
        stop: end once the environment counts as solved, where it has a rule for that.
        preset: set of defaults, "paper" or "boot_dqn".
        checkpoint_seconds: time between checkpoints.
        progress: called after every piece of the run.
        compiling: called when there is nothing left but to compile and run.
        say: called with anything worth telling, a damaged checkpoint for example.
        track: "tensorboard" or "wandb", to log every episode there too.
        **options: fields of the agent's config.
    """
    asked, made = plan(env, agent, seed=seed, episodes=episodes, stop=stop, preset=preset, **options)
    if checkpoint_seconds < 0 or not math.isfinite(checkpoint_seconds):
        raise UserError(f"checkpoint_seconds must be at least 0, not {checkpoint_seconds}.")

    def session(folder: runs.Folder | None) -> _Session:
        if compiling is not None:
            compiling()
        return _Session(asked, made, folder, progress, say, checkpoint_seconds, track)

    if out is None:
        if resume:
            raise RunError("there is nothing to resume without a folder; give out.")
        return session(None).run()
    folder = runs.Folder(out, resume=resume)
    try:
        found = folder.read_config()
        if found is None:
            folder.write_config(asked)
        elif found != asked:
            raise RunError(f"{folder.path} was started with {_difference(found, asked)}; resume it with the same.")
        if folder.read_result() is not None:
            say(f"{folder.path} is finished already.")
            return load(folder.path, made, say)
        return session(folder).run()
    finally:
        folder.close()


def plan(
    env: Any, agent: str, *, seed: int, episodes: int | None, stop: bool, preset: str, **options: Any
) -> tuple[dict[str, Any], MadeEnvironment]:
    """Everything that defines a run, checked, as config.json holds it; and the environment."""
    seed = whole_number("seed", seed, 0, 2**32 - 1)
    config = agents.configure(agent, options, preset)
    made = environments.make(env, seed)
    spec = made.spec
    episodes = spec.default_episodes if episodes is None else episodes
    episodes = whole_number("episodes", episodes, 1, 2**31 - 1)
    fields = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(config).items()}
    name = env if isinstance(env, str) else _object_name(spec)
    return {"env": name, "agent": agent, "seed": seed, "episodes": episodes, "stop": stop, "config": fields}, made


def _object_name(spec: EnvSpec) -> str:
    """What a run's config calls an environment that has no id."""
    return f"object:{spec.name}:{spec.observation_shape}:{spec.num_actions}"


def load(path: str | Path, env: Any = None, say: Callable[[str], None] = print) -> Run:
    """A run from its folder: finished, or as it was at its last checkpoint.

    A run on an environment object of the user's needs that object again, as `env`.
    """
    path = Path(path)
    if not (path / "config.json").exists():
        raise RunError(f"{path} is not a run's folder.")
    config = runs.read_config(path)
    if env is None and config["env"].startswith("object:"):
        raise RunError(
            f"{path} was trained on an object; from Python, tdu.load and tdu.evaluate take that object as env."
        )
    if not isinstance(env, Environment | PythonEnvironment):
        env = environments.make(config["env"] if env is None else env, config["seed"])
    if config["env"].startswith("object:") and _object_name(env.spec).split(":")[2:] != config["env"].split(":")[2:]:
        raise RunError(
            f"{path} was trained on {config['env'].split(':')[1]}, which {env.spec.name} does not look like."
        )
    runner, agent = _make_runner(config, env, compiled=False)
    found = _latest(path, config, runner, say, set_aside=False)
    if found is None:
        raise RunError(f"{path} has no checkpoint yet.")
    state, manifest = found
    result_path = path / "result.json"
    result = runs.read_json(result_path) if result_path.exists() else {}
    log = runs.read_log(path / "log.csv", upto=None if result else manifest["log_bytes"])
    return Run(result, log, TrainedAgent(runner.spec, agent, state.mind.state))


class _Session:
    """One sitting of a run: from its start or its last checkpoint to its end."""

    def __init__(
        self,
        config: dict[str, Any],
        env: MadeEnvironment,
        folder: runs.Folder | None,
        progress: Callable[[Report], None] | None,
        say: Callable[[str], None],
        checkpoint_seconds: float,
        track: str | None,
    ):
        self._track: Callable[[Row], None] | None = None
        self._end_track: Callable[[], None] | None = None
        if track:
            self._track, self._end_track = tracking.start(track, folder.path if folder else None, config)
        self._config, self._folder, self._progress = config, folder, progress
        self._checkpoint_seconds = checkpoint_seconds
        self._runner, self._agent = _make_runner(config, env)
        self._columns = tuple(c.name for c in columns(self._runner.spec))
        self._seconds = 0.0
        self._rows: list[Row] = []
        self._log: dict[str, np.ndarray] = {name: np.zeros(0) for name in self._columns}
        if folder is not None:
            self._resume(folder, say)

    def _resume(self, folder: runs.Folder, say: Callable[[str], None]) -> None:
        found = _latest(folder.path, self._config, self._runner, say, set_aside=True)
        at = 0
        if found is not None:
            state, manifest = found
            at = manifest["log_bytes"]
            self._seconds = manifest["seconds"]
            self._log = runs.read_log(folder.path / "log.csv", upto=at)
            self._runner.restore(state, manifest["plain"], self._log)
        folder.open_log(self._columns, at=at)

    def run(self) -> Run:
        """The run to its end."""
        try:
            return self._run()
        finally:
            if self._end_track is not None:
                self._end_track()

    def _run(self) -> Run:
        runner, folder = self._runner, self._folder
        before = self._seconds
        first_episode, first_step = runner.progress.episode, runner.clock.steps
        started = saved = time.perf_counter()
        while not runner.finished:
            steps = runner.clock.steps
            rows = runner.advance()
            if runner.clock.steps == steps:
                raise TrainingError(f"the run stands still at episode {runner.progress.episode}; start it anew.")
            now = time.perf_counter()
            self._seconds = before + now - started
            for row in rows:
                row[WALL_TIME] = round(self._seconds, 3)
                if not math.isfinite(row["loss"]):
                    raise TrainingError(
                        f"the loss stopped being finite in episode {row['episode']}; try a smaller "
                        "learning_rate, a larger target_period or bootstrap=double."
                    )
                if self._track is not None:
                    self._track(row)
            self._rows += rows
            if folder is not None:
                folder.append(rows)
                if now - saved >= self._checkpoint_seconds and not runner.finished:
                    self._checkpoint(folder)
                    # Time spent on the disk is not time spent learning.
                    saved = time.perf_counter()
                    started += saved - now
            if self._progress is not None:
                self._progress(self._report(before, first_episode, first_step))
        log = self._whole_log()
        result = self._result(log)
        if folder is not None:
            self._checkpoint(folder)
            folder.write_result(result)
        return Run(result, log, TrainedAgent(runner.spec, self._agent, runner.params()))

    def _checkpoint(self, folder: runs.Folder) -> None:
        arrays, plain = self._runner.save()
        manifest = {"run": _identity(self._config), "seconds": self._seconds, "plain": plain}
        folder.save_checkpoint(self._runner.clock.steps, arrays, manifest)

    def _whole_log(self) -> dict[str, np.ndarray]:
        new = runs.rows_to_arrays(self._rows, self._columns)
        return {name: np.concatenate([self._log[name], new[name]]).astype(new[name].dtype) for name in self._columns}

    def _result(self, log: dict[str, np.ndarray]) -> dict[str, Any]:
        runner = self._runner
        result = {
            **{k: self._config[k] for k in ("env", "agent", "config", "seed")},
            "episodes": runner.progress.episode,
            "steps": runner.clock.steps,
            "seconds": round(self._seconds, 3),
            "steps_per_second": round(runner.clock.steps / self._seconds, 1) if self._seconds else None,
            "mean_return": float(np.mean(log["episode_return"][-_RECENT:])),
        }
        if runner.spec.solved is not None:
            result["solved_episode"] = runner.progress.solved_episode
        return result

    def _report(self, before: float, first_episode: int, first_step: int) -> Report:
        runner = self._runner
        done = runner.progress.episode
        recent = [row["episode_return"] for row in self._rows[-_RECENT:]]
        return Report(
            spec=runner.spec,
            episode=done,
            episodes=self._config["episodes"],
            steps=runner.clock.steps,
            seconds=self._seconds,
            session_seconds=self._seconds - before,
            session_episodes=done - first_episode,
            session_steps=runner.clock.steps - first_step,
            last=self._rows[-1] if self._rows else None,
            mean_return=float(np.mean(recent)) if recent else math.nan,
            bad_share=runner.progress.total_bad / done if runner.spec.solved and done else None,
        )


def _make_runner(config: dict[str, Any], env: MadeEnvironment, *, compiled: bool = True) -> tuple[Any, Agent]:
    entry = agents.find(config["agent"])
    agent = _make_agent(entry.make, env.spec, agents.configure(config["agent"], config["config"]))
    settings: dict[str, Any] = {"budget": Budget(config["episodes"]), "stop": config["stop"]}
    if not isinstance(env, Environment):
        return StepwiseRunner(env, agent, config["seed"], **settings), agent
    return CompiledRunner(env, agent, config["seed"], **settings, compiled=compiled), agent


@lru_cache(maxsize=8)
def _make_agent(make: Callable[[EnvSpec, Any], Agent], spec: EnvSpec, config: Any) -> Agent:
    """One object for one agent, so that its second run needs no compilation."""
    return make(spec, config)


def _latest(
    path: Path, config: dict[str, Any], runner: Any, say: Callable[[str], None], *, set_aside: bool
) -> tuple[Any, dict[str, Any]] | None:
    identity = _identity(config)

    def fits(manifest: dict[str, Any]) -> str | None:
        if manifest["run"] != identity:
            return "it belongs to another run"
        return None if runs.log_matches(path / "log.csv", manifest) else "log.csv is not the log it belongs to"

    return checkpoints.load_latest(path / "checkpoints", runner.save()[0], fits, say, set_aside=set_aside)


def _identity(config: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint must have in common with the run that loads it."""
    return {k: config[k] for k in ("env", "agent", "seed", "config")}


def _difference(found: dict[str, Any], asked: dict[str, Any]) -> str:
    flat = [{**{k: v for k, v in c.items() if k != "config"}, **c.get("config", {})} for c in (found, asked)]
    names = [k for k in {**flat[0], **flat[1]} if flat[0].get(k) != flat[1].get(k)]
    return ", ".join(f"{k}={flat[0].get(k)!r} and not {flat[1].get(k)!r}" for k in names[:3])
