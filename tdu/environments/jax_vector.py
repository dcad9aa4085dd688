"""B compiled environments stepped together from Python, for runs that are not one compiled loop.

One call steps all of them and begins the next episode of those that ended. Their whole state is arrays, so they come back
exactly.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.environments.python import Seed, number
from tdu.environments.vector import Ended, Stepped, together
from tdu.types import Array, Environment, TimeStep

_AGE = 1 << 31
"""Steps after which the counter under a key starts again, under another key."""


class JaxVector:
    """Every row draws from a key of its own; the draws of step t are numbered by t."""

    exact = True
    skips = False

    def __init__(self, env: Environment, seed: Seed, size: int):
        self.spec = env.spec
        self.size = size
        self._keys = jax.vmap(random.key)(jnp.asarray([number(f"{seed}/{row}") for row in range(size)], jnp.uint32))
        self._steps = 0
        self._state: Any = None
        self._now = np.zeros((size, *self.spec.carried_shape), self.spec.carried_dtype)
        self._totals: dict[str, float] = dict.fromkeys(self.spec.info_names, 0)

        def begin(key: Any) -> tuple[Any, Array]:
            state, first = env.reset(key)
            return state, jnp.asarray(first.observation, self.spec.carried_dtype)

        def step(state: Any, action: Array, key: Any) -> tuple[Any, TimeStep, Array, dict[str, Array]]:
            key_step, key_reset = jax.random.split(key)
            state, after = env.step(state, action, key_step)
            next_state, first = begin(key_reset)
            kept = jax.tree.map(lambda new, old: jnp.where(after.last, new, old), next_state, state)
            now = jnp.where(after.last, first, jnp.asarray(after.observation, self.spec.carried_dtype))
            return kept, after, now, env.info(state)

        def numbered(keys: Any, age: Array, t: Array) -> Any:
            return jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, age), t))(keys)

        self._begin = jax.jit(lambda keys, age, t: jax.vmap(begin)(numbered(keys, age, t)))
        self._step = jax.jit(lambda state, a, keys, age, t: jax.vmap(step)(state, a, numbered(keys, age, t)))

    def start(self) -> np.ndarray:
        """Begins the first episodes."""
        self._state, now = self._begin(self._keys, *self._count())
        self._now = np.array(now)
        return self._now.copy()

    def step(self, actions: np.ndarray) -> Stepped:
        """One step of every environment."""
        chosen = np.asarray(actions, np.int32)
        self._state, after, now, gained = self._step(self._state, chosen, self._keys, *self._count())
        after = TimeStep(*(np.asarray(leaf) for leaf in after))
        self._now = np.array(now)
        ended: dict[int, Ended] = {}
        for row in np.flatnonzero(after.last):
            mine = {name: np.asarray(gained[name])[row].item() for name in self.spec.info_names}
            self._totals = {name: together(name, [self._totals[name], value]) for name, value in mine.items()}
            ended[int(row)] = Ended(bad=bool(mine.get("total_bad_episodes", 0)), totals=dict(self._totals))
        return Stepped(after, np.ones(self.size, bool), self._now.copy(), ended)

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The environments' state, what is seen, and how many steps were taken."""
        arrays = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self._state))}
        return arrays | {"now": self._now.copy()}, {"steps": self._steps, "totals": self._totals}

    def restore(self, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> np.ndarray:
        """Puts all of it back."""
        empty, _ = jax.eval_shape(self._begin, self._keys, np.uint32(0), np.uint32(0))
        leaves = [jnp.asarray(arrays[f"state_{i}"]) for i in range(len(jax.tree.leaves(empty)))]
        self._state = jax.tree.unflatten(jax.tree.structure(empty), leaves)
        self._steps, self._totals = plain["steps"], dict(plain["totals"])
        self._now = arrays["now"].copy()
        return self._now.copy()

    def close(self) -> None:
        """There is nothing to give up."""

    def _count(self) -> tuple[np.uint32, np.uint32]:
        """Where the next draws come from."""
        age, t = divmod(self._steps, _AGE)
        self._steps += 1
        return np.uint32(age), np.uint32(t)
