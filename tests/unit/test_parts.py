"""Bonus, behaviour, replay and options: small parts against values computed by hand."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdu import agents, behaviour, bonus, replay
from tdu.agents import ensembles, singles
from tdu.errors import UserError
from tdu.networks import mlp
from tdu.run import sweeps
from tdu.types import EnvSpec, Exploit, Transition


def transition(reward=0.0, state=0, action=0):
    number = jnp.float32(reward)
    return Transition(jnp.int32(state), jnp.int32(action), number, jnp.float32(1), jnp.int32(state + 1), {})


def paid(td, r_t, **kwargs):
    td = jnp.asarray(td, jnp.float32)
    batch = transition()._replace(r_t=jnp.asarray(r_t, jnp.float32))
    part = bonus.td_uncertainty(**kwargs)
    _, known = part.learn(part.init(jax.random.key(0)), batch)
    return part.reward(known, batch, Exploit(td, td))


def test_bonus_by_hand():
    reward, sigma = paid([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0.5, -1.0], beta=2.0)
    np.testing.assert_allclose(sigma, [2.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(reward, [4.5, -1.0], rtol=1e-6)
    _, biased = paid([[1.0], [3.0], [5.0]], [0.0], beta=1.0, unbiased=False)
    np.testing.assert_allclose(biased, [np.sqrt(8 / 3)], rtol=1e-6)


def test_a_ladder_pays_each_explorer_its_own_beta():
    reward, sigma = paid([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0.5, -1.0], beta=[0.5, 2.0])
    np.testing.assert_allclose(sigma, [2.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(reward, [[1.5, -1.0], [4.5, -1.0]], rtol=1e-6)
    rungs = ensembles.ladder(agents.configure("tdu", {"explorers": 3, "beta": 2.0, "beta_ladder": 4.0}))
    np.testing.assert_allclose(rungs, [0.5, 2.0, 8.0])
    assert ensembles.ladder(agents.configure("tdu", {"beta": 2.0})) == 2.0


def test_other_bonuses_by_hand():
    q, td = jnp.array([[1.0, 4.0], [3.0, 4.0]]), jnp.array([[-2.0, 0.5], [9.0, 9.0]])
    batch = transition()._replace(r_t=jnp.array([0.5, 1.0]))
    exploit = Exploit(q, td)
    for part, expected, extra in (
        (bonus.q_uncertainty(2.0), [0.5 + 2 * np.sqrt(2.0), 1.0], [np.sqrt(2.0), 0.0]),
        (bonus.absolute_td(10.0), [55.0, 47.5], [5.5, 4.75]),  # the mean of |δ| over exploiters
        (bonus.nothing(), [0.5, 1.0], [0.0, 0.0]),
    ):
        _, known = part.learn(part.init(jax.random.key(0)), batch)
        reward, sigma = part.reward(known, batch, exploit)
        np.testing.assert_allclose(reward, expected, rtol=1e-6)
        np.testing.assert_allclose(sigma, extra, rtol=1e-6)


GRID = EnvSpec("grid", (2, 2), 2, num_states=4)
BOARD = EnvSpec("board", (2, 2), 2)


def test_counts_by_hand():
    part = bonus.counts(0.1, GRID, resolution=0.1)
    visits = part.init(jax.random.key(0))
    for state, action, times in ((2, 1, 3), (2, 0, 1)):
        for _ in range(times):
            visits = part.observe(visits, transition(state=state, action=action))
    batch = jax.tree.map(lambda *x: jnp.stack(x), *(transition(1.0, s, a) for s, a in ((2, 1), (2, 0), (0, 0))))
    reward, novelty = part.reward(visits, batch, None)
    np.testing.assert_allclose(novelty, [3.01**-0.5, 1.01**-0.5, 10.0], rtol=1e-5)
    np.testing.assert_allclose(reward, 1.0 + 0.1 * np.asarray(novelty), rtol=1e-6)


def test_counts_over_a_hash_tell_boards_apart():
    part = bonus.counts(1.0, BOARD, resolution=0.1)
    boards = jnp.asarray(np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T.reshape(16, 2, 2), jnp.float32)
    visits, observe = part.init(jax.random.key(0)), jax.jit(part.observe)
    for board in boards[:5]:
        visits = observe(visits, transition()._replace(o_tm1=board, o_t=board))
    number = jnp.zeros(16)
    batch = Transition(boards, jnp.zeros(16, jnp.int32), number, number, boards, {})
    novelty_of = jax.jit(lambda batch: part.reward(visits, batch, None)[1])
    novelty = novelty_of(batch)
    np.testing.assert_allclose(novelty, [1.01**-0.5] * 5 + [10.0] * 11, rtol=1e-4)
    near = batch._replace(o_tm1=boards + 0.01)
    np.testing.assert_allclose(novelty_of(near), novelty)


def test_visits_are_counted_to_no_overflow():
    part = bonus.counts(0.1, GRID, resolution=0.1)
    visits = part.init(jax.random.key(0)).at[1, 0].set((1 << 30) - 1)
    for _ in range(3):
        visits = part.observe(visits, transition(state=1))
    assert int(visits[1, 0]) == 1 << 30
    assert float(part.reward(visits, states(1), None)[1][0]) == pytest.approx(2.0**-15)


def distillation(spec=GRID, normalise=False, decay=0.9):
    config = agents.configure("rnd", {"hidden_sizes": (16,), "features": 4, "learning_rate": 1e-2})
    return bonus.distillation(2.0, singles.predictor(spec, config), normalise=normalise, decay=decay)


def states(*indices):
    number, index = jnp.zeros(len(indices)), jnp.array(indices)
    return Transition(index, jnp.zeros(len(indices), jnp.int32), number, number, index, {})


@pytest.mark.parametrize("dense", [False, True])
def test_distillation_pays_for_what_it_has_not_seen(dense):
    part = distillation(GRID._replace(num_states=None, observation_shape=(4,)) if dense else GRID)
    state, learn = jax.jit(part.init)(jax.random.key(0)), jax.jit(part.learn)
    seen, new = states(0, 1), states(2, 3)
    if dense:
        seen, new = (x._replace(o_tm1=jax.nn.one_hot(x.o_tm1, 4), o_t=jax.nn.one_hot(x.o_t, 4)) for x in (seen, new))
    fixed = state.predictor.prior
    _, before = learn(state, seen)
    for _ in range(300):
        state, known = learn(state, seen)
    reward, after = part.reward(known, seen, None)
    np.testing.assert_allclose(reward, 2.0 * np.asarray(after), rtol=1e-6)
    assert np.all(np.asarray(after) < 0.05 * np.asarray(before))
    assert np.asarray(learn(state, new)[1]).min() > 10 * np.asarray(after).max()
    jax.tree.map(np.testing.assert_array_equal, state.predictor.prior, fixed)


def test_distillation_s_error_by_hand():
    """The error is ‖f − f̃‖², computed here with both networks."""
    part = distillation(GRID._replace(num_states=None, observation_shape=(4,)))
    state = jax.jit(part.init)(jax.random.key(0))
    x = jnp.eye(4)[:2]
    batch = states(0, 1)._replace(o_tm1=x, o_t=x)
    learned, fixed = (jax.tree.map(lambda p: p[0], n) for n in (state.predictor.params, state.predictor.prior))
    by_hand = np.square(mlp.apply_mlp(learned, x) - mlp.apply_mlp(fixed, x)).sum(axis=1)
    np.testing.assert_allclose(jax.jit(part.learn)(state, batch)[1], by_hand, rtol=1e-5)


def test_distillation_is_normalised_by_moving_averages():
    part, raw = distillation(normalise=True, decay=0.5), distillation(decay=0.5)
    state = jax.jit(part.init)(jax.random.key(0))
    learn, learn_raw = jax.jit(part.learn), jax.jit(raw.learn)
    batch = states(0, 1, 3)
    mean = square = 0.0
    for _ in range(2):
        errors = np.asarray(learn_raw(state, batch)[1], np.float64)
        mean, square = 0.5 * mean + 0.5 * errors.mean(), 0.5 * square + 0.5 * (errors**2).mean()
        state, _ = learn(state, batch)
    errors = np.asarray(learn_raw(state, batch)[1], np.float64)
    mean, square = mean / 0.75, square / 0.75
    expected = (errors - mean) / np.sqrt(square - mean**2)
    np.testing.assert_allclose(learn(state, batch)[1], expected, rtol=1e-3)


def test_optimism_adds_the_spread_of_all_heads():
    part = behaviour.optimistic(behaviour.uniform(2), beta=1.0)
    q = jnp.array([[1.0, 0.5], [1.0, 2.5]])  # σ = 0, √2
    assert int(part.act(q, jnp.int32(0), jax.random.key(0))) == 1
    part = behaviour.optimistic(behaviour.uniform(2), beta=0.1)
    assert int(part.act(q, jnp.int32(0), jax.random.key(0))) == 0
    assert part.every_head


heads = st.integers(2, 6)
numbers = st.floats(-10, 10, width=32)


@settings(max_examples=40, deadline=None)
@given(st.data(), heads, st.sampled_from([(3,), (2, 3)]))
def test_spread_of_heads(data, k, shape):
    size = int(np.prod(shape))
    flat = data.draw(st.lists(numbers, min_size=k * size, max_size=k * size))
    td = np.asarray(flat, np.float32).reshape(k, *shape)
    sigma = bonus.spread(jnp.asarray(td))
    assert sigma.shape == shape
    np.testing.assert_allclose(sigma, np.std(td.astype(np.float64), axis=0, ddof=1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sigma, bonus.spread(jnp.asarray(td[::-1])), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bonus.spread(jnp.asarray(td + np.float32(3))), sigma, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(bonus.spread(jnp.broadcast_to(td[:1], td.shape)), 0.0, atol=1e-5)


def test_spread_carries_no_gradient():
    gradient = jax.grad(lambda x: bonus.spread(x).sum())(jnp.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(gradient, 0.0)


def test_greedy_breaks_ties_at_random_and_only_ties():
    keys = jax.random.split(jax.random.key(0), 3000)
    actions = jax.jit(jax.vmap(lambda k: behaviour.greedy(jnp.array([1.0, 2.0, 2.0]), k)))(keys)
    shares = np.bincount(np.asarray(actions), minlength=3) / 3000
    assert shares[0] == 0
    assert shares[1] == pytest.approx(0.5, abs=0.05)


def test_epsilon_greedy_explores_with_probability_epsilon():
    act = behaviour.epsilon_greedy(0.3)
    keys = jax.random.split(jax.random.key(0), 5000)
    actions = np.asarray(jax.jit(jax.vmap(lambda k: act(jnp.array([1.0, 0.0, 0.0]), k)))(keys))
    assert (actions != 0).mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (behaviour.uniform(4), [0.25] * 4),
        (behaviour.mixed(3, 4, 0.4), [0.2, 0.2, 0.2, 0.4]),
    ],
)
def test_heads_are_drawn_as_often_as_they_should(part, expected):
    keys = jax.random.split(jax.random.key(0), 8000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda k: part.begin(part.init(), k)))(keys))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 8000, expected, atol=0.03)


def test_ucb1_by_hand():
    part = behaviour.ucb1(3, eta=2.0)
    state = part.init()
    for head, rewards in ((0, [1.0, 1.0]), (1, [0.0] * 8)):
        first = {int(part.begin(state, jax.random.key(i))) for i in range(60)}
        assert first == set(range(head, 3)), "every head once first, in any order"
        for reward in rewards:
            state = part.observe(state, jnp.int32(head), transition(reward))
    assert int(part.begin(state, jax.random.key(0))) == 2
    state = part.observe(state, jnp.int32(2), transition(0.5))
    n = 11
    bounds = [m + 2.0 * np.sqrt(np.log(n) / k) for m, k in ((1.0, 2), (0.0, 8), (0.5, 1))]
    assert int(part.begin(state, jax.random.key(0))) == int(np.argmax(bounds)) == 2
    for _ in range(30):
        state = part.observe(state, jnp.int32(2), transition(0.0))
    bounds = [m + 2.0 * np.sqrt(np.log(n + 30) / k) for m, k in ((1.0, 2), (0.0, 8), (0.5 / 31, 31))]
    assert int(part.begin(state, jax.random.key(0))) == int(np.argmax(bounds)) == 0


@pytest.mark.parametrize("rewards", [(0.5, 0.5), (-1.0, 1.0), (0.0, 0.0)])
def test_ucb1_s_mean_is_right_after_33_million_steps(rewards):
    """One reward then changes the mean by less than the resolution of float32. A million rewards change it by 3%."""
    part = behaviour.ucb1(2, eta=1.0)
    before, more = 2**25, 2**20
    state = part.init()._replace(steps=jnp.full(2, before), mean=jnp.full(2, 0.25))

    def one(state, reward):
        return part.observe(state, jnp.int32(1), transition()._replace(r_t=reward)), ()

    after, _ = jax.jit(lambda s, r: jax.lax.scan(one, s, r))(state, jnp.tile(jnp.array(rewards), more // 2))
    expected = (0.25 * before + sum(rewards) / 2 * more) / (before + more)
    assert float(after.mean[1]) == pytest.approx(expected, rel=1e-6)
    assert (float(after.mean[0]), int(after.steps[1])) == (0.25, before + more)


def test_ucb1_counts_to_no_overflow():
    part = behaviour.ucb1(2, eta=1.0)
    state = part.init()._replace(steps=jnp.full(2, 2**30 - 1))
    for _ in range(3):
        state = part.observe(state, jnp.int32(0), transition(1.0))
    assert state.steps.tolist() == [2**30, 2**30 - 1]
    assert int(part.begin(state, jax.random.key(0))) == 0, "the log of two billion steps is a number"


def test_a_ring_s_counters_stay_within_it():
    ring = replay.uniform(capacity=3, batch_size=8)
    state = ring.init(transition())
    where = []
    for i in range(8):
        state = ring.add(state, transition(state=i))
        where.append((int(state.next), int(state.filled)))
    assert where == [(1, 1), (2, 2), (0, 3), (1, 3), (2, 3), (0, 3), (1, 3), (2, 3)]
    last = replay.sequence(3)
    np.testing.assert_array_equal(last.sample(state, jax.random.key(0)).o_tm1, [5, 6, 7])


def test_replay_keeps_the_last_and_samples_all_of_it():
    ring = replay.uniform(capacity=5, batch_size=400)
    state = ring.init(transition())
    for i in range(3):
        state = ring.add(state, transition(reward=i, state=i))
    assert int(ring.size(state)) == 3
    assert set(np.asarray(ring.sample(state, jax.random.key(0)).o_tm1)) == {0, 1, 2}
    for i in range(3, 8):
        state = ring.add(state, transition(reward=i, state=i))
    batch = ring.sample(state, jax.random.key(1))
    assert int(ring.size(state)) == 5
    assert set(np.asarray(batch.o_tm1)) == {3, 4, 5, 6, 7}
    np.testing.assert_array_equal(batch.r_t, batch.o_tm1.astype(jnp.float32))


def joined_steps(rows, skipping, steps):
    """Checks many draws from a ring of joined steps; returns (number of steps, whether no more could be joined) of each.

    A draw must equal its single steps joined by hand. A ring that does not join must draw the same single steps.

    Environments take turns. Episodes end at random, in the task or by a time limit. With `skipping`, an environment spends
    one turn on starting the next episode.
    """
    rng, discount = np.random.default_rng(rows), 0.9
    ring, apart = (replay.uniform(capacity=60, batch_size=3000, steps=steps, join=join) for join in (discount, None))
    extras = {"last": jnp.zeros((), bool), "row": jnp.int32(0), "prior_tm1": jnp.int32(0), "prior_t": jnp.int32(0)}
    state, add = ring.init(transition()._replace(extras=extras)), jax.jit(ring.add)
    histories, over, stored = [[] for _ in range(rows)], [False] * rows, 0
    while stored < 200:
        for row, history in enumerate(histories):
            if skipping and over[row]:
                over[row] = False
                continue
            over[row] = bool(rng.random() < 0.3)
            ends_task = over[row] and rng.random() < 0.5
            name, reward = 1000 * row + len(history), float(rng.normal())
            history.append((reward, 0.0 if ends_task else 1.0, over[row]))
            more = {"last": jnp.asarray(over[row]), "row": jnp.int32(row)}
            more |= {"prior_tm1": jnp.int32(name), "prior_t": jnp.int32(name + 1)}
            step = transition(reward, name)._replace(d_t=jnp.float32(history[-1][1]), extras=more)
            state, stored = add(state, step), stored + 1
    batch, parts = (jax.tree.map(np.asarray, one.sample(state, jax.random.key(0))) for one in (ring, apart))
    later, counts = parts.later, []
    np.testing.assert_array_equal(parts.o_t, parts.o_tm1 + 1)
    for i, name in enumerate(batch.o_tm1.tolist()):
        row, first = divmod(name, 1000)
        count = int(batch.o_t[i]) - name
        assert 1 <= count <= steps
        passed = histories[row][first : first + count]
        assert len(passed) == count
        assert not any(last for _, _, last in passed[:-1])
        worth = np.cumprod([1.0, *(discount * d for _, d, _ in passed)])
        np.testing.assert_allclose(
            batch.r_t[i], sum(w * r for w, (r, _, _) in zip(worth, passed, strict=False)), atol=1e-5
        )
        np.testing.assert_allclose(discount * batch.d_t[i], worth[-1], atol=1e-6)
        assert (batch.extras["prior_tm1"][i], batch.extras["prior_t"][i]) == (name, name + count)
        follows = later.extras["follows"][i]
        assert follows[: count - 1].all()
        assert not follows[count - 1 : count].any()
        np.testing.assert_array_equal(later.o_tm1[i, : count - 1], name + np.arange(1, count))
        np.testing.assert_allclose([parts.r_t[i], *later.r_t[i, : count - 1]], [r for r, _, _ in passed], atol=1e-6)
        np.testing.assert_array_equal([parts.d_t[i], *later.d_t[i, : count - 1]], [d for _, d, _ in passed])
        full = passed[-1][2] or count == steps or first + count == len(histories[row])
        counts.append((count, full))
    return counts


@pytest.mark.parametrize("rows", [1, 3])
def test_joined_steps_equal_n_single_steps(rows):
    counts = joined_steps(rows, skipping=False, steps=3)
    assert {count for count, _ in counts} == {1, 2, 3}
    assert all(full for _, full in counts)


def test_joined_steps_stop_where_another_environment_s_would_follow():
    counts = joined_steps(4, skipping=True, steps=3)
    assert {count for count, _ in counts} == {1, 2, 3}
    assert not all(full for _, full in counts)


@pytest.mark.parametrize(
    ("agent", "options", "words"),
    [
        ("tdu", {"beta": -1}, "beta must be at least 0"),
        ("tdu", {"beta": float("nan")}, "beta must be a finite number"),
        ("tdu", {"discount": 1.5}, "discount must be at least 0 and at most 1"),
        ("tdu", {"exploiters": 1}, "exploiters must be at least 2"),
        ("tdu", {"explorers": 0}, "explorers must be at least 1"),
        ("tdu", {"mask_prob": 0}, "mask_prob must be greater than 0 and at most 1"),
        ("tdu", {"mask_prob": 1.1}, "mask_prob must be greater than 0 and at most 1"),
        ("tdu", {"batch_size": 200, "replay_capacity": 199}, "batch_size .200. must not be larger"),
        ("tdu", {"min_replay": 20_000}, "min_replay .20000. must not be larger"),
        ("tdu", {"learning_rate": 0}, "learning_rate must be greater than 0"),
        ("tdu", {"hidden_sizes": "64,x"}, "hidden_sizes must be whole numbers"),
        ("tdu", {"hidden_sizes": ()}, "hidden_sizes must be whole numbers"),
        ("tdu", {"batch_size": 3.5}, "batch_size must be a whole number"),
        ("tdu", {"divisor": "unbiassed"}, "did you mean 'unbiased'"),
        ("tdu", {"bata": 1}, "did you mean 'beta'"),
        ("bdqn", {"beta": 1}, "unknown option of agent bdqn 'beta'"),
        ("bdqn", {"head_choice": "mixed"}, "needs at least one explorer"),
        ("dqn", {"epsilon": 2}, "epsilon must be at least 0 and at most 1"),
        ("tdq", {}, "unknown agent 'tdq'"),
    ],
)
def test_bad_options_are_refused_by_name(agent, options, words):
    with pytest.raises(UserError, match=words):
        agents.configure(agent, options)


def test_presets_change_defaults_and_options_change_presets():
    config = agents.configure("tdu", {"prior_scale": 2.0}, "boot_dqn")
    assert (config.batch_size, config.hidden_sizes, config.prior_scale) == (128, (50, 50), 2.0)
    with pytest.raises(UserError, match="for other agents"):
        agents.configure("dqn", {}, "boot_dqn")
    with pytest.raises(UserError, match="did you mean 'paper'"):
        agents.configure("tdu", {}, "papr")


NUMBERS = [
    (name, field)
    for name, entry in agents.AGENTS.items()
    for field in dataclasses.fields(entry.config)
    if isinstance(field.default, int | float) and not isinstance(field.default, bool)
]


@pytest.mark.parametrize(("agent", "field"), NUMBERS, ids=[f"{a}-{f.name}" for a, f in NUMBERS])
def test_every_number_of_every_agent_has_a_range(agent, field):
    low = field.metadata["above"] if field.metadata["minimum"] is None else field.metadata["minimum"] - 1
    with pytest.raises(UserError, match=f"^{field.name} must be"):
        agents.configure(agent, {field.name: low})
    if field.metadata["maximum"] is not None:
        with pytest.raises(UserError, match=f"^{field.name} must be"):
            agents.configure(agent, {field.name: field.metadata["maximum"] + 1})


def test_every_agent_has_a_grid_of_options_it_takes():
    assert agents.GRIDS.keys() == agents.AGENTS.keys()
    for name in agents.AGENTS:
        tried = [
            agents.configure(name, dict(zip(grid, values, strict=True)))
            for grid in agents.paper_grids(name)
            for values in itertools.product(*grid.values())
        ]
        assert agents.configure(name, {}) in tried, f"{name}'s default is not in its grids"


@pytest.mark.parametrize("name", ["tdu_r2d2", "tdu_r2d2_prior"])
def test_every_ensemble_of_the_paper_s_r2d2_grids_has_ten_heads(name):
    cells = [
        cell
        for grid in agents.paper_grids(name)
        for cell in sweeps.plan(["memory_len/0"], [name], grid=dict(grid), preset="paper", steps=100)
    ]
    configs = {cell.config().digest(): agents.configure(name, dict(cell.options)) for cell in cells}.values()
    assert {config.exploiters + config.explorers for config in configs} == {10}
    assert {config.beta for config in configs} == {0.1, 1.0, 2.0}
    assert {(c.explorers, c.prior_scale) for c in configs if c.beta == 1.0} == set(
        itertools.product((2, 3, 5), (0.0, 0.05, 0.1))
    )
    assert len(configs) == 9 + 2, "β = 1 is in both grids and is run once"


def test_the_bandit_s_grid_is_the_paper_s():
    tried = [grid for grid in agents.paper_grids("tdu") if "ucb_eta" in grid]
    assert tried == [{"head_choice": ("ucb1",), "ucb_eta": (0.1, 1.0, 2.0, 4.0, 6.0, 8.0)}]


def test_the_paper_s_defaults():
    config = agents.configure("tdu", {})
    assert (config.discount, config.batch_size, config.hidden_sizes) == (0.99, 32, (64, 64))
    assert (config.exploiters, config.explorers, config.beta, config.prior_scale) == (10, 10, 1.0, 3.0)
    assert (config.learning_rate, config.mask_prob, config.replay_capacity) == (1e-3, 1.0, 10_000)
    assert (config.learn_period, config.target_period, config.min_replay) == (1, 4, 128)
    assert agents.configure("bdqn", {}).exploiters == 20
