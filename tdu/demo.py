"""TDU, BDQN and ε-greedy DQN side by side on stochastic Deep Sea, with the same number of episodes for each."""

import sys
from pathlib import Path

import numpy as np

from tdu import files, runs
from tdu.errors import UserError
from tdu.progress import run_jobs
from tdu.reporting import page
from tdu.runners.parallel import Job

SIZE = 30
EPISODES = 1500
SEED = 4
"""One on which TDU is quick; docs/results.md has every seed."""
AGENTS = {"tdu": "TDU", "bdqn": "Bootstrapped DQN", "dqn": "DQN, ε-greedy"}
_COLOURS = {"tdu": "#0b6e4f", "bdqn": "#3b6fb6", "dqn": "#c0504d"}


def run(out: Path, *, size: int, episodes: int, seed: int) -> int:
    """Runs the three agents, draws the picture and prints the table."""
    asked, out = out, files.unused(out.resolve() if out.exists() else out)
    if out != asked:
        print(f"{asked} exists; this demo goes to {out}.", file=sys.stderr)
    env = f"deep_sea:size={size},stochastic=true"
    jobs = [
        Job(
            AGENTS[agent],
            [env, "--agent", agent, "--episodes", str(episodes), "--seed", str(seed), "--no-stop", "--record"],
            out / agent,
        )
        for agent in AGENTS
    ]
    print(f"Stochastic Deep Sea of size {size}: one policy in 2^{size} finds the chest. {episodes} episodes each.")
    outcomes = run_jobs(jobs, "auto")
    results: dict[str, runs.RunResult] = {}
    for agent, outcome in zip(AGENTS, outcomes, strict=True):
        if outcome.code or outcome.result is None:
            raise UserError(f"{outcome.job.name} did not finish: {outcome.stderr}")
        results[agent] = outcome.result
    logs = {agent: runs.read_log(out / agent / "log.csv") for agent in AGENTS}
    text = table(results, logs, episodes)
    files.write_atomically(out / "table.md", text.encode())
    draw(out / "demo.png", results, logs, size)
    page.save([out], out / "report.html", f"TDU, BDQN and ε-greedy on stochastic Deep Sea {size}")
    print(f"\n{text}\nPicture: {out / 'demo.png'}")
    print(f"Watch the frontier move: open {(out / 'report.html').resolve()} in a browser; it needs no network.")
    return 0


def table(results: dict[str, runs.RunResult], logs: dict[str, dict[str, np.ndarray]], episodes: int) -> str:
    """Who solved it when."""
    lines = ["| agent | solved at episode | times at the chest | time |", "|---|---|---|---|"]
    for agent, result in results.items():
        solved = result.solved_episode or f"not within {episodes}"
        chests = int(logs[agent]["denoised_return"][-1])
        lines.append(f"| {AGENTS[agent]} | {solved} | {chests} | {result.seconds:.0f} s |")
    return "\n".join(lines) + "\n"


def draw(path: Path, results: dict[str, runs.RunResult], logs: dict[str, dict[str, np.ndarray]], size: int) -> None:
    """Chests found, and the share of bad episodes that bsuite's rule looks at, over episodes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 3.9), layout="constrained")
    found, share = figure.subplots(1, 2)
    for agent, log in logs.items():
        style = {"color": _COLOURS[agent], "label": AGENTS[agent], "linewidth": 2}
        found.plot(log["episode"], log["denoised_return"], **style)
        bad = log["total_bad_episodes"] / log["episode"]
        share.plot(log["episode"], bad, **style)
        solved = results[agent].solved_episode
        if solved:
            at = (solved, bad[solved - 1])
            share.plot(*at, "o", color=_COLOURS[agent], markersize=8)
            share.annotate(f"solved at {solved}", at, (8, 8), textcoords="offset points", fontsize=9)
    share.axhline(0.8, color="0.6", linestyle="--", linewidth=1)
    found.set(xlabel="episode", ylabel="times at the chest so far", title="Treasure found")
    share.set(xlabel="episode", ylabel="share of bad episodes so far", title="Solved below 0.8 (bsuite's rule)")
    share.set_ylim(0.5, 1.02)
    found.legend(frameon=False)
    for axes in (found, share):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Stochastic Deep Sea, size {size}: one policy in 2^{size}", fontsize=12)
    figure.savefig(path, dpi=150)
