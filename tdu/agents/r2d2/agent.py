"""From a config and an environment to a recurrent agent."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from tdu import bonus as bonuses
from tdu import values
from tdu.adam import Adam
from tdu.agents.r2d2 import actor as actors
from tdu.agents.r2d2 import learner as learners
from tdu.agents.r2d2 import network as networks
from tdu.agents.r2d2.config import Config, TduR2D2Config
from tdu.agents.r2d2.sequences import Batch, Memory
from tdu.errors import UserError
from tdu.metrics import Metrics, Reducers
from tdu.options import changed
from tdu.types import Actor, Array, Bonus, EnvSpec, Key, TimeStep, Transition


class RecurrentAgent(NamedTuple):
    """An agent that learns from sequences in a replay on the host. Pure functions over explicit state."""

    init: Callable[[Key], learners.LearnerState]
    params: Callable[[learners.LearnerState], networks.RecurrentParams]
    """params(state) -> what its actors need."""
    actor: Callable[[Array | float], Actor]
    """actor(ε) -> what collects experience, with a random action with that probability."""
    next_episode: Callable[[actors.Acting], actors.Acting]
    """next_episode(actor state) -> the same head with an empty memory."""
    evaluator: Actor
    """The trained policy."""
    values: Callable[[networks.RecurrentParams, Array], Array]
    """values(params, observation) -> [A], which the evaluator maximises at the beginning of an episode."""
    update: Callable[[learners.LearnerState, Batch], tuple[learners.LearnerState, Array, Metrics]]
    """update(state, batch of sequences) -> state, priorities [B], metrics."""
    observe: Callable[[learners.LearnerState, Transition], learners.LearnerState] | None
    """observe(state, transitions [n]) -> state, where the bonus counts every transition."""
    empty_memory: Callable[[], Memory]
    """empty_memory() -> the network's memory at the beginning of an episode."""
    memory: Callable[[actors.Acting], Memory]
    """memory(actor state) -> the network's memory, as sequences store it."""
    head: Callable[[actors.Acting], Array]
    """head(actor state) -> index of the head that acts."""
    discount: float
    """γ, which bounds values."""
    reducers: Reducers
    """The metrics of `update`, which learner.csv logs."""
    config: Config


def make(spec: EnvSpec, config: Config) -> RecurrentAgent:
    network = networks.make(spec, config)
    bonus = _bonus(spec, config) if isinstance(config, TduR2D2Config) else bonuses.nothing()
    learner = learners.make(network, config, bonus)
    evaluated = slice(config.exploiters) if config.evaluate == "exploiters" else slice(config.exploiters, None)
    evaluator = actors.evaluator(network, evaluated, config.evaluation_epsilon)

    def first_values(params: networks.RecurrentParams, observation: Array) -> Array:
        assert evaluator.values is not None
        number = jnp.zeros(())
        return evaluator.values(params, actors.fresh(network), TimeStep(observation, number, number + 1, number > 0))

    return RecurrentAgent(
        init=learner.init,
        params=learner.params,
        actor=lambda epsilon: actors.explorer(network, config.heads, config.head_steps, epsilon),
        next_episode=lambda acting: actors.forgetting(network, acting),
        evaluator=evaluator,
        values=first_values,
        update=learner.update,
        observe=learner.observe if isinstance(config, TduR2D2Config) and config.bonus == "counts" else None,
        empty_memory=network.memory,
        memory=lambda acting: acting.remembered.memory,
        head=lambda acting: acting.head,
        discount=config.discount,
        reducers=learners.REDUCERS,
        config=config,
    )


def _bonus(spec: EnvSpec, config: TduR2D2Config) -> Bonus:
    match config.bonus:
        case "tdu":
            return bonuses.td_uncertainty(config.beta, unbiased=config.divisor == "unbiased")
        case "qu":
            return bonuses.q_uncertainty(config.beta)
        case "qex":
            return bonuses.absolute_td(config.beta)
        case "counts":
            if spec.num_states is not None and changed(config, "resolution"):
                raise UserError("states of one-hot observations are counted exactly; resolution would change nothing.")
            return bonuses.counts(config.beta, spec, resolution=config.resolution)
        case "rnd":
            shape = values.EnsembleShape(
                heads=1,
                hidden_sizes=config.hidden_sizes,
                prior_scale=-1.0,
                target_period=1,
                double=False,
                optimiser=Adam(config.learning_rate, eps=config.adam_eps),
                torso=config.torso,
            )
            predictor = values.make(spec._replace(num_actions=_FEATURES), shape)
            return bonuses.distillation(config.beta, predictor, decay=_DECAY, normalise=True)


_FEATURES, _DECAY = 10, 0.999
"""Of random network distillation: the paper's best for bsuite."""
