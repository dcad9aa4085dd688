"""What `tdu train` does once its arguments are parsed: one run in this process, or a process for each seed."""

import argparse
import contextlib
import glob
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tdu import environments
from tdu.cli.output import announce_compiling, tell_failed
from tdu.cli.parser import watch_arguments
from tdu.errors import UserError, tell
from tdu.run import progress, sweeps, track
from tdu.run.folder import CONFIG, GreedyReturn, read_config, read_result
from tdu.run.one_core import stay_on_one_core
from tdu.run.plan import plan, refuse_unevaluated, resolve
from tdu.run.processes import Job, use_one_core
from tdu.run.progress import Report
from tdu.run.run import Run
from tdu.run.signals import Interrupted
from tdu.run.train import train


def one_run(parsed: argparse.Namespace, given: dict[str, Any], output: TextIO) -> int:
    if parsed.resume is True and parsed.out is not None and not parsed.out.exists():
        raise UserError(f"{parsed.out} does not exist, so there is nothing to resume; start it without --resume.")
    out = parsed.out or default_out(parsed, given)
    settings = run_settings(parsed, given)
    if parsed.resume and parsed.config is None and (out / CONFIG).exists():
        settings["config"] = out
    config = resolve(**settings).config
    use_one_core()
    announce = partial(tell, "compiling, which takes some seconds …")
    shown, close = progress.display(parsed.progress, f"{config.agent} seed {config.seed}", output)
    with contextlib.ExitStack() as at_the_end:
        at_the_end.callback(close)
        if not config.actors:
            shown = _before_first(lambda: at_the_end.callback(stay_on_one_core()), shown)
        try:
            found = train(
                **settings,
                out=out,
                resume=parsed.resume,
                checkpoint_seconds=parsed.checkpoint_seconds,
                progress=shown,
                compiling=announce if parsed.progress in ("auto", "plain") else None,
                track=parsed.track,
                address=parsed.address,
            )
        except Interrupted as e:
            tell(str(e))
            return e.exit_code
    result = read_result(out)
    if parsed.progress != "json" and result is not None:
        print(f"{progress.summary(result, _best(found, out))} Everything is in {out}.", file=output)
    return 0


def _best(run: Run, out: Path) -> tuple[GreedyReturn, int, str] | None:
    """The best evaluation during a run, its episode, and the command that evaluates that agent again."""
    if not run.evaluations:
        return None
    place = run.evaluations["greedy_return"].argmax()
    numbers = {name: column[place].item() for name, column in run.evaluations.items()}
    best = GreedyReturn(numbers["greedy_return"], numbers["standard_error"], numbers["evaluation_episodes"])
    return best, numbers["episode"], f"tdu evaluate {out} --best"


def _before_first(begin: Callable[[], object], show: Callable[[Report], None]) -> Callable[[Report], None]:
    """`show`, with `begin` called before the first report. By then the environment has started its own processes."""
    waiting = [begin]

    def shown(report: Report) -> None:
        if waiting:
            waiting.pop()()
        show(report)

    return shown


def seeds(parsed: argparse.Namespace, given: dict[str, Any], output: TextIO) -> int:
    out = parsed.out or default_out(parsed, given)
    planned = plan(**run_settings(parsed, given))
    environments.close(planned.env)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose another --out.")
    if not parsed.resume and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} already exists; add --resume to continue it, or choose another --out.")
    if parsed.resume is True and not out.exists():
        raise UserError(f"{out} does not exist, so there is nothing to resume; start it without --resume.")
    track.check(parsed.track, out)
    if not parsed.resume:
        refuse_unevaluated(planned.config.until_return, planned.config.evaluate_every)
    if planned.note is not None:
        tell(planned.note)
    arguments = [*watch_arguments(parsed), *(["--resume-if-there"] if parsed.resume else [])]
    settings, seeds = planned.config.to_json(), range(parsed.seeds)
    jobs = [Job(f"seed {k}", arguments, out / f"seed_{k}", settings | {"seed": k}) for k in seeds]
    if not parsed.resume:
        announce_compiling(len(jobs), parsed.progress)
    outcomes = progress.run_jobs(jobs, parsed.progress)
    for outcome in outcomes:
        if outcome.code == 0 and outcome.result:
            print(progress.summary(outcome.result), file=output)
    failed = tell_failed(outcomes)
    print(f"{len(outcomes) - failed} of {len(outcomes)} runs are in {out}.", file=output)
    return 1 if failed else 0


def run_settings(parsed: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    names = (
        "env", "agent", "config", "seed", "episodes", "steps", "num_envs", "until", "preset", "engine", "actors",
        "until_return", "success_return", "evaluate_every", "evaluation_episodes", "record", "record_every", "trust",
    )  # fmt: skip
    return {name: getattr(parsed, name) for name in names} | given


def default_out(parsed: argparse.Namespace, given: dict[str, Any]) -> Path:
    """The folder of a run, or of several seeds, if none is given."""
    config = resolve(**run_settings(parsed, given)).config
    name = [config.env, config.agent, *(f"{option}={value}" for option, value in given.items())]
    if parsed.seeds is None:
        name.append(f"seed{config.seed}")
    out = sweeps.run_folder(Path("runs"), "-".join(name), config)
    if not parsed.resume or out.exists():
        return out
    # The same run with other limits, if there is just one, is the run to be trained longer.
    folders = [found.parent for found in out.parent.glob(f"{glob.escape(out.name[:-8])}????????/{CONFIG}")]
    same = [found for found in folders if read_config(found).differs_only_in_limits(config)]
    return same[0] if len(same) == 1 else out
