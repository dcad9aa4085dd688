"""Do an ensemble's values stay bounded on `cartpole/0`? The largest |Q| of each head during training, bsuite's and ours.

    python benchmarks/cartpole_values.py --out results/cartpole_values.csv

Settings are the paper's (20 heads, the target copied every 4 steps) unless the name of a row states otherwise. No discounted
return can exceed 100. A row every 1000 steps has the median head, the worst head and the number of heads above 200, over 256
states of the replay. bsuite's agent takes about five minutes for 25,000 steps.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import workers

NAME = "cartpole/0"
BEYOND = 200
STATES = 256


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the table as CSV")
    parser.add_argument("--steps", type=int, default=25_000, help="environment steps for each agent (default 25,000)")
    parser.add_argument("--only", choices=AGENTS, help="one of the agents")
    parsed = parser.parse_args()
    rows = ["agent,steps,median_head,worst_head,heads_beyond_200"]
    for name in [parsed.only] if parsed.only else AGENTS:
        advance, largest = AGENTS[name]()
        steps = 0
        for mark in range(1000, parsed.steps + 1, 1000):
            while steps < mark:
                steps += advance()
            heads = largest()
            rows.append(f"{name},{steps},{np.median(heads):.5g},{heads.max():.5g},{(heads > BEYOND).sum()}")
            print(rows[-1], file=sys.stderr, flush=True)
    print("\n".join(rows))
    if parsed.out:
        parsed.out.write_text("\n".join(rows) + "\n")
    return 0


def bsuite_s() -> tuple[Callable[[], int], Callable[[], np.ndarray]]:
    """bsuite's own agent."""
    import bsuite

    env = bsuite.load_from_id(NAME)
    agent = workers.boot_dqn(env)

    def largest() -> np.ndarray:
        states = agent._replay.sample(STATES)[0]
        return np.array([np.abs(agent._forward(head.params, states)).max() for head in agent._ensemble])

    return workers.bsuite_loop(env, agent), largest


def ours(name: str, **options: Any) -> tuple[Callable[[], int], Callable[[], np.ndarray]]:
    """One of our agents."""
    runner, advance = workers.stepwise(name, NAME, **options)
    import jax

    from tdu import agents, values
    from tdu.agents import assemble

    config = agents.configure(name, options)
    heads = values.make(runner.spec, assemble.shape(config, heads=workers.HEADS, prior_scale=config.prior_scale))
    q = jax.jit(jax.vmap(lambda state, o: heads.q(heads.params(state), o), in_axes=(None, 0)))

    def largest() -> np.ndarray:
        state = runner.save().state.learner
        drawn = np.random.default_rng(0).integers(0, int(state.replay.filled), STATES)
        return np.abs(q(state.values, state.replay.data.o_tm1[drawn])).max(axis=(0, 2))

    return advance, largest


AGENTS = {
    "bsuite boot_dqn": bsuite_s,
    "bdqn": lambda: ours("bdqn"),
    "tdu": lambda: ours("tdu"),
    "tdu double": lambda: ours("tdu", bootstrap="double"),
    "tdu target_period=100": lambda: ours("tdu", target_period=100),
}


if __name__ == "__main__":
    sys.exit(main())
