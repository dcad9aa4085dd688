"""Python environments under way: B ≥ 1 of them, stepped together, and the time steps to act on."""

import contextlib
from collections.abc import Iterator

import numpy as np

from tdu.environments.vector import Arrays, Plain, Stepped, VectorEnvironment
from tdu.errors import UserError
from tdu.types import TimeStep

_PREFIX = "environment."  # of the environment's own arrays in what is saved


class SteppedEnvironments:
    """Environments of a run. They are started when their time steps are first needed."""

    def __init__(self, env: VectorEnvironment):
        self.env, self.spec, self.size = env, env.spec, env.size
        self._now: TimeStep | None = None

    def now(self) -> TimeStep:
        """The time steps to act on, [B, …]. A row whose next call only begins an episode has `last` set."""
        if self._now is None:
            self._now = first_steps(self.env.start())
        return self._now

    def step(self, actions: np.ndarray) -> Stepped:
        """One step of every environment, with actions [B]."""
        stepped = self.env.step(actions)
        after = stepped.after
        reward = np.where(after.last | ~stepped.taken, np.float32(0), after.reward)
        discount = np.where(after.last, np.float32(1), after.discount)
        self._now = TimeStep(stepped.now, reward, discount, after.last & stepped.taken & self.env.skips)
        return stepped

    def save(self, **beside: np.ndarray) -> tuple[Arrays, Plain]:
        """Their state, with other arrays beside it; nothing if they are not started."""
        if self._now is None:
            return {}, {}
        arrays, plain = self.env.save()
        arrays = {f"{_PREFIX}{name}": x for name, x in arrays.items()} | beside
        return arrays | {"reward": self._now.reward, "discount": self._now.discount}, {"environment": plain}

    def restore(self, arrays: Arrays, plain: Plain) -> bool:
        """Restores what `save` returned, or begins new episodes where it cannot; returns whether they were started."""
        if "environment" not in plain:
            return False
        self._now = first_steps(self.env.restore(without_prefix(arrays, _PREFIX), plain["environment"]))
        if self.env.exact:
            self._now = self._now._replace(reward=arrays["reward"], discount=arrays["discount"])
        return True

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[None]:
        """Lets others use environments that can be restored exactly; refuses to lend any other."""
        if not self.env.exact:
            raise UserError(
                f"{self.spec.name} cannot be saved and restored, so it cannot be evaluated during the run; leave "
                "evaluate_every out."
            )
        state = None if self._now is None else self.env.save()
        yield
        if state is not None:
            self.env.restore(*state)


def without_prefix(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names have the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def first_steps(observations: np.ndarray) -> TimeStep:
    """Time steps at the beginning of episodes."""
    size = len(observations)
    return TimeStep(observations, np.zeros(size, np.float32), np.ones(size, np.float32), np.zeros(size, bool))
