"""Runs from their folders: `load`, and `evaluate` the agent."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tdu import agents, environments
from tdu.environments import EnvId, MadeEnvironment
from tdu.errors import RunError, UserError, tell
from tdu.options import EPISODES, MAX_SEED, whole_number
from tdu.run import agent_file, consent, folder
from tdu.run.folder import RunConfig, RunResult
from tdu.run.folder.checkpoints import Manifest
from tdu.run.plan import make_environment, make_runner
from tdu.run.run import Run
from tdu.run.runners.interaction import run_key
from tdu.run.runners.protocol import Saved
from tdu.run.trained import TrainedAgent, play, refuse_misfit, step_limit
from tdu.types import EnvSpec


def load(
    path: str | Path,
    env: Any = None,
    say: Callable[[str], None] = tell,
    *,
    best: bool = False,
    agent: str | None = None,
    trust: bool = False,
) -> Run:
    """A run from its folder: finished, or as of its last checkpoint.

    Args:
        path: the run's folder.
        env: an environment in place of the run's own; needed if the run was trained on an object.
        say: called with warnings, for example about a damaged checkpoint.
        best: load the agent with the best evaluation during the run, and the logs up to it, without the result.
        agent: the name of the run's agent as it is called here, for an agent of your own: python:MODULE:NAME.
        trust: import the module that the run's environment or agent names (python:MODULE:NAME, gym:MODULE:NAME). It may
            contain any code, so load only runs of people whom you trust. Not needed where `env` is given.
    """
    path = Path(path)
    if not (path / folder.CONFIG).exists():
        raise _no_run(path)
    config = folder.read_config(path)
    for name, given in ((config.agent, agent), (config.env, env)):
        consent.typed(given)
        if given is None:
            consent.require(name, path, trust=trust)
    agent = config.agent if agent is None else agent
    result = folder.read_result(path)
    trained_on = environments.parse(config.env)
    was_object = trained_on.source == environments.OBJECT
    if env is None and was_object:
        raise RunError(
            f"{path} was trained on a Python object; use tdu.load or tdu.evaluate in Python, and pass that object as env."
        )
    called = dataclasses.replace(config, agent=agent)
    made = make_environment(config.env if env is None else env, called)
    is_own = env is None or (isinstance(env, str) and env == config.env)
    own = made if is_own else _own(called)
    if env is None or isinstance(env, str):
        environments.close(made)  # only its spec is needed
    before = _spec_in_name(trained_on, made.spec) if was_object else (own or made).spec
    refuse_misfit(str(path), before, made.spec)
    runner, made_agent = make_runner(called, own or made, compiled=False)
    try:
        saved, manifest = _checkpoint(path, config, result, runner.save(), say, best=best)
    except RunError as e:
        if own is not None or "cannot be used" not in str(e):
            raise
        words = f"{str(e).rstrip('.')}, or give an environment like {before.name if was_object else config.env}"
        raise RunError(f"{words}, on which it was trained.") from None
    log = folder.read_log(path / folder.LOG, upto=manifest.log.bytes)
    if not log.keys() >= {"episode", "episode_len"}:
        raise RunError(f"{path / folder.LOG} lacks a column.")
    return Run(
        result={} if result is None or best else result.to_json(),
        log=log,
        agent=TrainedAgent(made.spec, made_agent, runner.params(saved), called.origin),
        config=config,
        evaluations=folder.evaluations_at(path, manifest),
        source=config.env if env is None else env,
        path=path,
    )


def _no_run(path: Path) -> RunError:
    """The error for a folder that is not a run's. It may hold runs."""
    runs = sorted(config.parent for config in path.glob(f"*/{folder.CONFIG}"))
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    holds = f": it holds {count}; choose one of them, for example {runs[0]}" if runs else ""
    return RunError(f"{path} is not a run's folder{holds}.")


def _own(config: RunConfig) -> MadeEnvironment | None:
    """The environment that a run's config names, closed; None if it is an object, cannot be made or imports code."""
    if consent.module_of(config.env):
        return None
    try:
        made = make_environment(config.env, config)
    except UserError:
        return None
    environments.close(made)
    return made


def _checkpoint(
    path: Path, config: RunConfig, result: RunResult | None, like: Saved, say: Callable[[str], None], *, best: bool
) -> tuple[Saved, Manifest]:
    if best:
        return folder.best_checkpoint(path, config, like)
    if result is not None:
        return folder.final_checkpoint(path, config, result, like)
    loaded = folder.latest_checkpoint(path, config, like, say, set_aside=False)
    if loaded is None:
        raise RunError(f"{path} has no checkpoint yet.")
    return loaded


def _spec_in_name(trained_on: EnvId, given: EnvSpec) -> EnvSpec:
    """The given spec with what a config stores of the object that a run was trained on (`object_name`)."""
    found = re.fullmatch(r"(.*):\(([\d, ]{0,99})\):(\d{1,9})", trained_on.name, re.DOTALL)
    if found is None:
        raise RunError(f"{trained_on} is not the name of an environment object; the run's config is damaged.")
    lengths = tuple(int(length) for length in re.findall(r"\d{1,9}", found[2]))
    return given._replace(name=found[1], observation_shape=lengths, num_actions=int(found[3]))


def load_agent(path: str | Path, *, trust: bool = False) -> TrainedAgent:
    """The agent that `agent.save` wrote. It needs no environment: `agent.act(observation)`.

    `trust` imports the module that an agent of somebody's own names, as of `load`.
    """
    path = Path(path)
    spec, origin, arrays = agent_file.read(path)
    consent.require(origin.agent, path, trust=trust)
    agent = agents.find(origin.agent).make(spec, agents.configure(origin.agent, origin.options))
    like = jax.eval_shape(lambda: agent.params(agent.init(run_key(0))))
    wanted = {name: (x.shape, x.dtype) for name, x in agent_file.named(like).items()}
    if wanted != {name: (x.shape, x.dtype) for name, x in arrays.items()}:
        raise RunError(
            f"the networks in {path} do not fit {origin.agent} with the stored options; another version of tdu wrote it."
        )
    params = jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])
    return TrainedAgent(spec, agent, params, origin)


def evaluate(
    path: str | Path | Run,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    env: Any = None,
    say: Callable[[str], None] = tell,
    on_loaded: Callable[[], None] | None = None,
    best: bool = False,
    explorers: bool = False,
    success_return: float | None = None,
    agent: str | None = None,
    trust: bool = False,
) -> dict[str, Any]:
    """Mean return of a run's greedy policy over new episodes, with its standard error, mean length and success rate.

    Args:
        path: the run's folder, or the run.
        episodes: number of episodes.
        seed: seed of the episodes. They share no randomness with training.
        env: an environment in place of the run's own; needed if the run was trained on an object.
        say: called with warnings, for example about a damaged checkpoint.
        on_loaded: called once before the first episode.
        best: evaluate the agent with the best evaluation during the run.
        explorers: act on the explorers' mean value instead of the exploiters' (recurrent agents only), as in the
            paper's ablation.
        success_return: an episode with at least this return counts as a success; default: the run's own. Without one, the
            environment's info["is_success"] counts; where there is none, `success_rate` is None.
        agent, trust: as of `load`.
    """
    episodes = whole_number("episodes", episodes, 1, 10**6)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    if isinstance(path, Run):
        if best or agent is not None:
            raise UserError("best and agent are for a run's folder; give the folder instead of the run.")
        run = path
    else:
        run = load(path, env, say, best=best, agent=agent, trust=trust)
    config = run.config
    if not len(run.log["episode"]):
        raise UserError(
            f"no episode of {run.path or run} has ended yet, so the length of an episode is unknown; "
            "if episodes never end, give the environment a time limit."
        )
    trained = _acting_on_explorers(run) if explorers else run.agent
    longest = step_limit(int(run.log["episode_len"].max()))
    if on_loaded is not None:
        on_loaded()
    source = run.source if env is None else env
    played = play(source, trained, episodes=episodes, seed=seed, longest=longest)
    returns = played.returns
    if not len(returns):
        raise UserError(f"no episode on {config.env} ended within {longest:,} steps.")
    return {
        "env": config.env,
        "agent": config.agent,
        "seed": config.seed,
        "acting": "explorers" if explorers else "exploiters",
        "best": best,
        "episodes": len(returns),
        "mean_return": float(np.mean(returns)),
        "standard_error": played.standard_error,
        "min_return": float(np.min(returns)),
        "max_return": float(np.max(returns)),
        "mean_length": float(np.mean(played.lengths)),
        "success_rate": played.success_rate(config.success_return if success_return is None else success_return),
    }


def _acting_on_explorers(run: Run) -> TrainedAgent:
    """The run's agent, acting on its explorers' values."""
    origin, spec = run.agent.origin, run.agent.spec
    assert origin is not None
    entry = agents.find(origin.agent)  # not the config's name, which may import code without consent
    if not entry.is_recurrent:
        raise UserError(
            f"only recurrent agents (tdu_r2d2) can act on their explorers, and {origin.agent} is not recurrent."
        )
    agent = entry.make(spec, agents.configure(origin.agent, origin.options | {"evaluate": "explorers"}))
    return TrainedAgent(spec, agent, run.agent.params)
