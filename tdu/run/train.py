"""`train`: an agent on an environment, from the first step to the result."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from tdu import agents, environments
from tdu.errors import RunError, UserError, setting, several, tell
from tdu.options import CHECKPOINT_SECONDS, describe, unknown_option, whole_number
from tdu.run import progress as displays
from tdu.run.callbacks import checked
from tdu.run.folder import Folder, RunConfig, RunResult, best_return, evaluations_at, read_result
from tdu.run.folder.records import WATCH
from tdu.run.loop import Loop
from tdu.run.plan import Engine, Plan, plan, refuse_unevaluated, refuse_without_ray
from tdu.run.progress import Report
from tdu.run.run import Run, Runs
from tdu.run.runners.mastery import Until
from tdu.run.runners.protocol import Clock
from tdu.run.stored import load
from tdu.run.track import check as check_tracking


@overload
def train(env: Any = ..., agent: str | None = ..., *, seeds: None = ..., **settings: Any) -> Run: ...
@overload
def train(env: Any = ..., agent: str | None = ..., *, seeds: int | Sequence[int], **settings: Any) -> Runs: ...
def train(
    env: Any = None,
    agent: str | None = None,
    *,
    config: str | Path | RunConfig | None = None,
    seed: int | None = None,
    seeds: int | Sequence[int] | None = None,
    episodes: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    out: str | Path | None = None,
    resume: bool | Literal["if_there"] = False,
    until: Until | None = None,
    preset: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    evaluation_episodes: int | None = None,
    evaluate_every: int | None = None,
    until_return: float | None = None,
    success_return: float | None = None,
    record: bool = False,
    record_every: int | None = None,
    callbacks: Sequence[object] = (),
    progress: Callable[[Report], None] | Literal["auto", "plain", "none"] | bool | None = "auto",
    compiling: Callable[[], None] | None = None,
    say: Callable[[str], None] = tell,
    track: str | None = None,
    engine: Engine | None = None,
    actors: int | None = None,
    address: str | None = None,
    continued: Run | None = None,
    trust: bool = False,
    **options: Any,
) -> Run | Runs:
    """Trains an agent and returns the run.

    Args:
        env: an environment id, for example "deep_sea:size=20"; a dm_env or Gymnasium object, also a vector; or a
            `tdu.types.Environment`.
        agent: the agent's name; default "tdu".
        config: a run's config.json, its folder or its `Run.config`. It provides every setting that is not given here.
        seed: seed of everything random in the run; default 0.
        seeds: several runs, one after another: their seeds, or how many (0, 1, …). They share the compiled program. The
            result is a tuple of runs with `mean` and `interval` of their evaluation returns. In `out`, each has a folder.
        episodes: maximum number of episodes. Default: the environment's own number, or no limit if `steps` is given.
        steps: maximum number of environment steps. Several environments are stepped together to the end of a round.
        num_envs: number of parallel environments. Default 1; recurrent agents: set by the preset.
        out: the run's folder. Without it, nothing is written to disk.
        resume: continue the run in that folder; "if_there" starts a new one if there is none. With larger `episodes` or
            `steps`, or another `until`, a finished run is trained longer.
        until: what ends the run before its budget is spent. "solved": the environment's own rule (bsuite's on Deep Sea,
            ten successes in a row on the Binary Tree). "mastered" (default): on Deep Sea, in addition, the greedy policy
            has followed the optimal path at 20 checks in a row, 5 episodes apart; with a recurrent agent, which has no such
            check, nothing. "budget": nothing.
        preset: a set of defaults. Ensembles have "paper", "listing", "boot_dqn", "general", "deep" and "bsuite"; the default
            is "paper" on the paper's environments (Deep Sea, Binary Tree, bsuite) and "general" elsewhere. Recurrent agents
            have "paper", "atari-small", "minatar", "memory" and "deep-sea"; the default depends on the environment.
        checkpoint_seconds: time between checkpoints.
        evaluation_episodes: maximum number of greedy episodes, without learning, at the end of the run; 0 for none. The
            evaluation takes at most a tenth of the steps trained (or a thousand steps, if that is more).
        evaluate_every: also evaluate every this many episodes, within a tenth of the steps trained since the last
            evaluation. Results are in evaluations.csv, and the best agent is kept: `tdu.load(out, best=True)`.
        until_return: end the run when an evaluation during it (`evaluate_every`) has at least this mean return. One that was
            reached no longer counts when the run is resumed with until="budget".
        success_return: an evaluation episode with at least this return counts as a success. Without it, the environment's
            info["is_success"] counts. Evaluations have a success rate if one of the two is there.
        record: store snapshots of the agent's values in record.jsonl, for the maps of `tdu report`; needs `out`. A run
            that records continues to record when it is resumed.
        record_every: the same, every this many episodes instead of the default schedule.
        callbacks: functions or objects that the run calls; see `tdu.Callback`.
        progress: "auto" is a bar on a terminal and elsewhere a line every five seconds, "plain" always such lines, "none",
            None or False nothing; or a function that is called with a report after every piece of the run.
        compiling: called just before compilation starts.
        say: called with warnings, for example about a damaged checkpoint.
        track: "tensorboard" or "wandb", to log every episode there too.
        engine: "ray" runs actors, replay and learner as processes of a Ray cluster (recurrent agents only).
        actors: number of actors on the cluster, each with `num_envs` environments; default: one per core of this machine.
        address: the cluster's address. Without it, a cluster is started on this machine.
        continued: a run without a folder that is trained longer; see `Run.train`.
        trust: import the module that `config` names as environment or agent (python:MODULE:NAME, gym:MODULE:NAME).
        **options: fields of the agent's config.

    Raises:
        Interrupted: a KeyboardInterrupt, after Ctrl-C, SIGTERM or SIGHUP and once the run is saved.
    """
    if seeds is not None:
        return Runs(train(**one) for one in _of_each_seed(locals()))
    if not isinstance(out, str | Path | None):
        raise UserError(f"out must be a folder's name, not {out!r}.")
    if not callable(say):
        raise UserError(f"say must be a function of a sentence, not {say!r}.")
    refuse_without_ray(engine, address=address)
    check_tracking(track, out)
    if config is None:
        _refuse_unknown(options, agent)
    planned = plan(
        env, agent, config=config, seed=seed, episodes=episodes, steps=steps, num_envs=num_envs, until=until,
        preset=preset, engine=engine, actors=actors, until_return=until_return, success_return=success_return,
        evaluate_every=evaluate_every, evaluation_episodes=evaluation_episodes, record=record, record_every=record_every,
        trust=trust, **options,
    )  # fmt: skip
    if planned.config.actors and out is None:
        raise UserError("a run on a cluster needs a folder for its checkpoints; give out.")
    if checkpoint_seconds < 0 or not math.isfinite(checkpoint_seconds):
        raise UserError(f"checkpoint_seconds must be at least 0, not {checkpoint_seconds}.")
    if planned.config.record and out is None:
        raise UserError("record needs a folder for the run; give out.")

    ignores_return = until == "budget" and until_return is None

    with displays.shown(progress, f"{planned.config.agent} seed {planned.config.seed}") as show:

        def start(planned: Plan, folder: Folder | None, *, resuming: bool) -> Loop:
            refuse_unevaluated(planned.config.until_return, planned.config.evaluate_every)
            calls = checked(callbacks, evaluates=planned.config.evaluate_every is not None)
            for note in environments.notes(planned.env.spec):
                say(note)
            if planned.note is not None:
                say(planned.note)
            if compiling is not None:
                compiling()
            return Loop(
                planned, folder, resuming=resuming, say=say, checkpoint_seconds=checkpoint_seconds, callbacks=calls,
                progress=show, track=track, address=address, continued=continued,
            )  # fmt: skip

        if out is not None:
            return _in_folder(out, planned, start, resume=resume, env=env, say=say, ignores_return=ignores_return)
        if resume:
            raise RunError("there is nothing to resume without a folder; give out.")
        if continued is not None and continued.moment is not None:
            result = continued.moment.result
            clock = Clock(result.steps, result.episodes)
            best = best_return(continued.evaluations)
            planned = _without_return(planned, best) if ignores_return else planned
            if not _goes_on(continued.config, planned, result, clock, best, "the run", say):
                return continued
        return start(planned, None, resuming=False).run()


def _of_each_seed(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    seeds, seed, out, resume = (arguments.pop(name) for name in ("seeds", "seed", "out", "resume"))
    common = arguments | arguments.pop("options")
    is_list = isinstance(seeds, Iterable) and not isinstance(seeds, str)
    several = list(seeds) if is_list else range(whole_number("seeds", seeds, 1, 10**6))
    if seed is not None or not several or len(set(several)) < len(several):
        raise UserError("seeds must be a number of seeds or a list of different seeds; give seed or seeds, not both.")
    return [
        common
        | {"seed": one, "resume": resume and "if_there", "out": None if out is None else Path(out) / f"seed_{one}"}
        for one in several
    ]


def _refuse_unknown(options: dict[str, Any], agent: str | None) -> None:
    """Refuses options that neither this function nor any agent has. Other checks of options are those of the agent."""
    if agent is not None and agent not in agents.AGENTS:
        return  # an agent of the user's
    known = {name for entry in agents.AGENTS.values() for name, *_ in describe(entry.config)}
    for name in options.keys() - known:
        raise unknown_option("tdu.train", name, [*known, *inspect.signature(train).parameters])


def _goes_on(
    stored: RunConfig,
    planned: Plan,
    result: RunResult | None,
    clock: Clock,
    best: float,
    name: str,
    say: Callable[[str], None],
) -> bool:
    """Whether a run with a config goes on under another one, which may only have other limits.

    `result` is None if it has not finished; `best` is its best evaluation return.
    """
    wanted = planned.config
    if not stored.differs_only_in_limits(wanted):
        raise RunError(
            f"{name} was started with {stored.difference(wanted)}; resume it with the same settings, or start a new run "
            f"from its config ({setting('config')}, with another {setting('out')})."
        )
    if stored.budget != wanted.budget and wanted.budget.spent(clock):
        raise RunError(
            f"{name} has taken {several(clock.steps, 'step')} in {several(clock.episodes, 'episode')} already; its new limit "
            "must be larger."
        )
    endings = [] if result is None else result.endings(wanted, planned.env.spec, best)
    if result is None or not endings:
        return True
    words = {
        "mastered": f"mastered at episode {result.mastered_episode}",
        "solved": f"solved at episode {result.solved_episode}",
        "return": f"an evaluation returned {best:.4g}",
        "budget": "its budget is spent",
    }
    longer = [setting("until", "budget")] if endings != ["budget"] else []
    longer += [f"no {setting('until_return')}"] if "return" in endings else []
    longer += [f"larger {setting('steps')} or {setting('episodes')}"] if "budget" in endings else []
    reasons = " and ".join(words[ending] for ending in endings)
    say(f"{name} is finished already ({reasons}): train it longer with {' and '.join(longer)}.")
    return False


def _without_return(planned: Plan, best: float) -> Plan:
    """The plan without an `until_return` that was reached."""
    if not planned.config.has_reached(best):
        return planned
    return planned._replace(config=dataclasses.replace(planned.config, until_return=None))


def _report_changes(stored: RunConfig, now: RunConfig, say: Callable[[str], None]) -> None:
    """Reports what is measured differently from here on."""
    changes = [(name, getattr(stored, name), getattr(now, name)) for name in WATCH]
    words = [f"{setting(name)} is now {new} (before: {old or 'none'})" for name, old, new in changes if old != new]
    if words:
        say(f"{', '.join(words)}.")


def _in_folder(
    out: str | Path,
    planned: Plan,
    start: Callable[..., Loop],
    *,
    resume: bool | Literal["if_there"],
    env: Any,
    say: Callable[[str], None],
    ignores_return: bool,
) -> Run:
    """A run with a folder: started, continued, or loaded if it has finished."""
    exists = Path(out).exists()
    if resume is True and not exists:
        raise RunError(f"{out} does not exist, so there is nothing to resume; start it without --resume.")
    folder = Folder(out, resume=bool(resume))
    try:
        stored = folder.read_config()
        if stored is None:
            folder.write_config(planned.config)
        else:
            planned = planned._replace(config=planned.config.watched_as(stored))
            result = read_result(folder.path)
            best = -math.inf if result is None else best_return(evaluations_at(folder.path, None))
            planned = _without_return(planned, best) if ignores_return else planned
            clock = folder.clock(planned.config) if stored != planned.config else Clock(0, 0)
            done = result is not None and stored == planned.config and resume == "if_there"
            said: list[str] = []
            if done or not _goes_on(stored, planned, result, clock, best, str(folder.path), said.append):
                run = load(folder.path, None if isinstance(env, str) else env, say, trust=True)  # it was made above
                for words in said:
                    say(words)
                return run
        loop = None
        if stored is not None:
            _report_changes(stored, planned.config, say)
        try:
            loop = start(planned, folder, resuming=bool(resume) and exists)
            return loop.run()
        except UserError:
            # A run that cannot start leaves no folder behind, except in a sweep, where it counts as failed.
            if loop is None or not loop.has_begun or not (resume or loop.has_progress):
                folder.withdraw()
            raise
    finally:
        folder.close()
