"""The paper's sweeps (table 3): for each agent, the values tried of each option. The best ones are the configs' defaults."""

from typing import Any

BETAS = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
"""β of the ablations in appendix D, which differs from table 3's; 0 is the Bootstrapped DQN."""

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "tdu": {"prior_scale": (0.0, 1.0, 3.0), "beta": (1e-3, 1e-2, 0.1, 1.0, 5.0, 10.0)},
    "bdqn": {"prior_scale": (0.0, 1.0, 3.0, 5.0, 10.0, 50.0, 100.0)},
    "qu": {"beta": BETAS},
    "q_ucb": {"beta": BETAS},
    "dqn": {},
    "qex": {"beta": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 5.0, 10.0, 100.0, 1000.0)},
    "cts": {"beta": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 5.0, 10.0, 100.0, 1000.0)},
    "rnd": {
        "beta": (1e-2, 0.1, 0.5, 1.0, 5.0, 10.0, 100.0),
        "features": (10, 64, 128),
        "decay": (0.9, 0.99, 0.999),
        "normalise": (True, False),
    },
    "su": {
        "features": (20, 64),
        "likelihood_variance": (1e-2, 0.1, 1.0, 10.0, 100.0),
        "prior_variance": (1e-3, 0.1, 1.0, 10.0, 1000.0),
    },
    "nns": {"noise_scale": (1e-2, 0.1, 1.0, 10.0, 100.0)},
    "tdu_ac": {"beta": BETAS},
    "r2d2": {},
    "b_r2d2": {},
    "tdu_r2d2": {"beta": (0.1, 1.0), "prior_scale": (0.0, 0.05, 0.1), "explorers": (2, 3, 5)},
    "tdu_r2d2_prior": {"beta": (0.1, 1.0), "prior_scale": (0.0, 0.05, 0.1), "explorers": (2, 3, 5)},
}
"""The actor-critic is not in the paper's table: its β are those of the ablations. R2D2's values are appendix E's."""
