"""From a config and an environment to a recurrent agent."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from tdu import bonus as bonuses
from tdu import values
from tdu.adam import Adam
from tdu.agents.r2d2 import actor as actors
from tdu.agents.r2d2 import learner as learners
from tdu.agents.r2d2 import network as networks
from tdu.agents.r2d2.config import Config, TduR2D2Config
from tdu.agents.r2d2.replay import Settings
from tdu.agents.r2d2.sequences import Batch, Shape
from tdu.errors import UserError
from tdu.metrics import Metrics, Reducers
from tdu.options import changed
from tdu.types import Actor, Array, Bonus, EnvSpec, Key, Params, State, TimeStep, Transition


class Running(NamedTuple):
    """What a runner needs of the options."""

    shape: Shape
    replay: Settings
    memory: Callable[[], Any]
    """memory() -> the network's memory at the beginning of an episode."""
    batch_size: int
    min_replay: int
    """Sequences before learning starts."""
    learn_period: int
    """Environment steps per learning step."""
    rollout: int
    """Most steps of every environment between two rounds of learning."""
    mask_prob: float


class RecurrentAgent(NamedTuple):
    """An agent that learns from sequences in a replay on the host. Pure functions over explicit state."""

    init: Callable[[Key], learners.LearnerState]
    params: Callable[[learners.LearnerState], Params]
    """params(state) -> what its actors need."""
    actor: Callable[[Array | float], Actor]
    """actor(ε) -> what collects experience, with a random action with that probability."""
    next_episode: Callable[[actors.Acting], actors.Acting]
    """next_episode(actor state) -> the same head with an empty memory."""
    evaluator: Actor
    """The trained policy."""
    values: Callable[[Params, Array], Array]
    """values(params, observation) -> [A], which the evaluator maximises at the beginning of an episode."""
    update: Callable[[learners.LearnerState, Batch], tuple[learners.LearnerState, Array, Metrics]]
    """update(state, batch of sequences) -> state, priorities [B], metrics."""
    observe: Callable[[learners.LearnerState, Transition], learners.LearnerState] | None
    """observe(state, transitions [n]) -> state, where the bonus counts every transition."""
    memory: Callable[[actors.Acting], State]
    """memory(actor state) -> the network's memory, as sequences store it."""
    head: Callable[[actors.Acting], Array]
    """head(actor state) -> index of the head that acts."""
    discount: float
    """γ, which bounds values."""
    exploiters: int
    heads: int
    reducers: Reducers
    """The metrics of `update`, which learner.csv logs."""
    settings: Running


def make(spec: EnvSpec, config: Config) -> RecurrentAgent:
    """The agent for an environment."""
    explorers = config.explorers if isinstance(config, TduR2D2Config) else 0
    heads = config.exploiters + explorers
    network = _network(spec, config, heads)
    shape = Shape(config.burn_in, config.trace_length, config.replay_period)
    settings = learners.Settings(
        exploiters=config.exploiters,
        explorers=explorers,
        discount=config.discount,
        td_lambda=config.td_lambda,
        learning_rate=config.learning_rate,
        adam_eps=config.adam_eps,
        clip=config.clip,
        target_period=config.target_period,
    )
    bonus = _bonus(spec, config) if isinstance(config, TduR2D2Config) else bonuses.nothing()
    learner = learners.make(network, shape, settings, bonus)
    evaluated = slice(0, config.exploiters) if config.evaluate == "exploiters" else slice(config.exploiters, heads)
    evaluator = actors.evaluator(network, evaluated, config.evaluation_epsilon)

    def first_values(params: Params, observation: Array) -> Array:
        assert evaluator.values is not None
        number = jnp.zeros(())
        return evaluator.values(params, actors.fresh(network), TimeStep(observation, number, number + 1, number > 0))

    return RecurrentAgent(
        init=learner.init,
        params=learner.params,
        actor=lambda epsilon: actors.explorer(network, heads, config.head_steps, epsilon),
        next_episode=lambda acting: actors.forgetting(network, acting),
        evaluator=evaluator,
        values=first_values,
        update=learner.update,
        observe=learner.observe if isinstance(config, TduR2D2Config) and config.bonus == "counts" else None,
        memory=lambda acting: acting.remembered.memory,
        head=lambda acting: acting.head,
        discount=config.discount,
        exploiters=config.exploiters,
        heads=heads,
        reducers=learners.REDUCERS,
        settings=Running(
            shape=shape,
            replay=Settings(
                capacity=config.replay_capacity,
                priority_exponent=config.priority_exponent,
                importance_exponent=config.importance_exponent,
                compress=config.compress,
            ),
            memory=network.memory,
            batch_size=config.batch_size,
            min_replay=config.min_replay,
            learn_period=config.learn_period,
            rollout=config.rollout,
            mask_prob=config.mask_prob,
        ),
    )


def _network(spec: EnvSpec, config: Config, heads: int) -> networks.Recurrent:
    sizes = networks.Sizes(
        heads=heads,
        filters=config.filters,
        hidden=config.hidden_sizes,
        lstm=config.lstm_size,
        head=config.head_size,
        feeds_back=config.feed_back,
        torso=config.torso,
        pixels=config.pixels,
    )
    trained = networks.make(spec, sizes)
    if not config.prior_scale:
        return networks.without_prior(trained)
    prior = networks.make(spec, sizes.narrower(config.prior_width))
    return networks.with_prior(trained, prior, config.prior_scale)


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
