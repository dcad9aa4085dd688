"""The large table of a one-hot layer is updated in place: XLA's compiled text contains no copy of it."""

import math
import re

import jax
import jax.numpy as jnp
import pytest

from tdu import agents, environments, values
from tdu.adam import Adam
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.protocol import Budget
from tdu.types import EnvSpec

TABLE = (901, 4, 4, 8)
SIZE = math.prod(TABLE)
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = (?P<type>\w+)\[(?P<dims>[\d,]*)\]\S* (?P<opcode>[\w-]+)\(", re.M)
IN_PLACE = {"parameter", "get-tuple-element", "bitcast", "scatter", "dynamic-update-slice", "fusion"}
"""Operations that return an array of the table's size without writing all of it. The text also has the inside of fusions."""


def opcodes(text):
    """Opcodes of all instructions, fused or not, whose result has the table's size, in any shape and layout."""
    found = [m for m in INSTRUCTION.finditer(text) if m["type"] == "f32"]
    return [m["opcode"] for m in found if math.prod(int(d) for d in m["dims"].split(",") if d) == SIZE]


def written_anew(text):
    found = opcodes(text)
    assert {"parameter", "scatter"} <= set(found), (
        "the table and its update are not in the text: is it still read right?"
    )
    return [opcode for opcode in found if opcode not in IN_PLACE]


@pytest.fixture(scope="module")
def learning():
    shape = values.EnsembleShape(4, (8,), 3.0, target_period=4, double=False, optimiser=Adam(1e-2))
    ensemble = values.one_hot(EnvSpec("big", (30, 30), 2, num_states=900), shape)

    def loss(q_tm1, target_t, online_t):
        return jnp.sum(jnp.square(1.0 + 0.9 * jnp.max(target_t, axis=-1) - q_tm1[..., 0])), ()

    def many(state, o_tm1, o_t, between=lambda state: state):
        def one(_, state):
            return between(ensemble.update(state, o_tm1, o_t, loss)[0])

        return jax.lax.fori_loop(0, 10, one, state)

    example = jax.eval_shape(ensemble.init, jax.random.key(0)), *[jax.ShapeDtypeStruct((16,), jnp.int32)] * 2

    def text(function=many, **settings):
        return jax.jit(function, **settings).lower(*example).compile().as_text()

    return many, text


def test_the_table_is_not_copied_in_the_loop(learning):
    _, text = learning
    assert written_anew(text(donate_argnums=0)) == []
    assert written_anew(text()) == ["copy"], "without donation there is one before the loop, and it is found"


def test_whatever_writes_the_whole_table_is_found(learning):
    many, text = learning

    def halved(state):
        return state._replace(table=state.table._replace(rows=state.table.rows * 0.5))

    def turned(state):
        rows = state.table.rows.reshape(901, 128).T
        return state._replace(table=state.table._replace(rows=jnp.sort(rows, axis=0).T.reshape(TABLE)))

    for between in (halved, turned):
        assert written_anew(text(lambda *x, between=between: many(*x, between), donate_argnums=0))


def test_the_table_is_not_copied_in_a_whole_run():
    env = environments.make("deep_sea:size=30")
    options = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 2}
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", options))
    assert written_anew(CompiledRunner(env, agent, 0, budget=Budget(10), until="solved").compiled_text()) == []
