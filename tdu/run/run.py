"""A run that is over or paused: `Run`."""

import copy
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

from tdu.environments.vector import Plain
from tdu.errors import RunError
from tdu.run.folder import EVALUATIONS, LEARNER_LOG, LOG, Folder, RunConfig, RunResult
from tdu.run.folder.log import Log, rows_of
from tdu.run.runners.protocol import Saved
from tdu.run.runners.rows import columns
from tdu.run.trained import TrainedAgent


class Best(NamedTuple):
    """The best agent of a run that has no folder."""

    leaves: dict[str, jax.Array]
    """Copies of the state's arrays by their path, without those of the replay, which is not needed to act."""
    plain: Plain
    step: int
    seconds: float
    rows: dict[str, int]
    """Length of each log at the time."""

    @classmethod
    def of(cls, saved: Saved, *, step: int, seconds: float, rows: dict[str, int]) -> "Best":
        named = ((jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(saved.state))
        leaves = {name: jnp.copy(leaf) for name, leaf in named if "replay" not in name}
        return cls(leaves, copy.deepcopy(saved.plain), step, seconds, rows)

    def put_into(self, saved: Saved) -> Saved:
        """The best agent's state, with the replay of `saved`."""
        state = jax.tree_util.tree_map_with_path(
            lambda path, leaf: self.leaves.get(jax.tree_util.keystr(path), leaf), saved.state
        )
        return Saved(state, {}, self.plain)


class Moment(NamedTuple):
    """The end of a run that has no folder. It can be continued from there."""

    saved: Saved
    seconds: float
    """Time spent running."""
    learner_log: Log
    result: RunResult
    best: Best | None
    """None if the run was not evaluated."""

    def copied_state(self) -> Saved:
        """A copy of the state, for a run that will change it."""
        state, arrays, plain, segments = self.saved
        return Saved(jax.tree.map(jnp.copy, state), dict(arrays), copy.deepcopy(plain), segments)


class Runs(tuple["Run", ...]):
    """Runs that differ in their seed."""

    @property
    def returns(self) -> np.ndarray:
        """Evaluation return at the end of each run; nan where there was no evaluation."""
        found = [run.result.get("greedy_return") for run in self]
        return np.array([math.nan if one is None else one["mean"] for one in found])

    @property
    def mean(self) -> float:
        """Mean of `returns`."""
        return float(np.mean(self.returns))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean (Student's t); nan for a single run."""
        count = len(self)
        half = stdtrit(count - 1, 0.975) * np.std(self.returns, ddof=1) / math.sqrt(count) if count > 1 else math.nan
        return self.mean - float(half), self.mean + float(half)

    def __repr__(self) -> str:
        low, high = self.interval
        return "\n".join(
            [*map(repr, self), f"evaluation return {self.mean:.4g}, 95 % interval {low:.4g} to {high:.4g}"]
        )


@dataclass(frozen=True, repr=False)
class Run:
    """A run: its result, its log, its trained agent and its config."""

    result: dict[str, Any]
    """The content of result.json; empty if the run has not finished, and with its best agent."""
    log: Log
    """Arrays by column."""
    agent: TrainedAgent
    config: RunConfig
    evaluations: Log
    """Evaluations during the run (`evaluate_every`), arrays by column; empty without."""
    source: object = None
    """The environment's id, or the object that was given."""
    path: Path | None = None
    """Its folder."""
    moment: Moment | None = None
    """Its end, if it has no folder. It holds the whole state, replay included."""

    def __repr__(self) -> str:
        config, result = self.config, self.result
        words = [f"env={config.env!r}", f"agent={config.agent!r}", f"seed={config.seed}"]
        words.append(f"episodes={len(self.log.get('episode', ()))}")
        if not result:
            return f"Run({', '.join(words)}, not finished)"
        goal = "mastered_episode" if "mastered_episode" in result else "solved_episode"
        words += [f"{goal}={result[goal]}"] if goal in result else []
        greedy = result["greedy_return"]
        returns = {"evaluation_return": greedy and greedy["mean"], "training_return": result["mean_return"]}
        words += [f"{name}={mean if mean is None else round(mean, 4)}" for name, mean in returns.items()]
        return f"Run({', '.join(words)})"

    def train(self, **settings: Any) -> "Run":
        """Trains the run longer, and returns it as it is then.

        The result equals that of a run with these limits from the start. If the run has a folder, it is continued there.

        Examples:
            >>> run = tdu.train("deep_sea:size=20", steps=40_000)
            >>> run = run.train(steps=60_000)

        Args:
            **settings: `steps` or `episodes`, the new limits of the whole run; `until`; and how it is watched, as in
                `tdu.train`: `callbacks`, `progress`, `evaluate_every` …
        """
        from tdu.run.train import train  # which imports this file

        if self.moment is not None:
            return train(self.source, config=self.config, continued=self, **settings)
        assert self.path is not None
        assert self.agent.origin is not None
        name = self.config.agent
        agent = name if self.agent.origin.agent == name else None  # else it was loaded under a name of the user's
        return train(self.source, agent, config=self.path, out=self.path, resume=True, **settings)

    def save(self, path: str | Path) -> None:
        """Writes a run that was trained without `out` to a new folder, as `tdu train` would have left it."""
        if self.moment is None:
            raise RunError(f"this run is already saved in {self.path}; copy that folder.")
        saved, seconds, learner_log, result, best = self.moment
        logs = {LOG: self.log, LEARNER_LOG: learner_log, EVALUATIONS: self.evaluations}
        rows = {name: rows_of(log) for name, log in logs.items()}
        before = dict.fromkeys(rows, 0) if best is None else best.rows
        folder = Folder(path, resume=False)
        try:
            folder.write_config(self.config)
            folder.open_logs(columns(self.agent.spec), at=None)
            for name in rows:
                folder.append(name, rows[name][: before[name]])
            if best is not None:  # with the logs as they were then
                folder.save_checkpoint(
                    best.put_into(saved), step=best.step, config=self.config, seconds=best.seconds, best=True
                )
            for name in rows:
                folder.append(name, rows[name][before[name] :])
            manifest = folder.save_checkpoint(saved, step=result.steps, config=self.config, seconds=seconds)
            log_sha256, checkpoint_sha256 = manifest.log.sha256, manifest.sha256()
            folder.write_result(dataclasses.replace(result, log_sha256=log_sha256, checkpoint_sha256=checkpoint_sha256))
        finally:
            folder.close()
