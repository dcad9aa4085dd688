"""Small settings with which every agent learns a small Deep Sea in seconds."""

import functools

import numpy as np

import tdu
from tdu import agents
from tdu.run.plan import make_runner, plan
from tdu.run.trained import TrainedAgent, play

SIZE, MAPPING = 4, 8
TASK = f"deep_sea:size={SIZE},mapping_seed={MAPPING}"
"""The action that moves right differs between rows, so no constant policy finds the chest."""

SEEDS = (1, 2, 3)
NETWORKS = {
    "hidden_sizes": (16,), "exploiters": 5, "explorers": 2, "critics": 3, "features": 8, "sequence_length": 8,
    "batch_size": 16, "min_replay": 32, "learning_rate": 5e-3,
}  # fmt: skip
EXPLORING = {
    "dqn": {"epsilon": 0.3},
    "rnd": {"epsilon": 0.3, "beta": 0.1},
    "su": {"learning_rate": 2e-3, "epsilon": 0.1, "prior_variance": 0.1},
    "cts": {"epsilon": 0.1},
    "qex": {"epsilon": 0.1},
    "tdu_ac": {"beta": 0.3},
    "nns": {"epsilon": 0.1},
}
"""With their defaults, these agents explore too slowly for such short runs. SU forgets at the other agents' step size."""


def settings(name):
    """Options of an agent."""
    fields = agents.AGENTS[name].config.__dataclass_fields__
    return {k: v for k, v in NETWORKS.items() if k in fields} | EXPLORING.get(name, {})


@functools.cache
def trained(name, seed, env=TASK, episodes=400):
    """A run that does not stop before its last episode."""
    return tdu.train(env, name, seed=seed, episodes=episodes, until="budget", evaluation_episodes=0, **settings(name))


def untrained(name, seed):
    """The agent before its first step."""
    planned = plan(TASK, name, seed=seed, episodes=1, **settings(name))
    runner, agent = make_runner(planned.config, planned.env, compiled=False)
    return TrainedAgent(runner.spec, agent, runner.params())


def returns(agents):
    """The greedy return of each agent. The chest minus the cost of moving is 0.99."""
    return np.array([play(TASK, agent, episodes=1).returns[0] for agent in agents])


def assert_learns(name):
    """Before training, no seed's agent finds the chest. After training, every seed's agent does."""
    runs = [trained(name, seed) for seed in SEEDS]
    assert returns([untrained(name, seed) for seed in SEEDS]).max() < 0.1
    np.testing.assert_allclose(returns([run.agent for run in runs]), [0.99] * len(SEEDS), rtol=1e-5)
    first, last = (np.mean([run.log["episode_return"][part] for run in runs]) for part in (np.s_[:40], np.s_[-40:]))
    assert last > first + 0.2
