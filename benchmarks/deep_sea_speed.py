"""Environment steps per second on Deep Sea: bsuite's own JAX boot_dqn against ours, side by side in one run.

    python benchmarks/deep_sea_speed.py --out results/bench.json

Both learn with the paper's hyper-parameters (20 members, 64-64, batch 32, a learning step per environment step). bsuite's
agent gets the whole machine; ours runs once on one core ("single") and once per core at the same time ("per core", summed
over the machine). Ours is measured with a full replay and a visited table. The parts take turns and each is measured
`--rounds` times, because machines are noisy: look at the ratios. "limit" is the speed of a loop with nothing but the
matrix products of a learning step.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

SIZES = (10, 20, 50)
OURS_ALSO = (100,)
REQUIRED = {"single": {10: 14, 20: 18, 50: 40}, "per core": {10: 27, 20: 35, 50: 80}}
SECONDS = 6.0
WARM_UP = 11_000
HEADS, BATCH, WIDTH = 20, 32, 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--worker", choices=("bsuite", "ours", "limit"), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](parsed.size)
        return 0
    cores = os.cpu_count() or 1
    found: dict[str, dict] = {"bsuite": {}, "single": {}, "per core": {}, "limit": {}}
    memory = {}
    plan = [(s, part) for s in SIZES for _ in range(parsed.rounds) for part in ("bsuite", "single", "per core")]
    plan += [(s, part) for s in OURS_ALSO for _ in range(parsed.rounds) for part in ("single", "per core")]
    plan += [(SIZES[0], "limit")] * parsed.rounds
    started = time.monotonic()
    for done, (size, part) in enumerate(plan):
        worker, count = {"single": ("ours", 1), "per core": ("ours", cores)}.get(part, (part, 1))
        answers = measure(worker, size, count)
        found[part].setdefault(size, []).append(sum(a["steps_per_second"] for a in answers))
        if worker == "ours":
            memory[size] = max(memory.get(size, 0), *(a["megabytes"] for a in answers))
        left = (time.monotonic() - started) / (done + 1) * (len(plan) - done - 1)
        print(f"{part} {size}: {found[part][size][-1]:,.0f} steps/s ({left / 60:.1f} min left)", file=sys.stderr)
    report = summarise(found, memory, cores)
    print(as_text(report))
    if parsed.out:
        parsed.out.parent.mkdir(parents=True, exist_ok=True)
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def measure(worker: str, size: int, count: int) -> list[dict]:
    """Starts `count` workers, lets all of them warm up, and then measures them at the same time."""
    command = [sys.executable, __file__, "--worker", worker, "--size", str(size)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(count)]
    for process in processes:
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"the {worker} worker failed; run {' '.join(command)} to see why.")
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(process.communicate()[0]) for process in processes]


def timed(advance, steps_per_call: int) -> None:
    """Tells the parent that it is ready, waits for its word, and measures for `SECONDS`."""
    print("ready", flush=True)
    sys.stdin.readline()
    started, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < SECONDS:
        advance()
        steps += steps_per_call
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"steps_per_second": steps / elapsed, "megabytes": round(megabytes)}))


def work_bsuite(size: int) -> None:
    """bsuite's boot_dqn, its network and optimiser set to the paper's values."""
    warnings.simplefilter("ignore")
    import haiku as hk
    import jax
    import optax
    from bsuite.baselines.jax.boot_dqn.agent import BootstrappedDqn
    from bsuite.environments.deep_sea import DeepSea

    env = DeepSea(size, mapping_seed=42)

    def network(inputs):
        x = hk.Flatten()(inputs)
        prior = hk.nets.MLP([WIDTH, WIDTH, 2])(x)
        return hk.nets.MLP([WIDTH, WIDTH, 2])(x) + 3.0 * jax.lax.stop_gradient(prior)

    agent = BootstrappedDqn(
        env.observation_spec(), env.action_spec(), network, num_ensemble=HEADS, batch_size=BATCH, discount=0.99,
        replay_capacity=10_000, min_replay_size=128, sgd_period=1, target_update_period=4,
        optimizer=optax.adam(1e-3), mask_prob=1.0, noise_scale=0.0,
    )  # fmt: skip
    now = [env.reset()]

    def step() -> None:
        if now[0].last():
            now[0] = env.reset()
        action = agent.select_action(now[0])
        after = env.step(action)
        agent.update(now[0], action, after)
        now[0] = after

    for _ in range(160):
        step()
    timed(step, 1)


def work_ours(size: int) -> None:
    """TDU with the paper's settings, as `tdu train` runs it."""
    from tdu import agents, environments
    from tdu.runners.compiled import CHUNK, CompiledRunner
    from tdu.runners.parallel import use_one_core

    use_one_core()
    env = environments.make(f"deep_sea:size={size}")
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", {}))
    runner = CompiledRunner(env, agent, 0, episodes=10**9, stop=False)
    while runner.steps < WARM_UP:
        runner.advance()
    timed(runner.advance, CHUNK)


def work_limit(size: int) -> None:
    """Only the products with the hidden layers of one learning step: two forward, two backward."""
    del size
    from tdu.runners.parallel import use_one_core

    use_one_core()
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    x, w = jax.random.normal(key, (HEADS, BATCH, WIDTH)), jax.random.normal(key, (HEADS, WIDTH, WIDTH)) / 8

    @jax.jit
    def many(x, w):
        def body(_, both):
            x, w = both
            h = x @ w
            target = h @ w
            back = target @ w
            gradient = jnp.swapaxes(h, 1, 2) @ back
            return back * 1e-3, w + 1e-9 * gradient

        return jax.lax.fori_loop(0, 1000, body, (x, w))

    jax.block_until_ready(many(x, w))
    timed(lambda: jax.block_until_ready(many(x, w)), 1000)


WORKERS = {"bsuite": work_bsuite, "ours": work_ours, "limit": work_limit}


def summarise(found: dict, memory: dict, cores: int) -> dict:
    rates = {part: {size: round(statistics.median(v), 1) for size, v in sizes.items()} for part, sizes in found.items()}
    ratios = {part: {size: round(rates[part][size] / rates["bsuite"][size], 1) for size in SIZES} for part in REQUIRED}
    return {
        "command": "make bench",
        "machine": {"cores": cores, "processor": processor(), "python": platform.python_version()},
        "steps_per_second": rates,
        "every_measurement": {p: {s: [round(x, 1) for x in v] for s, v in sizes.items()} for p, sizes in found.items()},
        "ratio_to_bsuite": ratios,
        "required_ratio": REQUIRED,
        "size_100_relative_to_size_10": round(rates["single"][100] / rates["single"][10], 2),
        "peak_megabytes": memory,
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def as_text(report: dict) -> str:
    rates, ratios = report["steps_per_second"], report["ratio_to_bsuite"]
    lines = [
        "| size | bsuite boot_dqn | ours, one core | ratio | ours, every core | ratio | memory |",
        "|" + "---|" * 7,
    ]
    for size in (*SIZES, *OURS_ALSO):
        theirs = f"{rates['bsuite'][size]:,.0f}" if size in rates["bsuite"] else "–"
        cells = [str(size), theirs]
        for part in REQUIRED:
            ratio = f"{ratios[part][size]}× (asked {REQUIRED[part][size]}×)" if size in ratios[part] else "–"
            cells += [f"{rates[part][size]:,.0f}", ratio]
        lines.append("| " + " | ".join([*cells, f"{report['peak_megabytes'][size]} MB"]) + " |")
    limit = next(iter(rates["limit"].values()))
    lines.append(f"\nSteps per second. Limit (matrix products alone, one core): {limit:,.0f}.")
    lines.append(f"Size 100 runs at {report['size_100_relative_to_size_10']} of the speed of size 10.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
