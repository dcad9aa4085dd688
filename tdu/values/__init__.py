"""An ensemble of networks f_k + λ·P_k with targets and Adam, behind one set of functions (`types.Values`).

`dense` takes any observation. `one_hot` takes observations that are state indices. It keeps its first layer in a
`sparse_layer.RowTable` and learns the same numbers at a cost that does not grow with the number of states. The prior P_k is
never trained and is not part of the optimiser's tree; a head's target shares its prior. `types.Weights` defines what is
trained: the weights themselves, or a mean and a scale for each (noisy networks).
"""

from tdu.adam import Adam
from tdu.errors import UserError
from tdu.types import EnvSpec, Values, Weights
from tdu.values.dense import dense
from tdu.values.one_hot import one_hot
from tdu.values.shape import FOLDED, ONES, PLAIN, EnsembleShape

__all__ = ["FOLDED", "PLAIN", "EnsembleShape", "dense", "make", "one_hot", "table"]


def make(spec: EnvSpec, shape: EnsembleShape, *, weights: Weights = PLAIN, force_dense: bool = False) -> Values:
    """The ensemble for an environment: sparse for one-hot observations and Adam, unless `force_dense`."""
    if force_dense and spec.num_states is None:
        raise UserError(f"dense changes nothing on {spec.name}, whose observation is not one-hot; leave it out.")
    if shape.layout == "heads" and weights is not PLAIN:
        raise ValueError("heads on a trunk are trained as plain weights")
    if spec.num_states is None or force_dense or not isinstance(shape.optimiser, Adam):
        return dense(spec, shape, weights)
    return one_hot(spec, shape, weights)


def table(spec: EnvSpec, shape: EnsembleShape) -> Values:
    """One row of outputs per state of a one-hot observation, 1 at first: a linear layer without a bias."""
    return one_hot(spec, shape._replace(hidden_sizes=()), ONES)
