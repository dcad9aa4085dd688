"""Every option changes what an agent computes, or is refused with one sentence."""

import dataclasses
import functools
import hashlib
from typing import get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import agents
from tdu.agents.r2d2 import sequences
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.errors import UserError
from tdu.run.runners import interaction
from tdu.types import EnvSpec, TimeStep

SPECS = {
    "one-hot": EnvSpec("one-hot", (2, 2), 2, num_states=4),
    "vector": EnvSpec("vector", (3,), 2),
    "image": EnvSpec("image", (6, 6, 1), 2, dtype="uint8"),
}
TINY = {"hidden_sizes": (3,), "exploiters": 2, "explorers": 2, "critics": 2, "features": 2, "batch_size": 2}
TINY |= {"min_replay": 2, "replay_capacity": 4, "sequence_length": 2}
TINY |= {"lstm_size": 8, "head_size": 8, "filters": (2,), "burn_in": 1, "trace_length": 4, "replay_period": 2}

NEEDS = {
    "ucb_eta": {"head_choice": "ucb1"},
    "explorer_prob": {"head_choice": "mixed"},
    "return_cut": {"return_steps": 2},
    "eager_steps": {"learn_period": 2},
}
NEEDS |= {"resolution": {"bonus": "counts"}}
"""Options that need another option; alone they are refused."""

KINDS = dict.fromkeys(("dense", "torso", "resolution", "successor"), tuple(SPECS))
KINDS |= dict.fromkeys(("filters", "pixels"), ("image",))
"""Observations on which an option is tested; the default is vectors alone."""

REFUSED = {"su": {"bootstrap", "observations"}, "bdqn": {"explorer_prob"}, "q_ucb": {"explorer_prob"}}
"""Options that an agent has but always refuses."""


def tiny(name):
    fields = agents.AGENTS[name].config.__dataclass_fields__
    return {k: v for k, v in TINY.items() if k in fields}


@functools.cache
def program(name, kind, options):
    """Everything an agent computes, as text: initial state, acting, storing, learning and final values."""
    spec = SPECS[kind]
    agent = agents.find(name).make(spec, agents.configure(name, dict(options)))
    if isinstance(agent, RecurrentAgent):
        return recurrent_program(spec, agent)

    def everything(key, observation):
        state = agent.init(key)
        number = jnp.zeros(())
        timestep = TimeStep(observation, number, number, number > 0)
        params = agent.params(state)
        action, acting = agent.actor.act(params, agent.actor.begin(params, key), timestep, key)
        transition = interaction.as_transition(agent, observation, action, timestep)
        after, metrics = agent.learn(agent.observe(state, acting, transition, key), key)
        return after, metrics, agent.rebase(state), agent.values(params, observation), agent.head(acting), agent.live

    traced = jax.make_jaxpr(everything)(jax.random.key(0), jnp.zeros(spec.carried_shape, spec.carried_dtype))
    constants = [hashlib.sha256(np.asarray(x).tobytes()).hexdigest() for x in traced.consts]
    return f"{traced.jaxpr} {constants} {agent.one_stream}"


OF_THE_RUNNER = (
    "replay_period", "replay_capacity", "priority_exponent", "importance_exponent", "compress", "min_replay", "learn_period",
    "rollout", "mask_prob",
)  # fmt: skip
"""Options of a recurrent agent that its runner uses."""


def recurrent_program(spec, agent):
    """The same for a recurrent agent, plus the options that its runner uses."""
    config = agent.config

    def everything(key, observation):
        state = agent.init(key)
        number = jnp.zeros(())
        timestep, params = TimeStep(observation, number, number, number > 0), agent.params(state)
        acts = agent.actor(0.1)
        action, acting = acts.act(params, acts.begin(params, key), timestep, key)
        shape = (config.shape.length, config.batch_size)
        steps = jax.tree.map(lambda x: jnp.zeros((*shape, *x.shape[1:]), x.dtype), sequences.empty_steps(spec, 1))
        memory = jax.tree.map(lambda x: jnp.zeros((config.batch_size, *x.shape)), agent.empty_memory())
        ones = jnp.ones((config.batch_size, config.heads))
        after = agent.update(state, sequences.Batch(steps, memory, ones, ones[:, 0]))
        evaluated = agent.evaluator.act(params, agent.evaluator.begin(params, key), timestep, key)
        return after, action, acting, evaluated, agent.values(params, observation)

    traced = jax.make_jaxpr(everything)(jax.random.key(0), jnp.zeros(spec.carried_shape, spec.carried_dtype))
    return f"{traced.jaxpr} {[getattr(config, name) for name in OF_THE_RUNNER]} {agent.observe is None}"


def another(name, field):
    """A legal value of a field that differs from its current one."""
    config = agents.AGENTS[name].config
    hint, now = get_type_hints(config)[field.name], tiny(name).get(field.name, field.default)
    if field.name == "min_replay":
        return now + 1  # the replay's capacity limits it
    if isinstance(now, tuple):
        return (5,)
    if choices := get_args(hint):
        return next(choice for choice in choices if choice != now)
    if isinstance(now, bool):
        return not now
    if isinstance(now, int):
        return 2 * now or 3
    lowest = field.metadata["minimum"]
    return now / 2 if now and (lowest is None or now / 2 >= lowest) else now + 0.25


def effect(name, kind, before, option, value):
    """The effect of an option on an agent: "changed", "refused" or "nothing"."""
    try:
        after = program(name, kind, tuple((before | {option: value}).items()))
    except UserError:
        return "refused"
    return "changed" if after != program(name, kind, tuple(before.items())) else "nothing"


@pytest.mark.parametrize(
    "name", [n for n, entry in agents.AGENTS.items() if not entry.is_recurrent] + ["tdu_r2d2_prior"]
)
def test_every_option_changes_the_agent_or_is_refused(name):
    """Tests every relevant kind of observation. Only options in `REFUSED` are refused on all of them."""
    fields = {field.name: field for field in dataclasses.fields(agents.AGENTS[name].config)}
    found = {}
    for option, field in fields.items():
        before, value = tiny(name), another(name, field)
        needs = {k: v for k, v in NEEDS.get(option, {}).items() if k in fields}
        if needs:
            assert effect(name, "vector", before, option, value) == "refused"
        kinds = KINDS.get(option, ("vector",))
        found[option] = {effect(name, kind, before | needs, option, value) for kind in kinds}
    refused = {option for option, effects in found.items() if effects == {"refused"}}
    assert refused == REFUSED.get(name, set())
    assert not {o: (another(name, fields[o]), e) for o, e in found.items() if "nothing" in e}


def test_noise_needs_its_option():
    with pytest.raises(UserError, match="noise_init"):
        agents.configure("nns", {"noise_scale": 0.0, "noise_init": 0.5})


def test_an_idle_option_would_be_found(monkeypatch):
    entry = agents.AGENTS["dqn"]
    deaf = entry._replace(make=lambda spec, config: entry.make(spec, dataclasses.replace(config, discount=0.5)))
    monkeypatch.setitem(agents.AGENTS, "deaf", deaf)
    assert effect("deaf", "vector", tiny("dqn"), "discount", 0.25) == "nothing"
    assert effect("deaf", "vector", tiny("dqn"), "epsilon", 0.25) == "changed"
