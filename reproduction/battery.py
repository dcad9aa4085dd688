"""Every agent on Deep Sea 4 and 10, and on Catch: the numbers behind docs/agents and docs/results.md.

python -m reproduction.battery --runs runs/battery --out results/battery.csv
python -m reproduction.battery --only-table --markdown

Deep Sea 4 is the positive control: whoever fails there is broken. Deep Sea 10 tells who explores. Catch (bsuite's official
environment) needs no exploration; there the greedy policy is evaluated for 200 episodes after 2000 of training.
"""

import statistics
import sys
from collections.abc import Sequence

from reproduction import table
from reproduction.table import Row, Setting
from tdu.agents import AGENTS

SEEDS = 3
PLAIN_ACTOR_CRITIC = ("tdu_ac", (("beta", 0.0),))
ONE_STEP = tuple(name for name, entry in AGENTS.items() if not entry.is_recurrent)
"""Agents with a memory have a benchmark of their own."""
VARIANTS = (*((name, ()) for name in ONE_STEP), PLAIN_ACTOR_CRITIC)

SETTINGS = (
    *(Setting("deep_sea:size=4", name, SEEDS, options=options, episodes=2000) for name, options in VARIANTS),
    *(Setting("deep_sea:size=10", name, SEEDS, options=options, episodes=2000) for name, options in VARIANTS),
    *(Setting("catch/0", name, SEEDS, options=options, episodes=2000, evaluation=200) for name, options in VARIANTS),
)


def markdown(settings: Sequence[Setting], rows: Sequence[Row]) -> str:
    """A line per agent."""
    lines = ["| agent | Deep Sea 4, solved at | Deep Sea 10, solved at | Catch, greedy return of 200 episodes |"]
    lines.append("|" + "---|" * 4)
    for name, options in VARIANTS:
        cells = []
        for setting in settings:
            if (setting.agent, setting.options) == (name, options):
                mine = table.rows_for(setting, rows)
                if not mine:
                    cells.append("–")
                elif setting.evaluation:
                    scores = [r["evaluation"] for r in mine]
                    each = ", ".join(f"{x:.2f}" for x in scores)
                    cells.append(f"{statistics.mean(scores):.2f} ({each})")
                else:
                    cells.append(table.solved_cells(setting, mine)[1])
        words = " ".join(filter(None, (name, *(f"{k}={v:g}" for k, v in options))))
        lines.append("| " + " | ".join([words, *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(table.main(SETTINGS, __doc__ or "", "battery", markdown))
