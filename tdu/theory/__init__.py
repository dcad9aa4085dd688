"""The paper's theory, executable: the bias of an ensemble's uncertainty where the true posterior is known.

Finite MDPs, their posteriors and arrays of values; independent of agents, runners and environments.
"""

from tdu.theory import bellman, families
from tdu.theory.bias import TransitionBias, transition_bias
from tdu.theory.mdp import MDP, mdp, next_values, values
from tdu.theory.posterior import Data, Posterior, SampleMoments, gather, moments, prior

__all__ = [
    "MDP", "Data", "Posterior", "SampleMoments", "TransitionBias", "bellman", "families", "gather", "mdp", "moments",
    "next_values", "prior", "transition_bias", "values",
]  # fmt: skip
