"""The size of the paper's sequences on their way into and out of the replay, and the replay's time for each.

    python benchmarks/replay_traffic.py --out results/replay_traffic.json

Sequences have stacks of four frames of 84 × 84, 20 steps of burn-in and 80 of trace. Batches have 64 sequences. Everything
runs in this process, so Ray's own cost is not included. `docs/cluster.md` uses these numbers.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import jax
import numpy as np

from tdu.agents.r2d2.config import Config
from tdu.agents.r2d2.replay import Replay
from tdu.agents.r2d2.sequences import LstmState, Memory, Sequence, empty_steps
from tdu.cluster.messages import pack, unpack
from tdu.types import EnvSpec

ROOT = Path(__file__).parent.parent
SPEC = EnvSpec("atari", (84, 84, 4), 18, dtype="uint8", is_stacked=True)
HEADS, LSTM, BATCH, STREAMS, SEQUENCES, BATCHES = 10, 512, 64, 8, 400, 15
CONFIG = Config(exploiters=HEADS)
SHAPE = CONFIG.shape


def stream(rng: np.random.Generator, number: int, sequences: int) -> list[Sequence]:
    """Sequences of one stream, whose stacks share frames as in a game."""
    steps = sequences * SHAPE.period + SHAPE.length
    frames = rng.integers(0, 256, (steps + 3, 84, 84), np.uint8)
    stacks = np.stack([frames[i : i + steps] for i in range(4)], axis=-1)
    memory = Memory(LstmState(np.zeros(LSTM, np.float32), np.zeros(LSTM, np.float32)))
    found = []
    for start in range(0, sequences * SHAPE.period, SHAPE.period):
        plain = empty_steps(SPEC, SHAPE.length)._replace(observation=stacks[start : start + SHAPE.length].copy())
        found.append(Sequence(number, start, plain, memory, np.ones(HEADS, np.float32)))
    return found


def weight(tree: object) -> int:
    """Bytes of all arrays in a tree."""
    return sum(np.asarray(x).nbytes for x in jax.tree.leaves(tree))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "replay_traffic.json")
    parsed = parser.parse_args()
    rng = np.random.default_rng(0)
    memory = Memory(LstmState(np.zeros(LSTM, np.float32), np.zeros(LSTM, np.float32)))
    replay = Replay(SPEC, CONFIG, memory=memory, streams=STREAMS, capacity=SEQUENCES)
    packing, adding, weighs, count = 0.0, 0.0, 0, SEQUENCES // STREAMS * STREAMS
    for number in range(STREAMS):
        for sequence in stream(rng, number, SEQUENCES // STREAMS):
            started = time.process_time()
            light = pack(SPEC, sequence)
            packing += time.process_time() - started
            weighs = weight(light)
            started = time.process_time()
            replay.add(light._replace(steps=unpack(light.steps)))
            adding += time.process_time() - started
    drawing, arriving = [], []
    for _ in range(BATCHES):
        started = time.process_time()
        batch = replay.sample(BATCH, rng, packed=True)
        drawing.append(time.process_time() - started)
        started = time.process_time()
        steps = unpack(batch.steps)
        arriving.append(time.process_time() - started)
    found = {
        "sequence_megabytes": round(weighs / 1e6, 2),
        "batch_megabytes": round(weight(batch) / 1e6, 1),
        "batch_megabytes_as_learned_from": round(sum(x.nbytes for x in steps) / 1e6, 1),
        "sequences_packed_per_second": round(count / packing),
        "sequences_added_per_second": round(count / adding),
        "seconds_to_draw_a_batch": round(statistics.median(drawing), 3),
        "seconds_to_unpack_a_batch": round(statistics.median(arriving), 3),
        "batch": BATCH,
        "processor": platform.processor() or platform.machine(),
    }
    parsed.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
