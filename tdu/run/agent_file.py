"""A trained agent as one file: its parameters in safetensors, its description as JSON in the file's header. No pickle.

The file has all that acting needs: the agent's name and options, the shapes of observations and actions, and the networks. It
has no replay and no optimiser, so it cannot be trained further.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from tdu import files
from tdu.errors import RunError, writing
from tdu.types import EnvSpec, Params, Part, Parts

_FORMAT = "tdu-agent-1"
_OF_SPEC = (
    "name", "observation_shape", "num_actions", "num_states", "dtype", "actions", "first_state", "is_stacked",
)  # fmt: skip
"""Fields of a spec that acting needs, beside `parts`."""


class Origin(NamedTuple):
    """What an agent was made from."""

    agent: str
    """Its name in the table of agents."""
    options: dict[str, Any]
    """Every option."""


def write(path: Path, spec: EnvSpec, origin: Origin, params: Params) -> None:
    """Writes the file as a whole. Only a file of an agent is replaced."""
    if path.exists():
        _read(path)
    content = {
        "agent": origin.agent,
        "options": origin.options,
        "spec": {name: getattr(spec, name) for name in _OF_SPEC},
        "parts": spec.parts,
    }
    text = json.dumps(content, default=lambda number: number.item())
    arrays = {name: np.asarray(x, order="C") for name, x in named(params).items()}
    header = {"format": _FORMAT, "content": text, "sha256": _digest(text, arrays)}
    with writing(path):
        files.write_atomically(path, safetensors.numpy.save(arrays, header))


def read(path: Path) -> tuple[EnvSpec, Origin, dict[str, np.ndarray]]:
    """The spec, the origin and the named parameters in a file."""
    content, arrays = _read(path)
    try:
        described = content["spec"]
        spec = EnvSpec(**described)._replace(
            observation_shape=tuple(described["observation_shape"]),
            actions=tuple((low, count) for low, count in described["actions"]),
            parts=None if content["parts"] is None else _parts(*content["parts"]),
        )
        return spec, Origin(content["agent"], content["options"]), arrays
    except (KeyError, TypeError, ValueError) as e:
        raise RunError(f"{path} is not a saved agent of this version ({e}).") from None


def named(params: Params) -> dict[str, Any]:
    """The arrays of a pytree by name."""
    return {jax.tree_util.keystr(path) or "whole": x for path, x in jax.tree_util.tree_leaves_with_path(params)}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        files.open_regular(path).close()
        with safe_open(path, framework="numpy") as tensors:
            header = tensors.metadata() or {}
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a dictionary)
        if header.get("format") != _FORMAT or header.get("sha256") != _digest(header["content"], arrays):
            raise ValueError("its checksum or its format does not match")
        return files.parsed_json(header["content"].encode()), arrays
    except OSError as e:
        raise RunError(f"{path} cannot be read ({(e.strerror or str(e)).lower()}).") from None
    except (ValueError, KeyError, SafetensorError) as e:
        raise RunError(f"{path} is not a saved agent, or it is damaged ({e}).") from None


def _parts(taken: list[list[Any]], left_out: list[str]) -> Parts:
    parts = (
        Part(tuple(path), tuple(shape), largest, tuple((low, count) for low, count in choices))
        for path, shape, largest, choices in taken
    )
    return Parts(tuple(parts), tuple(left_out))


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, x in sorted(arrays.items()):
        digest.update(f"{name}{x.dtype}{x.shape}".encode())
        digest.update(x.tobytes())
    return digest.hexdigest()
