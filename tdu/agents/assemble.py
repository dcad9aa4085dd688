"""Makes a Q-learning agent from its config and a few choices."""

from tdu import behaviour as behaviours
from tdu import values
from tdu.agents.config import EnsembleConfig, LearnerConfig, QConfig
from tdu.agents.memory_trace import with_trace
from tdu.agents.q_ensemble import Heads, q_ensemble
from tdu.types import Agent, Behaviour, Bonus, EnvSpec, Weights


def single(
    spec: EnvSpec,
    config: LearnerConfig,
    *,
    bonus: Bonus,
    exploiters: int = 0,
    explorers: int = 0,
    behaviour: Behaviour | None = None,
    weights: Weights = values.PLAIN,
) -> Agent:
    """A Q-learner without priors, with one exploiter, one explorer, or both; a single head acts ε-greedily."""
    heads = Heads(exploiters, explorers)
    networks = values.make(spec, shape(config, heads=heads.number), weights=weights, force_dense=config.dense)
    behaviour = behaviour or behaviours.uniform(1, config.epsilon)
    return q_ensemble(spec, config, heads=heads, values=networks, bonus=bonus, behaviour=behaviour)


def ensemble(spec: EnvSpec, config: EnsembleConfig, *, bonus: Bonus, optimism: float | None = None) -> Agent:
    """An ensemble with priors and masks. One head acts per episode; with `optimism`, it maximises Q + optimism·σ(Q)."""
    heads = Heads(
        config.exploiters, config.explorers, config.mask_prob, config.noise_scale, config.acting, config.head_steps
    )
    behaviour = config.behaviour()
    if optimism is not None:
        behaviour = behaviours.optimistic(behaviour, optimism, config.epsilon)
    prior_scale = config.prior_scale * (1.0 if spec.num_states is not None else config.dense_prior)
    networks = shape(config, heads=config.heads, prior_scale=prior_scale)
    networks = networks._replace(layout=config.ensemble, unit_prior=config.prior_size == "unit")

    def make(spec: EnvSpec) -> Agent:
        made = values.make(spec, networks, force_dense=config.dense)
        return q_ensemble(spec, config, heads=heads, values=made, bonus=bonus, behaviour=behaviour)

    return with_trace(make, spec, config.trace_decay)


def shape(config: QConfig, *, heads: int, prior_scale: float = 0.0) -> values.EnsembleShape:
    return values.EnsembleShape(
        heads=heads,
        hidden_sizes=config.hidden_sizes,
        prior_scale=prior_scale,
        target_period=config.target_period,
        double=config.bootstrap == "double",
        optimiser=config.optimiser,
        torso=config.torso,
        standard=config.observations == "standard",
    )
