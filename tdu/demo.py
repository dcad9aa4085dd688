"""TDU, BDQN and ε-greedy DQN on the Binary Tree, with the same number of episodes each."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tdu import files
from tdu.errors import UserError
from tdu.report import page
from tdu.report.figures import grid_of
from tdu.report.palette import COLOURS
from tdu.report.text import markdown_table
from tdu.run.folder import LOG, RunResult, read_log
from tdu.run.processes import Job
from tdu.run.progress import run_jobs

AGENTS = {"tdu": "TDU", "bdqn": "Bootstrapped DQN", "dqn": "DQN, ε-greedy"}
_WINDOW = 20  # The figure shows the longest of this many episodes


def run(out: Path, *, depth: int, episodes: int, seed: int) -> int:
    """Runs the three agents, draws the picture and prints the table."""
    given, out = out, files.unused(out.resolve() if out.exists() else out)
    if out != given:
        print(f"{given} exists; this demo writes to {out}.", file=sys.stderr)
    settings = {"env": f"binary_tree:depth={depth}", "episodes": episodes, "seed": seed, "until": "budget"}
    jobs = [Job(name, ["--record"], out / agent, settings | {"agent": agent}) for agent, name in AGENTS.items()]
    print(f"A Binary Tree of depth {depth}: one policy in 2^{depth} reaches its top. {episodes} episodes each.")
    outcomes = run_jobs(jobs, "auto")
    results: dict[str, RunResult] = {}
    for agent, outcome in zip(AGENTS, outcomes, strict=True):
        if outcome.code or outcome.result is None:
            raise UserError(f"{outcome.job.name} did not finish: {outcome.stderr}")
        results[agent] = outcome.result
    logs = {agent: read_log(out / agent / LOG) for agent in AGENTS}
    text = table(results, logs, episodes)
    files.write_atomically(out / "table.md", text.encode())
    draw(out / "demo.png", results, logs, depth)
    page.save([out], out / "report.html", f"TDU, BDQN and ε-greedy on a Binary Tree of depth {depth}")
    print(f"\n{text}\nPicture: {out / 'demo.png'}")
    print(f"The frontier over time: open {(out / 'report.html').resolve()} in a browser; it needs no network.")
    return 0


def table(results: dict[str, RunResult], logs: dict[str, dict[str, np.ndarray]], episodes: int) -> str:
    """When each agent solved the task."""
    rows = []
    for agent, result in results.items():
        solved = result.solved_episode or f"not within {episodes}"
        highest, tops = logs[agent]["episode_len"].max(), logs[agent]["total_return"][-1]
        rows.append([AGENTS[agent], str(solved), f"{highest:.0f}", f"{tops:.0f}", f"{result.seconds:.0f} s"])
    return markdown_table(["agent", "solved at episode", "highest branch", "times at the top", "time"], rows) + "\n"


def draw(path: Path, results: dict[str, RunResult], logs: dict[str, dict[str, np.ndarray]], depth: int) -> None:
    """The highest branch, and the number of times at the top, over episodes."""
    figure = Figure(figsize=(9.5, 3.9), layout="constrained")
    height, tops = grid_of(figure, 2, 1, 2)
    for agent, log in logs.items():
        reached = [log["episode_len"][max(i - _WINDOW, 0) : i].max() for i in range(1, len(log["episode"]) + 1)]
        height.plot(log["episode"], reached, color=COLOURS[agent].light, label=AGENTS[agent], linewidth=2)
        tops.plot(log["episode"], log["total_return"], color=COLOURS[agent].light, label=AGENTS[agent], linewidth=2)
        solved = results[agent].solved_episode
        if solved:
            at = (solved, log["total_return"][solved - 1])
            tops.plot(*at, "o", color=COLOURS[agent].light, markersize=8)
            side = {"xytext": (-8, 8), "ha": "right"} if solved > 0.8 * len(log["episode"]) else {"xytext": (12, -3)}
            tops.annotate(f"solved at {solved}", at, textcoords="offset points", fontsize=9, **side)
    height.set(xlabel="episode", ylabel=f"highest branch in {_WINDOW} episodes", title="Highest branch")
    tops.set(xlabel="episode", ylabel="times at the top so far", title="Reward: only at the top")
    height.set_ylim(0, 1.05 * depth)
    tops.legend(frameon=False, loc="upper left")
    figure.suptitle(f"Binary Tree, depth {depth}: one policy in 2^{depth}", fontsize=12)
    figure.savefig(path, dpi=150)
