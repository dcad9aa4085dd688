"""Every random draw of a run has its own key, and no key is both drawn from and split.

The tests trace a run and compute from the trace which draws there are and which keys they use. Nothing is compiled and no
network is evaluated.
"""

from collections import Counter

import jax
import jax.extend
import numpy as np
import pytest

import tdu
from tdu import agents, environments, random
from tdu.environments.python import number
from tdu.run.runners import compiled, interaction

TINY = {"hidden_sizes": (3,), "exploiters": 2, "explorers": 2, "critics": 2, "features": 2, "batch_size": 2}
TINY |= {"min_replay": 2, "replay_capacity": 4, "sequence_length": 2, "epsilon": 0.1, "mask_prob": 0.5}
STEPS = 5  # two and a half episodes


class Trace:
    """A traced function. Its arguments and values are computed on first use."""

    def __init__(self, jaxpr, constants, arguments):
        self.jaxpr = jaxpr
        self._known = dict(zip(jaxpr.constvars, ((lambda c=c: c) for c in constants), strict=True))
        self._known |= dict(zip(jaxpr.invars, arguments, strict=True))
        self._made_by = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        self._inner = {}

    @classmethod
    def of(cls, closed, arguments):
        return cls(closed.jaxpr, closed.consts, arguments)

    def later(self, atom):
        return lambda: self.value(atom)

    def value(self, atom):
        if isinstance(atom, jax.extend.core.Literal):
            return atom.val
        if atom not in self._known:
            self._compute(self._made_by[atom])
        return self._known[atom]()

    def _compute(self, eqn):
        inner = self.inside(eqn)
        if inner:
            outputs = [inner[-1].later(out) for out in inner[-1].jaxpr.outvars]
        else:
            results = eqn.primitive.bind(*map(self.value, eqn.invars), **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            outputs = [lambda x=x: x for x in results]
        self._known |= dict(zip(eqn.outvars, outputs, strict=eqn.primitive.name != "scan"))

    def inside(self, eqn):
        """The traces inside an equation, in order of execution."""
        if id(eqn) not in self._inner:
            self._inner[id(eqn)] = self._enter(eqn)
        return self._inner[id(eqn)]

    def _enter(self, eqn):
        name, params, arguments = eqn.primitive.name, eqn.params, [self.later(x) for x in eqn.invars]
        if name == "cond":
            return [Trace.of(params["branches"][int(self.value(eqn.invars[0]))], arguments[1:])]
        if name == "scan" and draws_in(params["jaxpr"]):
            constants, carry = arguments[: params["num_consts"]], arguments[params["num_consts"] :]
            assert len(carry) == params["num_carry"] == len(params["jaxpr"].out_avals), (
                "a loop over nothing but numbers"
            )
            rounds = []
            for _ in range(params["length"]):
                rounds.append(Trace.of(params["jaxpr"], constants + carry))
                carry = [rounds[-1].later(out) for out in rounds[-1].jaxpr.outvars]
            return rounds
        if name in ("scan", "while"):
            assert not any(draws_in(x) for x in closed_in(params))
            return []
        calls = closed_in(params)
        return [Trace.of(call, arguments) for call in calls[:1]]

    def equations(self):
        """The executed equations, each with the trace that contains it."""
        for eqn in self.jaxpr.eqns:
            inner = self.inside(eqn)
            if inner:
                for trace in inner:
                    yield from trace.equations()
            else:
                yield self, eqn


def closed_in(params):
    return [x for x in params.values() if isinstance(x, jax.extend.core.ClosedJaxpr)]


def draws_in(closed):
    """Whether a traced function draws random numbers."""
    names = {eqn.primitive.name for eqn in closed.jaxpr.eqns}
    inner = [x for eqn in closed.jaxpr.eqns for x in (*closed_in(eqn.params), *eqn.params.get("branches", ()))]
    return "random_bits" in names or any(map(draws_in, inner))


def rows(keys):
    return [tuple(row) for row in np.asarray(jax.random.key_data(keys)).reshape(-1, 2).tolist()]


class Uses:
    """Counts the draws from each key, and the keys derived from each key by their number."""

    def __init__(self, function, *arguments):
        closed = jax.make_jaxpr(function)(*arguments)
        leaves = jax.tree.leaves(arguments)
        trace = Trace.of(closed, [lambda x=x: x for x in leaves])
        self.drawn, self.derived = Counter(), Counter()
        for where, eqn in trace.equations():
            name = eqn.primitive.name
            if name == "random_bits":
                self.drawn.update(rows(where.value(eqn.invars[0])))
            elif name == "random_split":
                count = int(np.prod(eqn.params["shape"]))
                self.derived.update((key, i) for key in rows(where.value(eqn.invars[0])) for i in range(count))
            elif name == "random_fold_in":
                parents, folded = where.value(eqn.invars[0]), np.asarray(where.value(eqn.invars[1])).astype(np.uint32)
                numbers = np.broadcast_to(folded, parents.shape).reshape(-1).tolist()
                self.derived.update(zip(rows(parents), numbers, strict=True))

    def twice(self):
        """Keys with two draws, with a draw and a derived key, or with the same derived key twice."""
        parents = {parent for parent, _ in self.derived}
        found = {key for key, times in self.drawn.items() if times > 1 or key in parents}
        return found | {parent for (parent, _), times in self.derived.items() if times > 1}


TASK = environments.make("deep_sea:size=2,stochastic=true")


def agent_of(name, **options):
    fields = agents.AGENTS[name].config.__dataclass_fields__
    given = {k: v for k, v in TINY.items() if k in fields} | options
    return agents.find(name).make(TASK.spec, agents.configure(name, given))


def uses_of(agent):
    return Uses(compiled.train(TASK, agent, steps=STEPS), tdu.run_key(3))


OPTIONS = {"tdu": {"noise_scale": 0.5, "head_choice": "mixed"}, "bdqn": {"head_choice": "ucb1", "acting": "live"}}
CASES = [(n, OPTIONS.get(n, {})) for n, entry in agents.AGENTS.items() if n != "nns" and not entry.is_recurrent]
CASES += [("tdu", {"dense": True, "head_choice": "ucb1"}), ("rnd", {"dense": True})]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_draw_has_a_key_of_its_own(name, options):
    uses = uses_of(agent_of(name, **options))
    assert len(uses.drawn) > 4 * STEPS
    assert uses.twice() == set()


@pytest.mark.parametrize("dense", [False, True])
def test_noise_is_shared_by_acting_and_learning_alone(dense):
    """Acting and the next learning step share their noise on purpose. Targets have their own noise."""
    uses = uses_of(agent_of("nns", dense=dense, noise_scale=1.0))
    key_init, _, _ = interaction.first_keys(tdu.run_key(3))
    _, key_places = jax.random.split(random.for_use(key_init, random.Use.NOISE))
    noise = random.wrap(jax.random.bits(key_places, (2,)))
    online = [rows(jax.random.fold_in(noise, 2 * step))[0] for step in range(STEPS)]
    target = [rows(jax.random.fold_in(noise, 2 * step + 1))[0] for step in range(STEPS)]
    learned = STEPS - 1  # learning starts with two steps in the replay
    assert [uses.drawn[key] for key in online] == [3] + [2] * (learned - 1) + [0]
    assert [uses.drawn[key] for key in target] == [1] * learned + [0]
    assert uses.twice() == {*rows(noise), *online[:learned]}


def careless(key):
    return jax.random.uniform(key) + jax.random.normal(key)


def split_and_drawn(key):
    return jax.random.uniform(key) + jax.random.uniform(jax.random.split(key)[0])


def folded_with_a_split_s_number(key):
    return jax.random.uniform(jax.random.fold_in(key, 1)) + jax.random.uniform(jax.random.split(key)[1])


def careless_within(key):
    def step(_, total):
        return jax.lax.cond(total < 9, lambda: total + jax.random.uniform(key), lambda: total)

    return jax.lax.fori_loop(0, 3, step, 0.0)


def careless_in_a_batch(key):
    keys = jax.random.split(key, 3)
    return jax.vmap(jax.random.uniform)(keys).sum() + jax.random.normal(keys[2])


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (careless, 1),
        (split_and_drawn, 1),
        (folded_with_a_split_s_number, 2),
        (careless_within, 1),
        (careless_in_a_batch, 1),
        (lambda key: [jax.random.uniform(k) for k in jax.random.split(key)], 0),
    ],
)
def test_a_key_used_twice_is_found(function, found):
    assert len(Uses(function, tdu.run_key(0)).twice()) == found


def test_a_learner_that_reuses_a_key_is_found(monkeypatch):
    """Noisy networks once had this error: the first draw used a key that was also split."""
    monkeypatch.setattr(random, "for_use", lambda key, use: key)
    assert uses_of(agent_of("rnd")).twice()


def test_every_use_is_apart_from_splits_and_from_the_steps():
    """A run's key has numbers below 2³¹ for steps and larger numbers for uses. Training never uses evaluation's number."""
    uses = uses_of(agent_of("dqn"))
    (root,) = rows(tdu.run_key(3))
    numbers = {n for parent, n in uses.derived if parent == root}
    assert numbers == {*range(STEPS), int(random.Use.FIRST_STEP)}
    assert random.Use.EVALUATION not in numbers
    under_runs = set(random.Use) - {random.Use.BONUS}
    assert all(interaction.FOLDED_STEPS <= use < 2**32 for use in under_runs)
    assert random.Use.BONUS >= 2**16, "no network has so many layers, no ensemble so many heads"


def test_no_seed_of_a_training_is_an_evaluation_s():
    with pytest.raises(tdu.UserError, match="seed must be a whole number"):
        tdu.train("deep_sea:size=2", seed="evaluation 0")
    seeds = (0, 1, 2**32 - 1)
    training = {number(f"{seed}/{episode}") for seed in seeds for episode in range(500)}
    evaluation = {number(f"evaluation {seed}/{episode}") for seed in seeds for episode in range(500)}
    assert len(training | evaluation) == 3000


@pytest.mark.parametrize("size", [1, 3, 4])
def test_no_step_has_another_s_key_and_number(size):
    """At the beginning, and around 2³¹, 2³² and 3·2³¹ steps."""
    ages = [age * (interaction.FOLDED_STEPS // size) for age in (0, 1, 2, 3)]
    rounds = {r for age in ages for r in range(age - 4, age + 4) if r >= 0} | {2**32, 2**32 + 1, 2**40}
    found = []
    for r in sorted(rounds):
        key, first = interaction.key_and_number(tdu.run_key(0), r, size)
        assert 0 <= int(first) <= 2**31 - size
        assert first.dtype == np.int32
        found += [(rows(key)[0], int(first) + row) for row in range(size)]
    assert len(set(found)) == len(found) == len(rounds) * size
    assert interaction.key_and_number(tdu.run_key(0), 7, size)[1] == 7 * size
