"""Acting speed on Atari: 8 environments in `tdu` and in ale-py's own vector environment (C++), in one process on one core.

    python benchmarks/atari_speed.py --out results/atari_speed.json

Both play the same random actions with the same preprocessing (84×84, stack of 4, 18 actions, raw rewards). They take turns,
because machines are noisy. Rates are per second of processor time, which other work affects less, and of wall time. The file
also reports the cost of saving and restoring our environments in mid-episode.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import workers

from tdu import environments

STEPS = 100
"""Steps of every environment in a turn."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--game", default="montezuma_revenge", help="the game (default montezuma_revenge)")
    parser.add_argument("--num-envs", type=int, default=8, help="environments (default 8)")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each (default 15)")
    parsed = parser.parse_args()
    ours, vector = _ours(parsed.game, parsed.num_envs), ale_vector(parsed.game, parsed.num_envs)
    draws = np.random.default_rng(0)
    load = os.getloadavg()[0]
    rates: dict[str, list[tuple[float, float]]] = {"ours": [], "AtariVectorEnv": []}
    for turn in range(parsed.rounds + 1):
        actions = draws.integers(0, 18, (STEPS, parsed.num_envs))
        for name, env in (("ours", ours), ("AtariVectorEnv", vector)):
            found = _rate(env, actions)
            if turn:  # the first turn is a warm-up
                rates[name].append(found)
        print(f"turn {turn} of {parsed.rounds}", end="\r", file=sys.stderr)
    medians = {
        name: {
            "per_processor_second": round(statistics.median(x for x, _ in found), 1),
            "per_second": round(statistics.median(y for _, y in found), 1),
            "every_turn_per_processor_second": [round(x, 1) for x, _ in found],
        }
        for name, found in rates.items()
    }
    ratios = [x / y for (x, _), (y, _) in zip(rates["ours"], rates["AtariVectorEnv"], strict=True)]
    answer = {
        "command": f"python benchmarks/atari_speed.py --game {parsed.game} --num-envs {parsed.num_envs}",
        "machine": workers.machine() | {"load_average_at_start": round(load, 1)},
        "agent_steps": medians,
        "ratio_of_processor_time": round(statistics.median(ratios), 3),
        "save_and_restore": _kept(parsed.game, parsed.num_envs, ours),
    }
    print(json.dumps(answer, indent=1))
    if parsed.out:
        parsed.out.write_text(json.dumps(answer, indent=1) + "\n")
    return 0


def _ours(game, num_envs):
    env = environments.make(f"atari/{game}", 0, num_envs=num_envs)
    env.start()
    return env


def ale_vector(game, num_envs):
    """ale-py's vector environment with our preprocessing, reset."""
    from ale_py.vector_env import AtariVectorEnv

    env = AtariVectorEnv(
        game, num_envs, num_threads=1, full_action_space=True, reward_clipping=False, use_fire_reset=False
    )
    env.reset(seed=1000 * np.arange(num_envs))
    return env


def _rate(env, actions):
    """Agent steps per second of processor time and of wall time."""
    processor, clock = time.process_time(), time.perf_counter()
    for row in actions:
        env.step(row)
    return actions.size / (time.process_time() - processor), actions.size / (time.perf_counter() - clock)


def _kept(game, num_envs, env):
    """Processor time of saving and restoring, and the bytes saved."""
    began = time.process_time()
    arrays, plain = env.save()
    saved = time.process_time()
    _ours(game, num_envs).restore(arrays, plain)
    restored = time.process_time()
    return {
        "save_seconds": round(saved - began, 4),
        "make_and_restore_seconds": round(restored - saved, 2),
        "bytes": sum(x.nbytes for x in arrays.values()),
        "steps_taken_again": sum(len(arrays[f"actions_{row}"]) for row in range(num_envs)),
    }


if __name__ == "__main__":
    sys.exit(main())
