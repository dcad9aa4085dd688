"""Why bsuite's MNIST is hard: its pixels are signed bytes. A linear classifier with them and without, and DQN on mnist/0.

Needs the extra bsuite and the MNIST files (tdu mnist).
"""

import argparse
import json
from pathlib import Path

import numpy as np

import tdu
from tdu.environments.mnist_files import digits_folder, training_digits
from tdu.report.bsuite_scores import score_logs

STEPS, BATCH, RATE = 1500, 64, 0.1
HELD_OUT = 2000


def accuracy(images: np.ndarray, labels: np.ndarray) -> float:
    """Share of the held-out digits that softmax regression on the others has right."""
    rng = np.random.default_rng(0)
    x, count = images.reshape(len(images), -1).astype(np.float32) / 255, len(images) - HELD_OUT
    weights = np.zeros((x.shape[1], 10), np.float32)
    for _ in range(STEPS):
        batch = rng.integers(0, count, BATCH)
        scores = np.exp(x[batch] @ weights)
        errors = scores / scores.sum(axis=1, keepdims=True) - np.eye(10)[labels[batch]]
        weights -= RATE * x[batch].T @ errors / BATCH
    return float(np.mean(np.argmax(x[count:] @ weights, axis=1) == labels[count:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/mnist_bytes.json"))
    out = parser.parse_args().out
    images, labels = training_digits(digits_folder())
    run = tdu.train("mnist/0", "dqn", seed=0, progress=None, evaluation_episodes=0)
    (dqn,) = score_logs({"mnist/0": run.log})
    found = {
        "digits": len(labels),
        "linear, signed bytes": round(accuracy(images, labels), 4),
        "linear, unsigned bytes": round(accuracy(images.view(np.uint8), labels), 4),
        "dqn, seed 0, bsuite's score": round(dqn.score, 4),
    }
    out.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    print(out.read_text("utf-8"), end="")


if __name__ == "__main__":
    main()
