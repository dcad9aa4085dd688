"""Speed of agents with memory on one core: learning and its limit, acting and environments alone, and whole runs.

    python benchmarks/recurrent_speed.py --out results/recurrent_speed.json

*Learning* is the learner's own step on batches from a replay that the agent has filled. A trained transition is one step of a
trace, so a learning step has batch × trace of them. Its *limit* has only the convolutions and matrix products, with the same
shapes: of the target network over burn-in and trace, and of the trained network over burn-in and trace. Over the trace, it
includes the gradient of every weight. The limit has no conversion of bytes, biases, activations, gates, targets, loss, norm,
Adam or priorities. *Acting* is everything else in a run: network, environments, and cutting and storing sequences.
*Environments alone* play random actions. ale-py's vector environment (C++) has the same preprocessing. The last measurement
is `tdu.train` with the replay of its preset, from the first learning step on.

Contenders take turns, because machines are noisy. Rates are per second of processor time, which other work affects less, and
of wall time.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import atari_speed
import jax
import jax.numpy as jnp
import numpy as np
import workers

import tdu
from tdu import agents, environments, files
from tdu.agents.r2d2.replay import Replay
from tdu.run.processes import use_one_core
from tdu.run.runners.protocol import Budget
from tdu.run.runners.recurrent import RecurrentRunner


class Case(NamedTuple):
    """A measured setting."""

    env: str
    agent: str
    preset: str
    train_steps: int
    """Steps of the whole run."""
    piece: int
    """Steps of a turn."""


CASES = (
    Case("atari/montezuma_revenge", "tdu_r2d2", "atari-small", 16_000, 1600),
    Case("bsuite:memory_len/9", "tdu_r2d2", "memory", 20_000, 1600),
    Case("bsuite:memory_len/9", "r2d2", "memory", 20_000, 1600),
)
NUM_ENVS = 8
CAPACITY = 1000
"""Capacity of the replay for acting and learning, in sequences. It is full, as in a long run."""
ROLLS, LEARNING_STEPS = 5, 5
"""Rollouts and learning steps per turn."""

Rates = list[tuple[float, float]]
"""Per second of processor time and of wall time, turn by turn."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each (default 15)")
    parser.add_argument("--only", nargs="+", choices=sorted({c.preset for c in CASES}), help="presets (default: all)")
    parsed = parser.parse_args()
    use_one_core()
    load = os.getloadavg()[0]
    found = []
    for case in CASES:
        if parsed.only and case.preset not in parsed.only:
            continue
        print(f"{case.agent} on {case.env}, preset {case.preset} …", file=sys.stderr)
        found.append(measure(case, parsed.rounds))
    answer = {
        "command": f"python benchmarks/recurrent_speed.py --rounds {parsed.rounds}",
        "machine": workers.machine() | {"jax": jax.__version__, "load_average_at_start": round(load, 1)},
        "cases": found,
    }
    print(markdown(found))
    if parsed.out:
        files.write_atomically(parsed.out, f"{json.dumps(answer, indent=1)}\n".encode())
    return 0


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """All measurements of one case."""
    config = agents.configure(case.agent, {}, case.preset)
    only_acts = agents.configure(case.agent, {"replay_capacity": CAPACITY, "learn_period": 10**9}, case.preset)
    env = environments.make(case.env, 0, num_envs=NUM_ENVS)
    agent = agents.find(case.agent).make(env.spec, only_acts)
    runner = RecurrentRunner(env, agent, 0, budget=Budget(None), until="budget", num_envs=NUM_ENVS)
    while runner.clock.steps < 1.1 * CAPACITY * config.replay_period:
        runner.advance()
    acted = acting(case, runner, rounds)
    learned = learning(agent, env.spec, replay_of(runner, agent, env.spec), config.pixels, rounds)
    runner.close()
    return {
        "preset": case.preset,
        "environment": case.env,
        "environments": NUM_ENVS,
        "agent": case.agent,
        "heads": agent.heads,
        "batch_size": config.batch_size,
        "burn_in": config.burn_in,
        "trace_length": config.trace_length,
        "learn_period": config.learn_period,
        "learning": learned,
        "acting": acted,
        "end_to_end": end_to_end(case, env.spec.frames_per_step),
    }


def acting(case: Case, runner: RecurrentRunner, rounds: int) -> dict[str, Any]:
    """Environment steps per second: acting, and environments alone."""
    alone = environments.make(case.env, 1, num_envs=NUM_ENVS)
    alone.start()
    draws = np.random.default_rng(0)
    steps = ROLLS * 20  # a roll of every preset here has 20 steps

    def played(env: Any) -> Callable[[], int]:
        def play() -> int:
            actions = draws.integers(0, alone.spec.num_actions, (steps, NUM_ENVS))
            for row in actions:
                env.step(row)
            return actions.size

        return play

    def act() -> int:
        before = runner.clock.steps
        for _ in range(ROLLS):
            runner.advance()
        return runner.clock.steps - before

    contenders = {"acting": act, "environments alone": played(alone)}
    env_id = environments.parse(case.env)
    if env_id.source == "atari":
        contenders["AtariVectorEnv alone"] = played(atari_speed.ale_vector(env_id.name, NUM_ENVS))
    rates = taking_turns(contenders, rounds)
    return {
        "steps": {name: medians(values) for name, values in rates.items()},
        "acting_beside": {name: ratio(rates["acting"], values) for name, values in rates.items() if name != "acting"},
    }


def replay_of(runner: RecurrentRunner, agent: Any, spec: Any) -> Replay:
    """A replay with the sequences of a run, restored from what the run saves."""
    saved = runner.save()
    replay = Replay(spec, agent.config, memory=jax.tree.map(np.asarray, agent.empty_memory()), streams=NUM_ENVS)
    prefix = "replay."
    values = {name.removeprefix(prefix): x for name, x in saved.arrays.items() if name.startswith(prefix)}
    replay.restore(values, saved.plain["replay"])
    return replay


def learning(agent: Any, spec: Any, replay: Replay, pixels: int, rounds: int) -> dict[str, Any]:
    """Trained transitions per second: the learning step, with drawing and priorities, and the limit."""
    size, shape = agent.config.batch_size, agent.config.shape
    update = jax.jit(agent.update, donate_argnums=0)
    state = jax.jit(agent.init)(jax.random.key(0))
    limit = products(agent.params(state)[0], spec, shape, size, pixels)
    numbers = itertools.count()
    transitions = LEARNING_STEPS * size * shape.trace

    def drawn() -> Any:
        return replay.sample(size, np.random.default_rng([0, next(numbers)]))

    def learned(sample: Any) -> np.ndarray:
        nonlocal state
        state, priorities, _ = update(state, sample)
        return np.asarray(priorities)

    samples = [drawn() for _ in range(LEARNING_STEPS)]

    def step() -> int:
        for sample in samples:
            learned(sample)
        return transitions

    def with_replay() -> int:
        for _ in range(LEARNING_STEPS):
            sample = drawn()
            replay.update_priorities(sample.ids, learned(sample))
        return transitions

    def only_products() -> int:
        for _ in range(LEARNING_STEPS):
            limit()
        return transitions

    contenders = {"learning step": step, "learning step with replay": with_replay, "limit": only_products}
    rates = taking_turns(contenders, rounds)
    return {
        "sequences_in_replay": len(replay),
        "trained_transitions": {name: medians(values) for name, values in rates.items()},
        "milliseconds_per_learning_step": {
            name: round(1e3 * size * shape.trace / statistics.median(x for x, _ in values), 2)
            for name, values in rates.items()
        },
        "share_of_the_limit": ratio(rates["learning step"], rates["limit"]),
    }


def products(trained: Any, spec: Any, shape: Any, batch: int, pixels: int) -> Callable[[], None]:
    """The convolutions and matrix products of a learning step, with its own weights."""
    weights = {
        "filters": [w for w, _ in trained.torso.filters],
        "layers": [w for w, _ in trained.torso.layers],
        "lstm": {name: getattr(trained.lstm, name) for name in ("x", "h")},
        "heads": {name: getattr(trained.heads, name) for name in ("w", "value", "advantage")},
    }
    heads, width = weights["heads"]["value"].shape[0], weights["lstm"]["h"].shape[0]
    seen = list(spec.observation_shape)
    if weights["filters"] and pixels:
        shrink = max(seen[0] // pixels, 1)
        seen[:2] = seen[0] // shrink, seen[1] // shrink
    draws = np.random.default_rng(0)
    x = draws.random((shape.length, batch, *seen), np.float32)
    more = weights["lstm"]["x"].shape[0] - weights["layers"][-1].shape[1]
    fed_back = draws.random((shape.length, batch, more), np.float32)
    memory = np.zeros((batch, width), np.float32)

    def forward(w: Any, x: Any, fed_back: Any, memory: Any) -> Any:
        lead = x.shape[:2]
        if w["filters"]:
            x = x.reshape(-1, *x.shape[2:])
            for f in w["filters"]:
                stride = f.shape[0] // 2 if f.shape[0] > 3 else 1  # as in the networks
                x = jax.lax.conv_general_dilated(
                    x, f, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
        x = x.reshape(*lead, -1)
        for layer in w["layers"]:
            x = x @ layer
        fed = jnp.concatenate([x, fed_back], axis=-1) @ w["lstm"]["x"]

        def step(h: Any, now: Any) -> Any:
            h = jnp.mean((now + h @ w["lstm"]["h"]).reshape(batch, 4, width), axis=1)  # four gates
            return h, h

        memory, h = jax.lax.scan(step, memory, fed)
        hidden = (h @ w["heads"]["w"]).reshape(*lead, heads, 2, -1)
        value = jnp.einsum("...hw,hw->...h", hidden[..., 0, :], w["heads"]["value"])
        advantage = jnp.einsum("...hw,hwa->...ha", hidden[..., 1, :], w["heads"]["advantage"])
        return value[..., None] + advantage, memory

    @jax.jit
    def all_of_them(w: Any, target: Any, x: Any, fed_back: Any, memory: Any) -> Any:
        early, late = (x[: shape.burn_in], fed_back[: shape.burn_in]), (x[shape.burn_in :], fed_back[shape.burn_in :])

        def before(w: Any) -> Any:
            return forward(w, *early, memory)[1] if shape.burn_in else memory

        q_target, _ = forward(target, *late, before(target))
        remembered = before(w)
        q, back = jax.vjp(lambda w: forward(w, *late, remembered)[0], w)
        return q, back(q_target)

    arguments = jax.tree.map(jnp.array, (weights, weights, x, fed_back, memory))
    return lambda: jax.block_until_ready(all_of_them(*arguments))


def end_to_end(case: Case, frames_per_step: int) -> dict[str, Any]:
    """Environment steps and frames per second of a run, from its first learning step."""
    marks: list[tuple[int, float, float]] = []

    def mark(report: Any) -> None:
        learns = "(0 learning steps)" not in report.status
        if learns and (not marks or report.steps >= marks[-1][0] + case.piece):
            marks.append((report.steps, time.process_time(), time.perf_counter()))

    tdu.train(
        case.env, case.agent, preset=case.preset, num_envs=NUM_ENVS, steps=case.train_steps, evaluation_episodes=0,
        progress=mark, say=lambda words: None,
    )  # fmt: skip
    rates = [((b[0] - a[0]) / (b[1] - a[1]), (b[0] - a[0]) / (b[2] - a[2])) for a, b in itertools.pairwise(marks)]
    frames = [(x * frames_per_step, y * frames_per_step) for x, y in rates]
    kept = {"steps": medians(rates)}
    if frames_per_step > 1:
        kept["frames"] = medians(frames)
    return {"train_steps": case.train_steps, "counted_from_step": marks[0][0]} | kept


def taking_turns(contenders: dict[str, Callable[[], int]], rounds: int) -> dict[str, Rates]:
    """Rates of the contenders, in turns; the first turn is a warm-up."""
    rates: dict[str, Rates] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, call in contenders.items():
            processor, clock = time.process_time(), time.perf_counter()
            count = call()
            took = time.process_time() - processor, time.perf_counter() - clock
            if turn:
                rates[name].append((count / took[0], count / took[1]))
        print(f"{', '.join(contenders)}: turn {turn} of {rounds}", end="\r", file=sys.stderr)
    print(file=sys.stderr)
    return rates


def medians(rates: Rates) -> dict[str, Any]:
    return {
        "per_processor_second": round(statistics.median(x for x, _ in rates), 1),
        "per_second": round(statistics.median(y for _, y in rates), 1),
        "every_turn_per_processor_second": [round(x, 1) for x, _ in rates],
        "every_turn_per_second": [round(y, 1) for _, y in rates],
    }


def ratio(values: Rates, other: Rates) -> dict[str, float]:
    """Median over turns of the ratio of two rates."""
    pairs = list(zip(values, other, strict=True))
    return {
        "of_processor_time": round(statistics.median(a[0] / b[0] for a, b in pairs), 3),
        "of_the_clock": round(statistics.median(a[1] / b[1] for a, b in pairs), 3),
    }


def markdown(found: list[dict[str, Any]]) -> str:
    """A line per case, per second of processor time."""
    lines = [
        "| preset, agent | trained transitions/s | with replay | limit | share | acting, steps/s | environments alone | "
        "AtariVectorEnv | ratio | a whole run, steps/s | frames/s |"
    ]
    lines.append("|---" * 11 + "|")
    for case in found:
        trained = {n: x["per_processor_second"] for n, x in case["learning"]["trained_transitions"].items()}
        acted = {n: x["per_processor_second"] for n, x in case["acting"]["steps"].items()}
        whole, name = case["end_to_end"], "AtariVectorEnv alone"
        beside = case["acting"]["acting_beside"]
        cells = [
            f"`{case['preset']}`, {case['agent']}",
            *(f"{trained[n]:,.0f}" for n in ("learning step", "learning step with replay", "limit")),
            f"{case['learning']['share_of_the_limit']['of_processor_time']:.2f}",
            *(f"{acted[n]:,.0f}" if n in acted else "–" for n in ("acting", "environments alone", name)),
            f"{beside[name if name in beside else 'environments alone']['of_processor_time']:.2f}",
            f"{whole['steps']['per_processor_second']:,.0f}",
            f"{whole['frames']['per_processor_second']:,.0f}" if "frames" in whole else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
