"""A memory task: our r2d2 with its defaults compared with RLlib's recurrent DQN.

    python benchmarks/rllib.py --out results/rllib.csv
    python benchmarks/rllib.py --out results/rllib.csv --systems r2d2 --seeds 2

The task is bsuite's memory task of length 10: a bit is shown once and needed ten steps later. Each run has a row, written as
it ends. A second start makes the missing runs. `--markdown` prints the table. The greedy policy plays 60 episodes about
every 1,100 steps: ours every 100 episodes, RLlib's after each iteration of 1,000 steps. A run ends after five evaluations in
a row with a return of 0.95, or at its limit: 20,000 steps for ours, 200,000 steps or ten minutes of wall time for RLlib. The
table also has RLlib's best return within 20,000 steps. Seconds count from the start of the process and include imports,
compilation and evaluations. `startup_seconds` is the time before the first step. Each system has one core. Processor time
is the process's own, without Ray's daemons.

RLlib no longer has R2D2. On the new API stack, its DQN supports an LSTM with a replay of sequences that is not prioritised.
Its prioritised replay draws single steps. RLlib runs in its own virtual environment, created when first needed (`--venv`),
with its defaults except for `RLLIB`. A JSON file of the same name has settings and versions.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import rows
import workers

ROOT = Path(__file__).parent.parent
PACKAGES = ("ray[rllib]==2.60.0", "torch==2.13.0")
TASK = "memory_len/9"
TARGET, IN_A_ROW, EPISODES = 0.95, 5, 60
OURS = "r2d2"
THEIRS: dict[str, dict[str, Any]] = {"rllib_dqn": {}, "rllib_dqn_burn_in": {"burn_in_len": 5}}
"""Settings in addition to `RLLIB`: none, so a sequence starts from the stored state, or our preset's burn-in."""
SEEDS = {OURS: 5, "rllib_dqn": 3, "rllib_dqn_burn_in": 3}
MOST_STEPS, THEIR_MOST_STEPS = 20_000, 200_000

RLLIB: dict[str, Any] = {
    "use_lstm": True,
    "fcnet_hiddens": [32],
    "fcnet_activation": "relu",
    "lstm_cell_size": 64,
    "head_fcnet_hiddens": [64],
    "gamma": 0.997,
    "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 50_000},
}
"""Widths, activation and γ are those of our preset `memory`. The replay's capacity and everything else are RLlib's defaults:
dueling heads, double Q, one-step targets, Huber loss, ε from 1 to 0.05 over 10,000 steps, a learning step on 32 steps of
sequences for every environment step from the thousandth on, learning rate 5e-4, the target copied every 500 steps."""

COLUMNS = (
    "system", "seed", "target_step", "target_processor_seconds", "target_seconds", "best_return", "last_return",
    "best_return_by_20000", "steps", "startup_seconds", "processor_seconds", "seconds", "curve",
)  # fmt: skip


class Watch:
    """Collects the evaluations for a run's row."""

    def __init__(self, began: float):
        self._began, self._in_a_row = began, 0
        self.row: dict[str, Any] = dict.fromkeys(COLUMNS)
        self._curve: list[str] = []

    def starts(self) -> None:
        """Called before the first step."""
        self.row["startup_seconds"] = round(self.seconds, 1)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def evaluation(self, step: int, mean: float) -> bool:
        """Records an evaluation; returns True once the run can end."""
        row, mean = self.row, round(mean, 4)
        row["last_return"] = mean
        for name in ("best_return", *(["best_return_by_20000"] if step <= MOST_STEPS else [])):
            row[name] = mean if row[name] is None else max(row[name], mean)
        if mean >= TARGET and row["target_step"] is None:
            row["target_processor_seconds"] = round(time.process_time(), 1)
            row |= {"target_step": step, "target_seconds": round(self.seconds, 1)}
        self._curve.append(f"{step}:{self.seconds:.1f}:{mean}")
        self._in_a_row = self._in_a_row + 1 if mean >= TARGET else 0
        return self._in_a_row == IN_A_ROW

    def ended(self, steps: int) -> dict[str, Any]:
        """The row; its last column has step:seconds:return of every evaluation."""
        taken = {"processor_seconds": round(time.process_time(), 1), "seconds": round(self.seconds, 1)}
        return self.row | taken | {"steps": steps, "curve": " ".join(self._curve)}


def ours(seed: int, watch: Watch) -> dict[str, Any]:
    from tdu.run.processes import use_one_core

    use_one_core()
    import tdu

    def on_evaluation(evaluation: Any) -> bool:
        return not watch.evaluation(evaluation.steps, evaluation.returns.mean)

    def progress(report: Any) -> None:
        if watch.row["startup_seconds"] is None:
            watch.starts()

    run = tdu.train(
        TASK, OURS, seed=seed, steps=MOST_STEPS, evaluate_every=100, evaluation_episodes=EPISODES,
        callbacks=[tdu.Callback(on_evaluation=on_evaluation)], progress=progress, say=lambda words: None,
    )  # fmt: skip
    return watch.ended(run.result["steps"])


def rllib_run(system: str, seed: int, minutes: float, watch: Watch) -> dict[str, Any]:
    import gymnasium
    import numpy as np
    import ray
    import torch
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.tune.registry import register_env

    from tdu.environments import bsuite

    class Memory(gymnasium.Env):
        """bsuite's environment, reseeded at every episode like for our agents."""

        def __init__(self, its_seed: int | str):
            self._env, self._episode = bsuite.load(TASK, its_seed), -1
            size = int(np.prod(self._env.spec.observation_shape))
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
            self.action_space = gymnasium.spaces.Discrete(self._env.spec.num_actions)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self._episode += 1
            return self._env.reset(self._episode).observation.reshape(-1), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            now = self._env.step(int(action))
            return now.observation.reshape(-1), float(now.reward), bool(now.last), False, {}

    torch.set_num_threads(1)
    register_env("memory", lambda context: Memory(seed))
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    changed = RLLIB | THEIRS[system]
    model = {name: x for name, x in changed.items() if name in DefaultModelConfig.__dataclass_fields__}
    training = {name: x for name, x in changed.items() if name not in model}
    config = (
        DQNConfig()
        .environment("memory")
        .env_runners(num_env_runners=0)
        .training(**training)
        .rl_module(model_config=DefaultModelConfig(**model))
        .debugging(seed=seed, log_level="ERROR")
    )
    algorithm = config.build_algo()
    tests = [Memory(f"{seed}/evaluation/{i}") for i in range(EPISODES)]

    def greedy_return() -> float:
        """Plays all episodes in parallel, because they have equal length."""
        module = algorithm.get_module()
        state = {name: torch.zeros(EPISODES, *x.shape) for name, x in module.get_initial_state().items()}
        seen, total, over = np.stack([env.reset()[0] for env in tests]), 0.0, False
        while not over:
            batch = {Columns.OBS: torch.as_tensor(seen)[:, None], Columns.STATE_IN: state}
            with torch.no_grad():
                out = module.forward_inference(batch)
            state = out[Columns.STATE_OUT]
            actions = out[Columns.ACTIONS].reshape(EPISODES).tolist()
            answers = [env.step(action) for env, action in zip(tests, actions, strict=True)]
            seen = np.stack([answer[0] for answer in answers])
            total += sum(answer[1] for answer in answers)
            over = answers[0][2]
            assert all(answer[2] == over for answer in answers)
        return total / EPISODES

    watch.starts()
    steps, done = 0, False
    while not done and steps < THEIR_MOST_STEPS and watch.seconds < 60 * minutes:
        steps = int(algorithm.train()["num_env_steps_sampled_lifetime"])
        done = watch.evaluation(steps, greedy_return())
    row = watch.ended(steps)
    algorithm.stop()
    ray.shutdown()
    return row


def worker(system: str, seed: int, minutes: float) -> None:
    watch = Watch(time.perf_counter())
    row = ours(seed, watch) if system == OURS else rllib_run(system, seed, minutes, watch)
    print(json.dumps(row | {"system": system, "seed": seed}), flush=True)


def rllib_python(venv: Path) -> Path:
    """The interpreter of RLlib's own virtual environment, which is created if it does not exist."""
    python = venv / "bin" / "python"
    if not (venv / "made").exists():
        print(f"making {venv}, which takes some minutes …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES, f"{ROOT}[bsuite]"], check=True)
        (venv / "made").touch()
    return python


def settings(minutes: float) -> dict[str, Any]:
    """Settings and versions of the rows."""
    import jax

    from tdu import agents

    return {
        "command": f"python benchmarks/rllib.py --minutes {minutes:g}",
        "machine": workers.machine() | {"jax": jax.__version__},
        "task": {"id": TASK, "target": TARGET, "evaluation_episodes": EPISODES, "ends_after": IN_A_ROW},
        OURS: {"most_steps": MOST_STEPS, "config": dataclasses.asdict(agents.configure(OURS, {}, "memory"))},
        "rllib": {"most_steps": THEIR_MOST_STEPS, "most_minutes": minutes, "packages": PACKAGES},
        "not_rllib's_default": {system: RLLIB | more for system, more in THEIRS.items()},
    }


def markdown(found: list[dict[str, str]]) -> str:
    """A line per system, with every seed."""
    lines = [
        f"| system | seeds | ≥ {TARGET} at step | after seconds of the clock | of the processor | reached | "
        f"best return by {MOST_STEPS:,} steps | best return | last return | steps | steps/s | seconds | startup |"
    ]
    lines.append("|---" * 13 + "|")
    for system in SEEDS:
        matching = sorted((r for r in found if r["system"] == system), key=lambda r: int(r["seed"]))
        if not matching:
            continue

        def each(name: str, matching: list[dict[str, str]] = matching) -> str:
            return ", ".join(r[name] or "never" for r in matching)

        rates = [int(r["steps"]) / (float(r["seconds"]) - float(r["startup_seconds"])) for r in matching]
        cells = [
            system,
            each("seed"),
            each("target_step"),
            each("target_seconds"),
            each("target_processor_seconds"),
            f"{sum(bool(r['target_step']) for r in matching)} of {len(matching)}",
            each("best_return_by_20000"),
            each("best_return"),
            each("last_return"),
            each("steps"),
            f"{statistics.median(rates):,.0f}",
            each("seconds"),
            f"{statistics.median(float(r['startup_seconds']) for r in matching):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "rllib.csv")
    parser.add_argument("--systems", nargs="+", choices=SEEDS, default=list(SEEDS), metavar="SYSTEM")
    parser.add_argument("--seeds", type=int, help="seeds 0 … SEEDS-1 (default 5 of ours, 3 of RLlib)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the clock for a run of RLlib (default 10)")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-rllib", help="RLlib's own environment")
    parser.add_argument("--markdown", action="store_true", help="print the table and run nothing")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        system, seed = parsed.worker
        worker(system, int(seed), parsed.minutes)
        return 0
    if parsed.markdown:
        print(markdown(rows.read(parsed.out)))
        return 0
    done = {(r["system"], r["seed"]) for r in rows.read(parsed.out)}
    plan = [(system, str(seed)) for system in parsed.systems for seed in range(parsed.seeds or SEEDS[system])]
    missing = [run for run in plan if run not in done]
    if missing:
        parsed.out.with_suffix(".json").write_text(json.dumps(settings(parsed.minutes), indent=1) + "\n")
    failed = 0
    for count, (system, seed) in enumerate(missing):
        python = sys.executable if system == OURS else rllib_python(parsed.venv)
        command = [python, __file__, "--minutes", str(parsed.minutes), "--worker", system, seed]
        found = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if found.returncode:
            failed += 1
            print(f"{system} {seed} failed: {found.stderr.strip()[-2000:]}", file=sys.stderr)
            continue
        row = json.loads(found.stdout.strip().splitlines()[-1])
        rows.append(parsed.out, COLUMNS, row)
        words = f"{TARGET} at {row['target_step'] or 'never'}, best {row['best_return']}, {row['seconds']:.0f} s"
        print(f"{system} {seed}: {words} ({len(missing) - count - 1} runs left)", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
