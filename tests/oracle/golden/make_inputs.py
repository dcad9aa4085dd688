"""Makes bsuite_logs.csv.gz: logs of made-up agents on every bsuite id, in bsuite's columns.

    TDU_MNIST=... python tests/oracle/golden/make_inputs.py

Each agent has a skill; its running totals grow accordingly, with noise. One agent has not finished its runs, one misses a
third of its ids, one was run on some ids only up to episode 90. The columns are those that bsuite's own environments report.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from bsuite import sweep

from tdu.environments import bsuite
from tdu.report.bsuite_scores import logged_episodes

AGENTS = {"perfect": 1.0, "good": 0.8, "poor": 0.15, "unfinished": 0.6, "gaps": 0.5, "short": 0.7}
REGRET = {"cartpole": 900.0, "mountain_car": 400.0, "discounting": 0.1, "mnist": 1.8, "catch": 1.6, "umbrella": 2.0}
"""About what an agent without skill regrets per episode."""
HERE = Path(__file__).parent


def log_of(rng: np.random.Generator, agent: str, bsuite_id: str, columns: list[str]) -> pd.DataFrame:
    skill = float(np.clip(AGENTS[agent] + rng.normal(0, 0.15), 0, 1))
    total = sweep.EPISODES[bsuite_id]
    if agent == "unfinished":
        total = int(total * rng.uniform(0.05, 0.9))
    if agent == "short" and rng.random() < 0.4:
        total = 90
    episode = np.array(sorted(logged_episodes(total)))[-12:]
    failure = (1 - skill) * rng.uniform(0.8, 1.2)
    data = {"episode": episode, "steps": episode * int(rng.integers(1, 30)), "episode_len": np.full(len(episode), 7)}
    data["episode_return"] = np.round(rng.normal(skill, 0.3, len(episode)), 3)
    data["total_return"] = np.round(episode * skill * rng.uniform(0.5, 1.5) * 10 ** rng.integers(0, 3), 3)
    if bsuite_id.startswith("discounting"):
        data["total_return"] = np.round(episode * (0.95 + 0.15 * skill), 3)
    for name in columns:
        grows = np.maximum.accumulate(episode * np.clip(failure + rng.normal(0, 0.02, len(episode)), 0, None))
        if name == "total_regret":
            grows = grows * next((v for k, v in REGRET.items() if bsuite_id.startswith(k)), 0.6) * rng.uniform(0.5, 1.5)
        elif name in ("total_perfect", "raw_return", "best_episode", "denoised_return"):
            grows = np.maximum.accumulate(episode * skill * rng.uniform(0.1, 3.0)) - (rng.random() < 0.2) * 30 * episode
            if bsuite_id.startswith("mountain_car"):
                grows = -episode * (25 + 700 * failure)
        elif name == "total_bad_episodes":
            grows = np.floor(np.minimum(grows * rng.uniform(0.7, 3.0), episode))
        data[name] = np.round(grows, 3)
    return pd.DataFrame(data).assign(agent=agent, bsuite_id=bsuite_id)


def main() -> None:
    columns = {}
    for bsuite_id in sweep.SWEEP:
        name = bsuite_id.split("/")[0]
        if name not in columns:
            columns[name] = list(bsuite.load(bsuite_id, 0).spec.info_names)
    rng = np.random.default_rng(20)
    frames = []
    for agent in AGENTS:
        for bsuite_id in sweep.SWEEP:
            if agent == "gaps" and rng.random() < 0.33 and not bsuite_id.endswith("/0"):
                continue
            frames.append(log_of(rng, agent, bsuite_id, columns[bsuite_id.split("/")[0]]))
    frame = pd.concat(frames, sort=False)
    frame.to_csv(HERE / "bsuite_logs.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})


if __name__ == "__main__":
    main()
