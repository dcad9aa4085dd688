"""A rollout of a Ray cluster: some environments, and what acts in them with the newest weights there are."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments, random
from tdu.agents.r2d2.actor import ladder
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.sequences import Sequence, Writer
from tdu.cluster.messages import Episode, Rolled, Served, lightened, make_agent
from tdu.environments.vector import Ended
from tdu.run.folder.records import RunConfig
from tdu.run.processes import use_one_core
from tdu.run.runners import interaction
from tdu.run.runners.acting import CompiledActing, CompiledCarry, Roll, SteppedActing
from tdu.run.runners.recurrent import stream_steps
from tdu.run.runners.rows import possible_return
from tdu.types import Environment, Params

_MASKS = 2
"""What a generator is for, beside the replay's batches."""


class Rollout:
    """Some environments, and what acts in them."""

    def __init__(self) -> None:
        use_one_core()

    def run(self, name: int, rung: int, config: RunConfig, replays_: list[Any], learners: list[Any]) -> None:
        """Acts for ever, as number `rung` of all rollouts on the ladder of ε."""
        made = environments.make(config.env, f"{config.seed} rollout {name}", num_envs=config.num_envs, vectorises=True)
        agent = make_agent(config, made.spec)
        replay, weights = Served(replays_), _Weights(learners)
        gathering = _Gathering(made, agent, config, name, rung, weights.wait())
        handed: tuple[Any, Rolled] | None = None
        while True:
            rolled = gathering.roll(weights.newest())
            if handed is not None:
                _hand_over(replay, *handed)
            handed = replay.ask("put", rolled), rolled


def _hand_over(replay: Served, answer: Any, rolled: Rolled) -> None:
    """Waits for the replay's answer. If it died meanwhile, the next one is given the same, which it may know already."""
    while isinstance(replay.answer(answer), str):
        answer = replay.ask("put", rolled)


class _Weights:
    """The learner's weights, asked for all the time and never waited for; without a learner, the last ones there were."""

    def __init__(self, learners: list[Any]):
        import ray

        self._ray, self._learner = ray, Served(learners)
        self._version: Any = None
        self._params: Params = None
        self._asked = self._learner.ask("weights", None)

    def wait(self) -> Params:
        while self._params is None:
            self._ray.wait([self._asked], timeout=1.0)
            if self.newest() is None:
                time.sleep(0.1)
        return self._params

    def newest(self) -> Params:
        ray = self._ray
        if ray.wait([self._asked], timeout=0)[0]:
            found = self._learner.answer(self._asked)
            if found is not None and not isinstance(found, str):
                try:
                    params = ray.get(found[1])
                    self._version, self._params = found[0], jax.tree.map(lambda x: jnp.asarray(np.array(x)), params)
                except ray.exceptions.RayError:
                    pass  # the learner died, and its weights with it: those before do meanwhile
            self._asked = self._learner.ask("weights", self._version)
        return self._params


class _Gathering:
    """Steps of a rollout's environments, as they are handed over."""

    def __init__(self, env: Any, agent: RecurrentAgent, config: RunConfig, name: int, rung: int, params: Params):
        assert config.actors is not None
        self._agent, self._seed, self._name = agent, environments.own_seed(config.env, config.seed), name
        self._size, self._spec = config.num_envs, env.spec
        own = random.for_use(interaction.run_key(self._seed), random.Use.ROLLOUT)
        self._key = jax.random.fold_in(own, name)
        self._acting: CompiledActing | SteppedActing
        if isinstance(env, Environment):
            self._acting = CompiledActing(env, agent, self._size, params, self._key)
        else:
            self._acting = SteppedActing(env, agent, params, self._key)
        mine = slice(rung * self._size, (rung + 1) * self._size)
        epsilons = jnp.asarray(ladder(config.actors * self._size)[mine])
        carry = self._acting.carry
        if isinstance(carry, CompiledCarry):
            self._acting.carry = carry._replace(acting=carry.acting._replace(epsilon=epsilons))
        else:
            self._acting.carry = carry._replace(epsilon=epsilons)
        memory = jax.tree.map(np.asarray, agent.settings.memory())
        self._writers = [Writer(agent.settings.shape, memory) for _ in range(self._size)]
        self._rounds = self._number = self._sequences = 0
        self._lengths = np.zeros(self._size, np.int64)
        self._returns, self._reward_sizes = np.zeros(self._size), np.zeros(self._size)

    def roll(self, params: Params) -> Rolled:
        """Some steps of every environment."""
        at = interaction.key_and_number(self._key, self._rounds, self._size)
        ages = interaction.FOLDED_STEPS // self._size
        count = min(self._agent.settings.rollout, ages - self._rounds % ages)
        roll, ends = self._acting.roll(params, at, count)
        self._rounds += count
        self._number += 1
        sequences = [sequence for row in range(self._size) for sequence in self._cut(roll, row)]
        steps, episodes = self._episodes(roll, {(end.t, end.row): end.ended for end in ends})
        return Rolled(self._name, self._number, steps, episodes, sequences)

    def _cut(self, roll: Roll, row: int) -> list[Sequence]:
        steps, memory = stream_steps(roll, row)
        found = []
        for piece in self._writers[row].extend(steps, memory):
            draws = np.random.default_rng([self._seed, _MASKS, self._name, self._sequences]).random(self._agent.heads)
            mask = (draws < self._agent.settings.mask_prob).astype(np.float32)
            stream = self._name * self._size + row
            sequence = Sequence(stream, piece.start, piece.steps, piece.memory, mask)
            found.append(lightened(self._spec, sequence))
            self._sequences += 1
        return found

    def _episodes(self, roll: Roll, ends: dict[tuple[int, int], Ended]) -> tuple[int, list[Episode]]:
        """Steps that counted, and the episodes that ended in them, in order."""
        steps, episodes = 0, []
        for t in range(len(roll.action)):
            taken, reward = roll.taken[t], np.where(roll.taken[t], roll.after.reward[t], 0.0)
            self._lengths += taken
            self._returns += reward
            self._reward_sizes += np.abs(reward)
            steps += int(np.count_nonzero(taken))
            for row in range(self._size):
                ended = ends.get((t, row))
                if ended is None:
                    continue
                possible = possible_return(
                    self._reward_sizes[row], self._lengths[row], roll.after.discount[t, row], self._agent.discount
                )
                length, total, head = int(self._lengths[row]), float(self._returns[row]), int(roll.head[t, row])
                episodes.append(Episode(steps, length, total, head, float(possible), ended.bad, ended.totals))
                self._lengths[row], self._returns[row], self._reward_sizes[row] = 0, 0.0, 0.0
        return steps, episodes
