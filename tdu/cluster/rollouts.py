"""A rollout of a Ray cluster: some environments, and actors in them with the newest weights."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments, random
from tdu.agents.r2d2.actor import ladder
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.cluster.messages import Handle, Ref, Rolled, Service, Version, make_agent, pack
from tdu.run.folder.records import RunConfig
from tdu.run.processes import use_one_core
from tdu.run.runners import interaction
from tdu.run.runners.acting import Actors
from tdu.run.runners.recurrent import MASKS
from tdu.run.runners.stepped import SteppedEnvironments
from tdu.types import Environment, Params


class RolloutProcess:
    """A process that acts."""

    def __init__(self) -> None:
        use_one_core()

    def run(self, name: int, rung: int, config: RunConfig, replays: list[Handle], learners: list[Handle]) -> None:
        """Acts until the process is ended. `rung` is its place among all rollouts on the ladder of ε."""
        made = environments.make(config.env, f"{config.seed} rollout {name}", num_envs=config.num_envs, vectorises=True)
        agent = make_agent(config, made.spec)
        replay, weights = Service(replays), _Weights(learners)
        rollout = Rollout(made, agent, config, name, rung, weights.wait())
        sent: tuple[Ref, Rolled] | None = None
        while True:
            rolled = rollout.roll(weights.newest())
            if sent is not None:
                _deliver(replay, *sent)
            sent = replay.call("put", rolled), rolled


def _deliver(replay: Service, answer: Ref, rolled: Rolled) -> None:
    """Waits for the replay's answer. If it died meanwhile, the next one is sent the same, which it may have already."""
    while isinstance(replay.result(answer), str):
        answer = replay.call("put", rolled)


class _Weights:
    """The learner's weights, requested all the time and never waited for. Without a learner, the last ones are used."""

    def __init__(self, learners: list[Handle]):
        import ray

        self._ray, self._learner = ray, Service(learners)
        self._version: Version | None = None
        self._params: Params = None
        self._requested = self._learner.call("weights", None)

    def wait(self) -> Params:
        while self._params is None:
            self._ray.wait([self._requested], timeout=1.0)
            if self.newest() is None:
                time.sleep(0.1)
        return self._params

    def newest(self) -> Params:
        ray = self._ray
        if ray.wait([self._requested], timeout=0)[0]:
            found = self._learner.result(self._requested)
            if found is not None and not isinstance(found, str):
                try:
                    params = ray.get(found[1])
                    self._version, self._params = found[0], jax.tree.map(lambda x: jnp.asarray(np.array(x)), params)
                except ray.exceptions.RayError:
                    pass  # the learner died and its weights are lost: the last ones are used meanwhile
            self._requested = self._learner.call("weights", self._version)
        return self._params


class Rollout:
    """The environments of a rollout, and what they give as messages."""

    def __init__(
        self,
        env: environments.MadeEnvironment,
        agent: RecurrentAgent,
        config: RunConfig,
        name: int,
        rung: int,
        params: Params,
    ):
        assert config.actors is not None
        self._name, self._spec, self._number = name, env.spec, 0
        size = config.num_envs
        seed = environments.own_seed(config.env, config.seed)
        self._actors = Actors(
            env if isinstance(env, Environment) else SteppedEnvironments(env),
            agent,
            params,
            jax.random.fold_in(random.for_use(interaction.run_key(seed), random.Use.ROLLOUT), name),
            ladder(config.actors * size)[rung * size : (rung + 1) * size],
            seed=(seed, MASKS, name),
            first_stream=name * size,
        )

    def roll(self, params: Params) -> Rolled:
        actors = self._actors
        before = actors.meter.steps
        roll, episodes = actors.roll(params)
        self._number += 1
        episodes = [episode._replace(steps=episode.steps - before) for episode in episodes]
        sequences = [pack(self._spec, sequence) for sequence in actors.streams.cut(roll)]
        return Rolled(self._name, self._number, actors.meter.steps - before, episodes, sequences)
