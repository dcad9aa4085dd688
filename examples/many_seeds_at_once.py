"""Many seeds in one program: a run is a pure function of its key, so `vmap` runs many at once. Useful on a GPU.

python examples/many_seeds_at_once.py [SEEDS]
"""

import sys
import time

import jax
import jax.numpy as jnp

import tdu
from tdu import agents, environments
from tdu.run.runners.compiled import train


def main(seeds: int, steps: int = 2000) -> jax.Array:
    env = environments.make("deep_sea:size=5")
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", {}))
    runs = jax.jit(jax.vmap(train(env, agent, steps)))
    started = time.perf_counter()
    _, rows = runs(jax.vmap(tdu.run_key)(jnp.arange(seeds)))
    returns = jax.block_until_ready(rows.episode_return)  # [seeds, episodes]; a row's first `filled` are valid
    took = time.perf_counter() - started
    print(f"{seeds} runs of {steps} steps on {jax.devices()[0].platform}: {took:.1f} s with compilation")
    is_episode = jnp.arange(returns.shape[1]) < rows.filled[:, None]
    found = jnp.sum((returns > 0.5) & is_episode, axis=1)
    print("times at the chest, by seed:", found.tolist())
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
