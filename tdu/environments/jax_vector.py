"""B compiled environments stepped together from Python, for runs that are not one compiled loop.

One call steps all of them and starts the next episode where one ended. Their state is arrays, so it is restored exactly.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.environments.python import Seed, number
from tdu.environments.vector import Arrays, Ended, Plain, Stepped
from tdu.types import Array, Environment, Key, State, TimeStep

_AGE = 1 << 31
"""Steps per key. After them the step counter restarts with another key."""


class JaxVector:
    """Every row has its own key. The draws of step t come from fold_in(key, t)."""

    exact = True
    skips = False

    def __init__(self, env: Environment, seed: Seed, size: int):
        self.spec = env.spec
        self.size = size
        self._keys = jax.vmap(random.key)(jnp.asarray([number(f"{seed}/{row}") for row in range(size)], jnp.uint32))
        self._steps = 0
        self._state: State = None
        self._now = np.zeros((size, *self.spec.carried_shape), self.spec.carried_dtype)
        self._totals: dict[str, float] = dict.fromkeys(self.spec.info_names, 0)

        def begin(key: Key) -> tuple[State, Array]:
            state, first = env.reset(key)
            return state, jnp.asarray(first.observation, self.spec.carried_dtype)

        def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep, Array, dict[str, Array]]:
            key_step, key_reset = jax.random.split(key)
            state, after = env.step(state, action, key_step)
            next_state, first = begin(key_reset)
            kept = jax.tree.map(lambda new, old: jnp.where(after.last, new, old), next_state, state)
            now = jnp.where(after.last, first, jnp.asarray(after.observation, self.spec.carried_dtype))
            return kept, after, now, env.info(state)

        def numbered(keys: Key, age: Array, t: Array) -> Key:
            return jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, age), t))(keys)

        self._begin = jax.jit(lambda keys, age, t: jax.vmap(begin)(numbered(keys, age, t)))
        self._step = jax.jit(lambda state, a, keys, age, t: jax.vmap(step)(state, a, numbered(keys, age, t)))

    def start(self) -> np.ndarray:
        self._state, now = self._begin(self._keys, *self._count())
        self._now = np.array(now)
        return self._now.copy()

    def step(self, actions: np.ndarray) -> Stepped:
        chosen = np.asarray(actions, np.int32)
        self._state, after, now, infos = self._step(self._state, chosen, self._keys, *self._count())
        after = TimeStep(*(np.asarray(leaf) for leaf in after))
        self._now = np.array(now)
        ended: dict[int, Ended] = {}
        for row in np.flatnonzero(after.last):
            info = {name: np.asarray(infos[name])[row].item() for name in self.spec.info_names}
            self._totals = self.spec.with_episode(self._totals, info)
            ended[int(row)] = Ended(bad=bool(info.get("total_bad_episodes", 0)), totals=dict(self._totals))
        return Stepped(after, np.ones(self.size, bool), self._now.copy(), ended)

    def save(self) -> tuple[Arrays, Plain]:
        arrays = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self._state))}
        return arrays | {"now": self._now.copy()}, {"steps": self._steps, "totals": self._totals}

    def restore(self, arrays: Arrays, plain: Plain) -> np.ndarray:
        empty, _ = jax.eval_shape(self._begin, self._keys, np.uint32(0), np.uint32(0))
        leaves = [jnp.asarray(arrays[f"state_{i}"]) for i in range(len(jax.tree.leaves(empty)))]
        self._state = jax.tree.unflatten(jax.tree.structure(empty), leaves)
        self._steps, self._totals = plain["steps"], dict(plain["totals"])
        self._now = arrays["now"].copy()
        return self._now.copy()

    def close(self) -> None:
        """Compiled environments hold no resources."""

    def _count(self) -> tuple[np.uint32, np.uint32]:
        """Numbers that the next draws' keys are folded with."""
        age, t = divmod(self._steps, _AGE)
        self._steps += 1
        return np.uint32(age), np.uint32(t)
