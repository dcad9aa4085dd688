"""`train`: an agent on an environment, from the first step to the result."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tdu.environments import parts
from tdu.errors import RunError, UserError, tell
from tdu.options import whole_number
from tdu.run import folder as runs
from tdu.run import processes as parallel
from tdu.run import progress as displays
from tdu.run import recording
from tdu.run.loading import load
from tdu.run.plan import MOST_EPISODES, Plan, plan
from tdu.run.run import Run
from tdu.run.runners.mastery import Until
from tdu.run.runners.rows import Row
from tdu.run.session import Evaluation, Interrupted, Report, Session, Watching
from tdu.run.trained import TrainedAgent

CHECKPOINT_SECONDS = 60.0
"""Between checkpoints, if nobody says otherwise."""

EVALUATION_EPISODES = 100
"""Of the trained policy once a run is over, if nobody says otherwise."""

__all__ = ["Evaluation", "Interrupted", "Plan", "Report", "Run", "TrainedAgent", "load", "plan", "train"]


def train(
    env: Any = None,
    agent: str | None = None,
    *,
    config: str | Path | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    out: str | Path | None = None,
    resume: bool | Literal["if_there"] = False,
    until: Until | None = None,
    preset: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    evaluation_episodes: int = EVALUATION_EPISODES,
    evaluate_every: int | None = None,
    record: bool = False,
    record_every: int | None = None,
    on_episode: Callable[[Row], object] | None = None,
    on_evaluation: Callable[[Evaluation], object] | None = None,
    progress: Callable[[Report], None] | Literal["auto", "plain"] | None = "auto",
    compiling: Callable[[], None] | None = None,
    say: Callable[[str], None] = tell,
    track: str | None = None,
    engine: Literal["local", "ray"] | None = None,
    actors: int | None = None,
    address: str | None = None,
    **options: Any,
) -> Run:
    """Trains an agent and returns the run.

    Args:
        env: an environment's id, for example "deep_sea:size=20"; a dm_env or Gymnasium object, a vector too; or ours.
        agent: an agent's name; "tdu" if nothing is said.
        config: a run's config.json, or its folder: everything that is not given here is as it says.
        seed: of everything random in the run; 0 if nothing is said.
        episodes: at most so many; by default what the environment says, and no limit where `steps` is given.
        steps: at most so many environment steps, to the end of a round where several environments are stepped together.
        num_envs: environments side by side; 1 if nothing is said, and for agents with a memory what their preset has.
        out: the run's folder; without one the run leaves nothing on the disk.
        resume: continue the run in that folder; "if_there" starts a new one where there is none.
        until: what ends the run before its budget is spent. "solved": the environment's own rule holds (bsuite's on Deep Sea,
            ten successes in a row on the tree). "mastered" (the default): also, on Deep Sea, the greedy policy has followed
            the optimal path at 20 checks in a row, 5 episodes apart. "budget": nothing.
        preset: set of defaults. Ensembles have "paper", "listing", "boot_dqn" and "general". The default is "paper" on the
            paper's environments (Deep Sea, the tree, bsuite) and "general" elsewhere. Agents with a memory have "paper",
            "atari-small", "minatar", "memory" and "deep-sea"; the default depends on the environment.
        checkpoint_seconds: time between checkpoints.
        evaluation_episodes: episodes of the trained policy, without learning, once the run is over; 0 for none. They are
            fewer where so many would take more than a tenth of the steps trained (or than a thousand).
        evaluate_every: also every so many episodes (then in a tenth of the steps trained since). What it returns is in
            evaluations.csv, and the agent that did best is kept: `tdu.load(out, best=True)`.
        record: keep snapshots of what the agent knows in record.jsonl, for the maps of `tdu report`; it needs `out`. A run
            that records goes on recording when it is resumed.
        record_every: the same at every so many episodes, where the usual moments are too few for a film or too many.
        on_episode: called with every episode's row of the log; return True to end the run.
        on_evaluation: called after every evaluation during the run, with its `returns` and its `agent`; True ends the run.
        progress: "auto" is a bar on a terminal and elsewhere a line every five seconds, "plain" always such lines, None
            silence; or a function that is called with a report after every piece of the run.
        compiling: called when there is nothing left but to compile and run.
        say: called with anything worth telling, a damaged checkpoint for example.
        track: "tensorboard" or "wandb", to log every episode there too.
        engine: "ray" for rollouts, replay and learner as processes of a Ray cluster, for agents with a memory.
        actors: rollouts of such a run, each in `num_envs` environments; one per core of this machine if nothing is said.
        address: of the cluster; without one, a cluster is started on this machine.
        **options: fields of the agent's config.

    Raises:
        Interrupted: a KeyboardInterrupt, after Ctrl-C or SIGTERM and once the run is saved.
    """
    if engine == "ray" and actors is None and config is None:
        actors = parallel.cores()
    if engine != "ray" and (actors or address):
        raise UserError("actors and address are a Ray cluster's; add engine=ray (--engine ray).")
    planned = plan(
        env, agent, actors=actors, config=config,
        seed=seed, episodes=episodes, steps=steps, num_envs=num_envs, until=until, preset=preset,
        **options,
    )  # fmt: skip
    if planned.config.actors and out is None:
        raise UserError("a run on a cluster goes on from its checkpoints when a process dies; give it a folder (out).")
    if checkpoint_seconds < 0 or not math.isfinite(checkpoint_seconds):
        raise UserError(f"checkpoint_seconds must be at least 0, not {checkpoint_seconds}.")
    watching = Watching(
        evaluation_episodes=whole_number("evaluation_episodes", evaluation_episodes, 0, 10**6),
        evaluate_every=None
        if evaluate_every is None
        else whole_number("evaluate_every", evaluate_every, 1, MOST_EPISODES),
        on_episode=on_episode,
        on_evaluation=on_evaluation,
        record=record or record_every is not None,
        record_every=None if record_every is None else whole_number("record_every", record_every, 1, MOST_EPISODES),
    )
    if watching.record and out is None:
        raise UserError("what is recorded is kept in the run's folder; give out.")
    if watching.record:
        recording.check(planned.config.agent)
    if evaluate_every is not None and not watching.evaluation_episodes:
        raise UserError("evaluate_every needs evaluation_episodes of at least 1.")
    if on_evaluation is not None and evaluate_every is None:
        raise UserError("on_evaluation is called after evaluations during the run; give evaluate_every too.")

    with displays.shown(progress, f"{planned.config.agent} seed {planned.config.seed}") as told:

        def session(folder: runs.Folder | None, *, resuming: bool) -> Session:
            if planned.env.spec.parts is not None:
                say(parts.described(planned.env.spec.parts, planned.env.spec.name))
            if planned.general_because is not None:
                say(planned.general_because)
            if compiling is not None:
                compiling()
            return Session(
                planned, folder, resuming=resuming, checkpoint_seconds=checkpoint_seconds,
                watching=watching, progress=told, say=say, track=track, address=address,
            )  # fmt: skip

        if out is not None:
            return _in_folder(out, planned, session, resume=resume, env=env, say=say)
        if resume:
            raise RunError("there is nothing to resume without a folder; give out.")
        return session(None, resuming=False).run()


def _in_folder(
    out: str | Path,
    planned: Plan,
    session: Callable[..., Session],
    *,
    resume: bool | Literal["if_there"],
    env: Any,
    say: Callable[[str], None],
) -> Run:
    """A run that leaves its folder: begun, gone on with, or found finished."""
    is_there = Path(out).exists()
    if resume is True and not is_there:
        raise RunError(f"{out} does not exist, so there is nothing to resume; start it without --resume.")
    folder = runs.Folder(out, resume=bool(resume))
    try:
        stored = folder.read_config()
        if stored is None:
            folder.write_config(planned.config)
        elif stored != planned.config:
            difference = stored.difference(planned.config)
            raise RunError(
                f"{folder.path} was started with {difference}; resume it with the same, or start another run like it "
                f"(--config {folder.path}, and another --out)."
            )
        if folder.read_result() is not None:
            finished = load(folder.path, None if isinstance(env, str) else env, say)
            say(f"{folder.path} is finished already.")
            return finished
        sitting = None
        try:
            sitting = session(folder, resuming=bool(resume) and is_there)
            return sitting.run()
        except UserError:
            # Such a run cannot begin, and would be in the way of the next; a sweep's is not, and is counted there.
            if sitting is None or not (resume or sitting.has_anything):
                folder.withdraw()
            raise
    finally:
        folder.close()
