"""The values of the options that choose a network. Importing this file does not import JAX (`agents/config.py`)."""

from typing import Literal

TorsoKind = Literal["auto", "mlp", "conv", "layer_norm"]

TORSO_HELP = (
    "Layers before the hidden layers: convolutions (conv), none (mlp), or convolutions for images only (auto). "
    "layer_norm is auto with LayerNorm before every activation of the hidden layers."
)
"""Help text of the option `torso`."""

EnsembleKind = Literal["networks", "heads"]
