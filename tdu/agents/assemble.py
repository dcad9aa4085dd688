"""From a config and a few choices to an agent: what the Q-learning agents share."""

from typing import Literal

from tdu import behaviour as behaviours
from tdu import values
from tdu.adam import Adam
from tdu.agents import units
from tdu.agents.config import EnsembleConfig, QConfig
from tdu.agents.q_ensemble import Learner, q_ensemble
from tdu.types import Agent, Behaviour, Bonus, EnvSpec, Weights


def q_agent(
    spec: EnvSpec,
    config: QConfig,
    *,
    exploiters: int,
    explorers: int,
    bonus: Bonus,
    behaviour: Behaviour,
    prior_scale: float = 0.0,
    mask_prob: float = 1.0,
    noise_scale: float = 0.0,
    acting: Literal["frozen", "live"] = "live",
    reward_unit: units.Kind = "one",
    head_steps: int = 0,
    return_steps: int = 1,
    return_cut: Literal["never", "worse"] = "never",
    layout: values.Kind = "networks",
    unit_prior: bool = False,
    weights: Weights = values.PLAIN,
) -> Agent:
    """A Q-learner of `exploiters` + `explorers` heads."""
    learner = Learner(
        exploiters=exploiters,
        explorers=explorers,
        discount=config.discount,
        batch_size=config.batch_size,
        replay_capacity=config.replay_capacity,
        min_replay=config.min_replay,
        learn_period=config.learn_period,
        mask_prob=mask_prob,
        noise_scale=noise_scale,
        acting=acting,
        reward_unit=reward_unit,
        head_steps=head_steps,
        return_steps=return_steps,
        return_cut=return_cut,
    )
    networks = shape(config, heads=exploiters + explorers, prior_scale=prior_scale)
    networks = networks._replace(layout=layout, unit_prior=unit_prior)
    heads = values.make(spec, networks, weights=weights, force_dense=config.dense)
    return q_ensemble(spec, learner, values=heads, bonus=bonus, behaviour=behaviour)


def shape(config: QConfig, *, heads: int, prior_scale: float) -> values.Shape:
    """The networks that a config describes."""
    return values.Shape(
        heads=heads,
        hidden_sizes=config.hidden_sizes,
        prior_scale=prior_scale,
        target_period=config.target_period,
        double=config.bootstrap == "double",
        adam=Adam(config.learning_rate, eps=config.adam_eps),
        torso=config.torso,
        standard=config.observations == "standard",
    )


def ensemble(
    spec: EnvSpec, config: EnsembleConfig, *, explorers: int, bonus: Bonus, optimism: float | None = None
) -> Agent:
    """An ensemble with priors and masks, one head of which acts for an episode; with `optimism`, on Q + optimism·σ(Q)."""
    behaviour = _head_choice(config, config.exploiters + explorers)
    if optimism is not None:
        behaviour = behaviours.optimistic(behaviour, optimism, config.epsilon)
    return q_agent(
        spec,
        config,
        exploiters=config.exploiters,
        explorers=explorers,
        bonus=bonus,
        behaviour=behaviour,
        prior_scale=config.prior_scale * (1.0 if spec.num_states is not None else config.dense_prior),
        mask_prob=config.mask_prob,
        noise_scale=config.noise_scale,
        acting=config.acting,
        reward_unit=config.reward_unit,
        head_steps=config.head_steps,
        return_steps=config.return_steps,
        return_cut=config.return_cut,
        layout=config.ensemble,
        unit_prior=config.prior_size == "unit",
    )


def _head_choice(config: EnsembleConfig, heads: int) -> Behaviour:
    match config.head_choice:
        case "uniform":
            return behaviours.uniform(heads, config.epsilon)
        case "ucb1":
            return behaviours.ucb1(heads, config.ucb_eta, config.epsilon)
        case "mixed":
            return behaviours.mixed(config.exploiters, heads, config.explorer_prob, config.epsilon)
