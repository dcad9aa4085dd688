"""A sweep from Python, and its figure: episodes that TDU and DQN need to solve Deep Sea, by size.

    python examples/sweep_and_plot.py [FOLDER]

The same from a shell: tdu sweep deep_sea:size=6 deep_sea:size=10 … --agent tdu --agent dqn --seeds 2
A second start makes only the missing runs.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from tdu.run import folder as runs
from tdu.run import processes as parallel
from tdu.run import sweeps

SIZES = (6, 10, 14)
EPISODES = 400
SEEDS = 2


def main(folder: Path) -> Path:
    cells = sweeps.plan([f"deep_sea:size={n}" for n in SIZES], ["tdu", "dqn"], seeds=SEEDS, episodes=EPISODES)
    jobs = sweeps.missing(cells, folder)
    parallel.run_all(jobs, tell=lambda name, report: None, done=lambda outcome: print(outcome.job.name, "is done"))
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for agent, colour in (("tdu", "#0b6e4f"), ("dqn", "#c0504d")):
        chosen = [cell for cell in cells if cell.agent == agent]
        results = [runs.read_result(cell.job(folder).out) for cell in chosen]
        solved = [result.solved_episode or EPISODES for result in results]
        sizes = [int(cell.env.partition("=")[2]) for cell in chosen]
        axes.plot(sizes, solved, "o", color=colour, label=agent, alpha=0.7)
    axes.axhline(EPISODES, color="0.6", linestyle="--", linewidth=1)
    axes.set(xlabel="size", ylabel="episodes to solve (top: never)", title="Deep Sea", xticks=SIZES)
    axes.legend(frameon=False)
    path = folder / "deep_sea.png"
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "sweeps/example")))
