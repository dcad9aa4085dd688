"""Tasks with cycles, as users have them: our agents compared with Stable-Baselines3's DQN, each with its defaults.

    python benchmarks/tasks.py --out results/tasks.csv
    python benchmarks/tasks.py --out results/tasks.csv --only key_door_5 CartPole --agents tdu dqn --seeds 2

Each run has a row, written as it ends. A second start makes the missing runs. `--markdown` prints the table of every seed.
`--summary` prints a line per task: which agent is first, and whether TDU and BDQN are within its interval. `--pairs` compares
them with others in pairs with the same task and seed. Every run has a limit of environment steps. It ends earlier after five
evaluations in a row at the target. The target is nine tenths of the way from a random policy's return to the best return.
Stable-Baselines3 runs in its own virtual environment, created when first needed (`--sb3-venv`).

The settings of the preset `general` were chosen on the tasks marked as tuned.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import rows

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `reproduction`, which is not installed

ROOT = Path(__file__).parent.parent
SB3 = ("torch==2.13.0", "stable-baselines3==2.7.1", "minigrid==3.0.0")


class Task(NamedTuple):
    """A task and its limits."""

    env: str
    steps: int
    every: int
    """Episodes between evaluations."""
    best: float
    """Return of a good policy."""
    floor: float = 0.0
    """Return of a random policy."""
    sparse: bool = True
    tuned: bool = False

    @property
    def target(self) -> float:
        return self.floor + 0.9 * (self.best - self.floor)


TASKS = {
    "key_door_5": Task("key_door:size=5,limit=40", 40_000, 20, 1.0, tuned=True),
    "key_door_8": Task("key_door:size=8,limit=80", 80_000, 20, 1.0, tuned=True),
    "key_door_12": Task("key_door:size=12,limit=120", 150_000, 20, 1.0, tuned=True),
    "key_door_8_features": Task("key_door:size=8,limit=80,observation=features", 80_000, 20, 1.0, tuned=True),
    "key_door_5_image": Task("key_door:size=5,limit=40,observation=image", 40_000, 20, 1.0),
    "key_door_8_slip": Task("key_door:size=8,limit=80,slip=0.1", 80_000, 20, 1.0),
    "FrozenLake8x8": Task("gym:FrozenLake8x8-v1", 60_000, 20, 0.85),
    "MountainCar": Task("gym:MountainCar-v0", 60_000, 10, -105.0, floor=-200.0),
    "Acrobot": Task("gym:Acrobot-v1", 40_000, 5, -75.0, floor=-500.0, sparse=False),
    "CartPole": Task("gym:CartPole-v1", 40_000, 10, 500.0, floor=20.0, sparse=False, tuned=True),
    "MiniGrid-Empty-8x8": Task("gym:MiniGrid-Empty-8x8-v0", 30_000, 5, 0.96),
    "MiniGrid-DoorKey-5x5": Task("gym:MiniGrid-DoorKey-5x5-v0", 40_000, 5, 0.96),
    "MiniGrid-MultiRoom-N2-S4": Task("gym:MiniGrid-MultiRoom-N2-S4-v0", 40_000, 10, 0.8),
}
AGENTS = ("tdu", "bdqn", "tdu_heads", "dqn", "dqn_paper", "cts_paper", "rnd_paper", "sb3_dqn", "sb3_zoo")
"""Agents with their defaults (ours with the preset general), or with the settings in `VARIANTS` and `ZOO`."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tdu_heads": ("tdu", {"ensemble": "heads"}),
    "dqn_paper": ("dqn", {"preset": "paper"}),
    "cts_paper": ("cts", {"preset": "paper"}),
    "rnd_paper": ("rnd", {"preset": "paper"}),
}
"""Our agents with other settings."""
SHARED_ZOO = {"policy_kwargs": {"net_arch": [256, 256]}}
ZOO: dict[str, dict[str, Any]] = {
    "CartPole": {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04, **SHARED_ZOO,
    },
    "MountainCar": {
        "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
        "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07, **SHARED_ZOO,
    },
    "Acrobot": {
        "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
        "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1, **SHARED_ZOO,
    },
}  # fmt: skip
"""Settings of Stable-Baselines3's DQN from RL Baselines3 Zoo, for the tasks that it has (agent sb3_zoo)."""
PAIRS = (
    ("tdu", "bdqn"), ("tdu_heads", "tdu"), ("tdu", "dqn"), ("bdqn", "dqn"), ("tdu", "dqn_paper"), ("bdqn", "dqn_paper"),
    ("tdu", "sb3_dqn"), ("bdqn", "sb3_dqn"), ("tdu", "sb3_zoo"),
)  # fmt: skip
"""Agents compared by task and seed."""
IN_A_ROW = 5
EPISODES = 20
"""Episodes of an evaluation. It has fewer if they take more than a tenth of the steps since the last one and than 1000."""

COLUMNS = (
    "task", "agent", "seed", "first_goal_episode", "first_goal_step", "target_episode", "target_step", "best_return",
    "last_return", "episodes", "steps", "largest_q", "possible_return", "warned", "seconds", "compiled",
)  # fmt: skip


class Watch:
    """Records in a run's row when the first goal and the target were reached."""

    def __init__(self, task: Task):
        self._task = task
        self._in_a_row = 0
        self.row: dict[str, Any] = dict.fromkeys(COLUMNS)

    def episode(self, episode: int, step: int, episode_return: float) -> None:
        if self._task.sparse and self.row["first_goal_episode"] is None and episode_return > self._task.floor:
            self.row |= {"first_goal_episode": episode, "first_goal_step": step}

    def evaluation(self, episode: int, step: int, mean: float) -> bool:
        """Records an evaluation; returns True once the run can end."""
        self.row["last_return"] = round(mean, 4)
        self.row["best_return"] = max(self.row["best_return"] or -1e9, round(mean, 4))
        reached = mean >= self._task.target
        if reached and self.row["target_step"] is None:
            self.row |= {"target_episode": episode, "target_step": step}
        self._in_a_row = self._in_a_row + 1 if reached else 0
        return self._in_a_row == IN_A_ROW


def ours(task: Task, agent: str, seed: int, **options: Any) -> dict[str, Any]:
    """A run of our agent, with its defaults except for `options`."""
    from tdu.run.processes import use_one_core

    use_one_core()
    import tdu

    watch, said = Watch(task), []

    def on_episode(row: dict[str, Any]) -> None:
        watch.episode(row["episode"], row["steps"], row["episode_return"])

    def on_evaluation(evaluation: Any) -> bool:
        return not watch.evaluation(evaluation.episode, evaluation.steps, evaluation.returns.mean)

    run = tdu.train(
        task.env, agent, seed=seed, steps=task.steps, evaluate_every=task.every, evaluation_episodes=EPISODES,
        callbacks=[tdu.Callback(on_episode=on_episode, on_evaluation=on_evaluation)], progress=None, say=said.append,
        **options,
    )  # fmt: skip
    warned = any(words.startswith("values drift") for words in said)
    kept = {name: run.result[name] for name in ("episodes", "steps", "largest_q", "possible_return")}
    return watch.row | kept | {"warned": warned}


def sb3_run(task: Task, seed: int, **settings: Any) -> dict[str, Any]:
    """A run of Stable-Baselines3's DQN with its defaults except for `settings`, on the same environment."""
    import gymnasium
    import numpy as np
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback

    import tdu
    from tdu.environments.spaces import MINIGRID_BYTES, flatten, layout

    torch.set_num_threads(1)

    def make() -> Any:
        env_id = tdu.environments.parse(task.env)
        if env_id.source == "gym":
            env = gymnasium.make(f"minigrid:{env_id.name}" if env_id.name.startswith("MiniGrid") else env_id.name)
        else:
            env = gymnasium.make("tdu/KeyDoor-v0", disable_env_checker=True, **env_id.options())
        if isinstance(env.observation_space, gymnasium.spaces.Dict):  # MiniGrid's, in the layout of our agents
            parts = layout(env.observation_space, largest_byte=MINIGRID_BYTES)
            space = gymnasium.spaces.Box(0.0, 1.0, parts.shape, np.float32)
            env = gymnasium.wrappers.TransformObservation(env, lambda seen: flatten(parts, seen, task.env), space)
        return env

    watch, tests = Watch(task), make()

    class Look(BaseCallback):
        episodes = longest = evaluated = 0
        total, length = 0.0, 0

        def _on_step(self) -> bool:
            self.total += float(self.locals["rewards"][0])
            self.length += 1
            if not self.locals["dones"][0]:
                return True
            self.episodes += 1
            self.longest = max(self.longest, self.length)
            watch.episode(self.episodes, self.num_timesteps, self.total)
            self.total, self.length = 0.0, 0
            if self.episodes % task.every:
                return True
            count = max(min(EPISODES, max((self.num_timesteps - self.evaluated) // 10, 1000) // self.longest), 1)
            self.evaluated = self.num_timesteps
            mean = statistics.mean(self._play(k) for k in range(count))
            return not watch.evaluation(self.episodes, self.num_timesteps, mean)

        def _play(self, episode: int) -> float:
            seen, _ = tests.reset(seed=10_000 * (seed + 1) + episode)
            total, over = 0.0, False
            while not over:
                action, _ = self.model.predict(seen, deterministic=True)
                seen, reward, terminated, truncated, _ = tests.step(int(action))
                total += float(reward)
                over = terminated or truncated
            return total

    look = Look()
    model = DQN("MlpPolicy", make(), seed=seed, device="cpu", **settings)
    model.learn(task.steps, callback=look)
    return watch.row | {"episodes": look.episodes, "steps": model.num_timesteps}


def worker(name: str, agent: str, seeds: list[int]) -> None:
    """Prints a row per seed. Our first run also compiles, and the others reuse its programs.

    Seconds are processor time. All agents use one core, so this is the time that they take on an idle core.
    """
    for seed in seeds:
        started, task = time.process_time(), TASKS[name]
        if agent in ("sb3_dqn", "sb3_zoo"):
            row = sb3_run(task, seed, **(ZOO[name] if agent == "sb3_zoo" else {}))
        else:
            known, options = VARIANTS.get(agent, (agent, {}))
            row = ours(task, known, seed, **options)
        seconds = round(time.process_time() - started, 1)
        row |= {"task": name, "agent": agent, "seed": seed, "seconds": seconds, "compiled": seed == seeds[0]}
        print(json.dumps(row), flush=True)


def sb3_python(venv: Path) -> Path:
    """The interpreter of Stable-Baselines3's own virtual environment, which is created if it does not exist."""
    python = venv / "bin" / "python"
    if not (venv / "made").exists():
        print(f"making {venv}, which takes some minutes …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *SB3, str(ROOT)], check=True)
        (venv / "made").touch()
    return python


def markdown(rows: list[dict[str, str]]) -> str:
    """A line per task and agent: the steps of the first goal and of the target, for every seed."""
    lines = [
        "| task | agent | seeds | first goal at step | target at step | reached | largest Q / possible | seconds, compiled |"
    ]
    lines.append("|---" * 8 + "|")
    for task in TASKS:
        for agent in AGENTS:
            matching = [r for r in rows if (r["task"], r["agent"]) == (task, agent)]
            if not matching:
                continue
            reached = [r for r in matching if r["target_step"]]
            ratios = [
                float(r["largest_q"]) / max(float(r["possible_return"]), 1e-9) for r in matching if r["largest_q"]
            ]
            cells = [
                f"{task}{' (tuned)' if TASKS[task].tuned else ''}",
                agent,
                str(len(matching)),
                median_words([r["first_goal_step"] for r in matching]) if TASKS[task].sparse else "–",
                median_words([r["target_step"] for r in matching]),
                f"{len(reached)} of {len(matching)}",
                f"{max(ratios):.2g}" if ratios else "–",
                f"{statistics.median(float(r['seconds']) for r in warm(matching)):.0f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: list[dict[str, str]]) -> str:
    """A line per task: every agent's median step of the target, successful seeds, and the rank of TDU and BDQN."""
    lines = [f"| task | {' | '.join(AGENTS)} | tdu is | bdqn is |", "|---" * (len(AGENTS) + 3) + "|"]
    for name, task in TASKS.items():
        steps = {
            agent: [float(r["target_step"] or "inf") for r in rows if (r["task"], r["agent"]) == (name, agent)]
            for agent in AGENTS
        }
        found = medians(steps)
        if "tdu" not in found:
            continue
        cells = [
            f"{_thousands(found[agent].estimate)} ({sum(s < float('inf') for s in steps[agent])}/{len(steps[agent])})"
            if agent in found
            else "–"
            for agent in AGENTS
        ]
        kind = "" if task.sparse else ", dense"
        cells += [standing(found, agent) for agent in ("tdu", "bdqn")]
        lines.append(f"| {name}{' (tuned)' if task.tuned else ''}{kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def medians(steps: dict[str, list[float]]) -> dict[str, Any]:
    """The median step of each agent that has runs, with its bootstrap interval."""
    import numpy as np

    from reproduction.statistics import bootstrap

    return {agent: bootstrap(matching, lambda x: np.median(x, axis=1)) for agent, matching in steps.items() if matching}


def standing(found: dict[str, Any], agent: str) -> str:
    """How an agent's median compares with the smallest one."""
    first = min(found, key=lambda other: found[other].estimate)
    if agent not in found or found[first].estimate == float("inf"):
        return "–" if agent not in found else "never there"
    if first == agent:
        return "first"
    within = found[agent].estimate <= found[first].high and found[agent].estimate < float("inf")
    return f"{'within the interval of' if within else 'behind'} {first}"


def pairs(rows: list[dict[str, str]]) -> str:
    """TDU and BDQN against others in pairs with the same task and seed.

    A run that never reached the target has its task's limit of steps.
    """
    from reproduction.statistics import Episodes, sign_flip

    steps = {
        (r["agent"], r["task"], r["seed"]): Episodes(
            int(r["target_step"] or TASKS[r["task"]].steps), bool(r["target_step"])
        )
        for r in rows
    }
    lines = [
        "| agents | pairs | first faster, slower | steps of the first over the second (95 %) | p |",
        "|---" * 5 + "|",
    ]
    for first, second in PAIRS:
        matching = {key[1:]: step for key, step in steps.items() if key[0] == first}
        both = [(step, steps[second, *key]) for key, step in matching.items() if (second, *key) in steps]
        if both:
            test = sign_flip(both)
            ratio = f"{test.ratio.estimate:.2f} ({test.ratio.low:.2f}–{test.ratio.high:.2f})"
            p = "< 0.0001" if test.p < 1e-4 else f"{test.p:.2g}"
            counts = f"{test.first_faster}, {test.second_faster}"
            lines.append(f"| {first}, {second} | {test.pairs} | {counts} | {ratio} | {p} |")
    return "\n".join(lines)


def _thousands(number: float) -> str:
    return "never" if number == float("inf") else f"{number / 1000:.1f}k"


def warm(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows whose time excludes compilation, if there are any."""
    return [r for r in rows if r["compiled"] != "True"] or rows


def median_words(texts: list[str]) -> str:
    """The median and every seed's number. Unsuccessful runs count as the longest."""
    if not texts:
        return "–"
    numbers = sorted(float(t) if t else float("inf") for t in texts)
    middle = statistics.median(numbers)
    return f"{_thousands(middle)} ({', '.join(map(_thousands, numbers))})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "tasks.csv")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS), metavar="AGENT")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sb3-venv", type=Path, default=ROOT / ".venv-sb3")
    parser.add_argument("--markdown", action="store_true", help="print the table and run nothing")
    parser.add_argument("--summary", action="store_true", help="print a line per task and run nothing")
    parser.add_argument(
        "--pairs", action="store_true", help="print TDU and BDQN against others in pairs and run nothing"
    )
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        name, agent, *seeds = parsed.worker
        worker(name, agent, [int(seed) for seed in seeds])
        return 0
    for wanted, table in ((parsed.markdown, markdown), (parsed.summary, summary), (parsed.pairs, pairs)):
        if wanted:
            print(table(rows.read(parsed.out)))
            return 0
    done = {(r["task"], r["agent"], r["seed"]) for r in rows.read(parsed.out)}
    plan = [
        (task, agent, str(seed))
        for agent in parsed.agents
        for task in parsed.only
        if agent != "sb3_zoo" or task in ZOO
        for seed in range(parsed.seeds)
    ]
    missing = [run for run in plan if run not in done]
    started, finished, failed = time.monotonic(), 0, 0
    for (task, agent), runs in itertools.groupby(missing, key=lambda run: run[:2]):
        python = sb3_python(parsed.sb3_venv) if agent.startswith("sb3") else Path(sys.executable)
        command = [str(python), __file__, "--worker", task, agent, *(seed for *_, seed in runs)]
        environment = os.environ | {"SDL_VIDEODRIVER": "dummy"}
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith("{"):
                    continue
                row = json.loads(line)
                rows.append(parsed.out, COLUMNS, row)
                finished += 1
                left = (time.monotonic() - started) / finished * (len(missing) - finished)
                words = f"target at {row['target_step'] or 'no'} steps, {row['seconds']:.0f} s"
                print(f"{task} {agent} {row['seed']}: {words} ({left / 60:.0f} min left)", file=sys.stderr, flush=True)
            if process.wait():
                failed += 1
                errors.seek(0)
                print(f"{task} {agent} failed: {errors.read().strip()[-500:]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
