"""`tdu watch`: episodes of a run's agent, as a film or as text."""

import sys
import time
from pathlib import Path

from tdu.cli.output import own_output
from tdu.cli.parser import Parser, add_env, add_own_agent, folder, whole
from tdu.errors import UserError
from tdu.options import MAX_SEED


def run(arguments: list[str]) -> int:
    parser = Parser(
        "watch",
        "Show episodes of a run's agent: as a film with --out, or as text in the terminal (Deep Sea, Binary Tree and "
        "key_door).",
    )
    add, who = parser.add_argument, parser.add_mutually_exclusive_group()
    add("run", metavar="RUN", type=folder, help="the run's folder")
    who.add_argument("--head", type=whole("head", 0, 10**6), metavar="K", help="act greedily on head K")
    who.add_argument("--explorer", action="store_true", help="act greedily on an explorer, another one in each episode")
    who.add_argument("--greedy", action="store_true", help="act greedily on the exploiters' mean (default)")
    add("--episodes", type=whole("episodes", 1, 1000), default=1, metavar="E", help="number of episodes (default 1)")
    words = "use the best agent instead of the last one (for runs with --evaluate-every)"
    add("--best", action="store_true", help=words)
    add("--seed", type=whole("seed", 0, MAX_SEED), default=0, help="seed of the episodes (default 0)")
    words = "file of the film: .gif, or .mp4, which needs ffmpeg or the extra films"
    add("--out", type=Path, metavar="FILE", help=words)
    add("--fps", type=whole("fps", 1, 100), default=12, help="frames per second (default 12)")
    add_own_agent(parser)
    add_env(parser)
    parsed = parser.parse_args(arguments)
    from tdu.environments import pictures  # imports JAX
    from tdu.report import films
    from tdu.run.processes import use_one_core
    from tdu.run.stored import load

    if parsed.out is not None:
        films.check(parsed.out)
    use_one_core()
    with own_output() as output:
        trained = load(parsed.run, parsed.env, best=parsed.best, agent=parsed.agent, trust=parsed.trust)
        policy, description = films.chosen(trained.agent, head=parsed.head, explorer=parsed.explorer)
        env = parsed.env or trained.config.env
        stage = pictures.stage(env, parsed.seed)
        moments = films.played(stage, policy, episodes=parsed.episodes, longest=films.MAX_FRAMES)
        results: list[str] = []
        frames: list[pictures.Frame] = []
        try:
            for episode, step, total, over in moments:
                if parsed.out is not None:
                    frames.append(stage.frame())
                elif stage.text is None:
                    stage.frame()  # an error where no film can be made either
                    raise UserError(f"{env} cannot be shown as text; give --out film.gif.")
                else:
                    words = f"episode {episode + 1}, step {step}, return {total:.3f}"
                    _show(stage.text(), words, output, 1 / parsed.fps)
                if over:
                    target = trained.config.success_return
                    success = "" if target is None else f" ({'a success' if total >= target else 'no success'})"
                    results.append(f"{total:.3f} in {step} steps{success}")
                if films.is_full(frames):
                    print(f"tdu: the film ends after {len(frames)} frames.", file=sys.stderr)
                    break
        finally:
            stage.close()
        ended = ", ".join(results) or "no episode ended"
        print(f"{trained.config.agent} on {env}, {description}: returns {ended}.", file=output)
        if parsed.out is not None:
            films.film(frames, parsed.out, parsed.fps)
            print(f"Film: {parsed.out} ({len(frames)} frames, {parsed.out.stat().st_size / 1e3:,.0f} kB).", file=output)
    return 0


def _show(text: str, words: str, output: object, seconds: float) -> None:
    """Shows one picture; in a terminal it replaces the last one."""
    is_terminal = bool(getattr(output, "isatty", lambda: False)())
    print(("\033[H\033[2J" if is_terminal else "") + f"{text}\n{words}", file=output, flush=True)  # type: ignore[call-overload]
    if is_terminal:
        time.sleep(seconds)
