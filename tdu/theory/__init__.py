"""The paper's theory, executable: how biased an ensemble's uncertainty is where the true posterior is known.

Knows nothing of agents, runners or environments: finite MDPs, their posteriors, and arrays of values.
"""

from tdu.theory import approximations, bellman, capacity, families
from tdu.theory.bias import TransitionBias, transition_bias
from tdu.theory.mdp import MDP, mdp, next_values, values
from tdu.theory.posterior import Data, Moments, Posterior, gather, moments, prior

__all__ = [
    "MDP",
    "Data",
    "Moments",
    "Posterior",
    "TransitionBias",
    "approximations",
    "bellman",
    "capacity",
    "families",
    "gather",
    "mdp",
    "moments",
    "next_values",
    "prior",
    "transition_bias",
    "values",
]
