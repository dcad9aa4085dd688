"""Free memory, and whether an agent fits into it."""

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tdu.errors import UserError

SHARE = 0.9
"""The share of the free memory that an agent may take."""

_LARGE = 1e9  # Agents of at least this many bytes are reported


def available() -> int:
    """Free bytes on this machine; all of its memory if that is unknown."""
    try:
        with open("/proc/meminfo") as f:
            fields = dict(line.split(":", 1) for line in f)
        found = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as current:
            found = min(found, int(limit.read()) - int(current.read()))
    except (OSError, ValueError):
        pass  # no limit for this container
    return max(found, 0)


def on_device() -> int:
    """Free bytes on the device that JAX computes on: a GPU's own memory, otherwise the machine's."""
    limits = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in limits:
        return int(limits["bytes_limit"]) - int(limits.get("bytes_in_use", 0))
    return available()


def check_fits(
    init: Callable[[jax.Array], object], replay_capacity: int, *, room: float | None = None
) -> tuple[str, ...]:
    """A note about the memory of a large agent. Refuses an agent that does not fit.

    `init(key)` makes the agent's state. Only its shapes are computed.
    """
    state = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    needed = sum(_bytes(leaf) for leaf in jax.tree.leaves(state))
    room = SHARE * on_device() if room is None else room
    if needed > room:
        replay = sum(_bytes(x) for x in jax.tree.leaves(state) if x.shape[:1] == (replay_capacity,))
        fits = int((room - (needed - replay)) / max(replay / replay_capacity, 1))
        advice = f"the largest replay_capacity that fits is about {fits:,}" if fits > 0 else "use smaller networks"
        raise UserError(
            f"the agent needs {gigabytes(needed)} of memory, {gigabytes(replay)} of it for a replay of {replay_capacity:,} "
            f"transitions, but only {gigabytes(room)} are free; {advice}."
        )
    return (f"the agent takes {gigabytes(needed)} of memory.",) if needed >= _LARGE else ()


def _bytes(leaf: jax.ShapeDtypeStruct) -> int:
    width = 8 if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.dtype(leaf.dtype).itemsize
    return int(np.prod(leaf.shape, dtype=np.int64)) * width


def gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
