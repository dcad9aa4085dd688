"""When TDU and BDQN solve Deep Sea and the Binary Tree: the numbers behind docs/results.md.

python -m reproduction.core --runs runs/core --out results/core.csv
python -m reproduction.core --only-table --markdown
"""

import sys

from reproduction import table
from reproduction.table import Setting

SETTINGS = tuple(
    Setting(env, agent, seeds, preset)
    for env, preset, seeds in (
        *((f"deep_sea:size={n}", "paper", 3) for n in (10, 20, 30)),
        *((f"binary_tree:depth={n}", "paper", 3) for n in (50, 100)),
        *((f"deep_sea:size={n},stochastic=true", "paper", 5) for n in (20, 30)),
        *((f"deep_sea:size={n},stochastic=true", "boot_dqn", 5) for n in (20, 30)),
        *((f"deep_sea:size={n}", "paper", 3) for n in (40, 50)),
    )
    for agent in ("tdu", "bdqn")
)
"""Runs are censored at 10,000 episodes, as in bsuite."""

if __name__ == "__main__":
    sys.exit(table.main(SETTINGS, __doc__ or "", "core"))
