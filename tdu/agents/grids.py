"""The paper's sweeps: the values of each option that were tried, by agent. The best are the configs' defaults."""

BETAS = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
"""β of the ablations in appendix D, which differs from table 3's; 0 is the Bootstrapped DQN."""

ETAS = (0.1, 1.0, 2.0, 4.0, 6.0, 8.0)
"""η of the bandit over heads (appendix D)."""

R2D2_BETAS = (0.1, 1.0, 2.0)
R2D2_PRIOR_SCALES = (0.0, 0.05, 0.1)
R2D2_EXPLORERS = (2, 3, 5)
R2D2_HEADS = 10
"""Appendix E: β, λ, N, and the number of heads K + N."""

OptionValues = dict[str, tuple[object, ...]]
"""Values by option; a grid is their product."""

GRIDS: dict[str, OptionValues] = {
    "tdu": {"prior_scale": (0.0, 1.0, 3.0), "beta": (1e-3, 1e-2, 0.1, 1.0, 5.0, 10.0)},
    "bdqn": {"prior_scale": (0.0, 1.0, 3.0, 5.0, 10.0, 50.0, 100.0)},
    "qu": {"beta": BETAS},
    "q_ucb": {"beta": BETAS},
    "dqn": {},
    "qex": {"beta": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 5.0, 10.0, 100.0, 1000.0)},
    "cts": {"beta": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 5.0, 10.0, 100.0, 1000.0)},
    "rnd": {"beta": (1e-2, 0.1, 0.5, 1.0, 5.0, 10.0, 100.0), "features": (10, 64, 128), "decay": (0.9, 0.99, 0.999)},
    "su": {
        "features": (20, 64),
        "likelihood_variance": (1e-2, 0.1, 1.0, 10.0, 100.0),
        "prior_variance": (1e-3, 0.1, 1.0, 10.0, 1000.0),
    },
    "nns": {"noise_scale": (1e-2, 0.1, 1.0, 10.0, 100.0)},
    "tdu_ac": {"beta": BETAS},
    "r2d2": {},
    "b_r2d2": {},
    "tdu_r2d2": {"beta": R2D2_BETAS},
    "tdu_r2d2_prior": {"beta": R2D2_BETAS},
}
"""Table 3, and appendix E's β. The actor-critic is not in the paper: its β are those of the ablations."""

_EXPLORERS_BY_PRIOR: tuple[OptionValues, ...] = tuple(
    {"explorers": (n,), "exploiters": (R2D2_HEADS - n,), "prior_scale": R2D2_PRIOR_SCALES} for n in R2D2_EXPLORERS
)
_MORE: dict[str, tuple[OptionValues, ...]] = {
    "tdu": ({"head_choice": ("ucb1",), "ucb_eta": ETAS},),
    "rnd": ({"beta": GRIDS["rnd"]["beta"], "features": GRIDS["rnd"]["features"], "normalise": (False,)},),
    "tdu_r2d2": _EXPLORERS_BY_PRIOR,
    "tdu_r2d2_prior": _EXPLORERS_BY_PRIOR,
}
"""Further grids: the bandit's η (appendix D), RND without normalisation, N × λ at β = 1 (appendix E)."""


def paper_grids(agent: str) -> list[OptionValues]:
    """All of the paper's grids for an agent."""
    return [GRIDS.get(agent, {}), *_MORE.get(agent, ())]
