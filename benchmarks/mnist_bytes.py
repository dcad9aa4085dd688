"""Why bsuite's MNIST is hard: its pixels are signed bytes. A linear classifier, DQN and TDU on signed and unsigned bytes.

    python benchmarks/mnist_bytes.py           # results/mnist_bytes.json
    python benchmarks/mnist_bytes.py --all     # all 60 settings with unsigned bytes: results/mnist_unsigned.csv

It needs the extra bsuite and the MNIST files (tdu mnist). A second start with `--all` makes the missing rows.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import rows

import tdu
from tdu import environments
from tdu.environments.bsuite_twins.experiments import SETTINGS, ids
from tdu.environments.mnist_files import digits_folder, training_digits
from tdu.report.bsuite_scores import score_logs
from tdu.types import Environment, Key, TimeStep

ROOT = Path(__file__).resolve().parent.parent
EPISODES = 10_000
"""bsuite's number of episodes for MNIST."""
STEPS, BATCH, RATE = 1500, 64, 0.1
HELD_OUT = 2000


def accuracy(images: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy of softmax regression on held-out digits, trained on the others."""
    rng = np.random.default_rng(0)
    x, count = images.reshape(len(images), -1).astype(np.float32) / 255, len(images) - HELD_OUT
    weights = np.zeros((x.shape[1], 10), np.float32)
    for _ in range(STEPS):
        batch = rng.integers(0, count, BATCH)
        scores = np.exp(x[batch] @ weights)
        errors = scores / scores.sum(axis=1, keepdims=True) - np.eye(10)[labels[batch]]
        weights -= RATE * x[batch].T @ errors / BATCH
    return float(np.mean(np.argmax(x[count:] @ weights, axis=1) == labels[count:]))


def unsigned(env: Environment) -> Environment:
    """The same environment with pixels from 0 to 1."""

    def reset(key: Key) -> tuple[Any, TimeStep]:
        state, first = env.reset(key)
        pixels = first.observation
        return state, first._replace(observation=jnp.where(pixels < 0, pixels + 256 / 255, pixels))

    return env._replace(reset=reset)


def bsuite_score(bsuite_id: str, agent: str, preset: str, *, signed: bool, seed: int = 0) -> float:
    """bsuite's score of an agent on one setting. DQN with the preset `paper` has the settings of bsuite's own DQN."""
    made = environments.make(bsuite_id)
    assert isinstance(made, Environment)
    env = made if signed else unsigned(made)
    run = tdu.train(env, agent, seed=seed, preset=preset, episodes=EPISODES, progress=None, evaluation_episodes=0)
    (score,) = score_logs({bsuite_id: run.log})
    return round(score.score, 4)


def all_settings(out: Path) -> None:
    """One run of TDU on every MNIST setting with unsigned bytes; equal settings have different seeds."""
    sys.path.insert(0, str(ROOT))  # for `reproduction`, which is not installed
    from reproduction.experiments.bsuite_best import official_score

    experiments = [name for name in SETTINGS if name.startswith("mnist")]
    for bsuite_id in [i for name in experiments for i in ids(name)]:
        if bsuite_id not in {row["env"] for row in rows.read(out)}:
            seed = int(bsuite_id.split("/")[1])
            score = bsuite_score(bsuite_id, "tdu", "bsuite", signed=False, seed=seed)
            rows.append(out, ("env", "agent", "preset", "seed", "score"),
                        {"env": bsuite_id, "agent": "tdu", "preset": "bsuite", "seed": seed, "score": score})  # fmt: skip
            print(bsuite_id, score, flush=True)
    scores = {row["env"]: float(row["score"]) for row in rows.read(out)}
    for name in experiments:
        print(f"{name}: {official_score(name, {i: scores[i] for i in ids(name)}):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all settings with unsigned bytes")
    if parser.parse_args().all:
        all_settings(ROOT / "results" / "mnist_unsigned.csv")
        return
    images, labels = training_digits(digits_folder())
    found: dict[str, float] = {
        "digits": len(labels),
        "linear, signed bytes": round(accuracy(images, labels), 4),
        "linear, unsigned bytes": round(accuracy(images.view(np.uint8), labels), 4),
    }
    for agent, preset in (("dqn", "paper"), ("tdu", "bsuite")):
        for name, signed in (("signed", True), ("unsigned", False)):
            found[f"{agent}, preset {preset}, {name} bytes, bsuite's score"] = bsuite_score(
                "mnist/0", agent, preset, signed=signed
            )
    text = json.dumps(found, indent=2) + "\n"
    (ROOT / "results" / "mnist_bytes.json").write_text(text, "utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
