"""`load`: a run from its folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tdu import environments
from tdu.errors import RunError, tell
from tdu.run import folder as runs
from tdu.run.folder import folder as folders
from tdu.run.plan import make_environment, make_runner, object_name
from tdu.run.run import Run
from tdu.run.trained import TrainedAgent


def load(path: str | Path, env: Any = None, say: Callable[[str], None] = tell, *, best: bool = False) -> Run:
    """A run from its folder: finished, or as it was at its last checkpoint.

    A run on an environment object of the user's needs that object again, as `env`. With `best`, the agent is the one that
    did best in the evaluations during the run, and the logs go up to there.
    """
    path = Path(path)
    if not (path / folders.CONFIG).exists():
        raise RunError(f"{path} is not a run's folder.")
    config = runs.read_config(path)
    result = runs.read_result(path)
    trained_on = environments.parse(config.env)
    was_object = trained_on.source == environments.OBJECT
    if env is None and was_object:
        raise RunError(
            f"{path} was trained on an object; from Python, tdu.load and tdu.evaluate take that object as env."
        )
    made = make_environment(config.env if env is None else env, config)
    if env is None:
        environments.close(made)  # all that is wanted of it is what it looks like
    if was_object and object_name(made.spec).rsplit(":", 2)[1:] != config.env.rsplit(":", 2)[1:]:
        name, shape, actions = trained_on.name.rsplit(":", 2)
        raise RunError(
            f"{path} was trained on {name}, with observations of shape {shape} and {actions} actions, and "
            f"{made.spec.name} does not look like it: {made.spec.observation_shape} and {made.spec.num_actions}."
        )
    runner, agent = make_runner(config, made, compiled=False)
    if best:
        loaded = folders.best_checkpoint(path, config, runner.save())
    elif result is not None:
        loaded = folders.final_checkpoint(path, config, result, runner.save())
    elif (found := folders.latest_checkpoint(path, config, runner.save(), say, set_aside=False)) is not None:
        loaded = found
    else:
        raise RunError(f"{path} has no checkpoint yet.")
    saved, manifest = loaded
    return Run(
        result={} if result is None else result.to_json(),
        log=runs.read_log(path / folders.LOG, upto=manifest.log.bytes),
        agent=TrainedAgent(runner.spec, agent, runner.params(saved)),
        config=config,
        evaluations=folders.evaluations_at(path, manifest),
    )
