"""Each part of R2D2 against a simpler implementation."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import agents, bonus, memory, td
from tdu.agents.r2d2 import actor, frames, learner, network, replay, sequences
from tdu.agents.r2d2.config import Config, TduR2D2Config
from tdu.agents.r2d2.network import RecurrentParams
from tdu.agents.r2d2.replay import SumTree
from tdu.agents.r2d2.sequences import Batch, LstmState, Memory, Sequence, Shape, Steps, Streams
from tdu.cluster.messages import pack, unpack
from tdu.errors import UserError
from tdu.types import EnvSpec, TimeStep

SPEC = EnvSpec("numbers", (3,), 2)
CONFIG = TduR2D2Config(
    exploiters=2,
    explorers=1,
    filters=(4, 6),
    hidden_sizes=(8,),
    lstm_size=4,
    head_size=5,
    burn_in=2,
    trace_length=5,
    replay_period=4,
    discount=0.9,
    td_lambda=0.7,
    learning_rate=1e-2,
    adam_eps=1e-3,
    target_period=2,
    beta=0.5,
)
SHAPE, BETA = CONFIG.shape, CONFIG.beta


@functools.cache
def parts(prior=0.0, **options):
    config = replace(CONFIG, **options, **({"prior_scale": prior, "prior_width": 0.5} if prior else {}))
    net = network.make(SPEC, config)
    made = learner.make(net, config, bonus.td_uncertainty(BETA))
    return net, made._replace(update=jax.jit(made.update))


def some_steps(length, size, seed=0):
    """Sequences with a termination, a truncation, and the first steps after them."""
    rng = np.random.default_rng(seed)
    steps = Steps(
        observation=rng.normal(size=(length, size, 3)).astype(np.float32),
        previous_action=rng.integers(2, size=(length, size)).astype(np.int32),
        previous_reward=rng.normal(size=(length, size)).astype(np.float32),
        first=np.zeros((length, size), bool),
        action=rng.integers(2, size=(length, size)).astype(np.int32),
        reward=rng.normal(size=(length, size)).astype(np.float32),
        discount=np.ones((length, size), np.float32),
        valid=np.ones((length, size), bool),
    )
    steps.discount[3, 0], steps.first[4, 0] = 0.0, True  # a termination
    steps.valid[5, 1], steps.first[6, 1] = False, True  # a time limit: step 5 shows the last observation
    return steps


def some_batch(net, size=3, length=SHAPE.length, seed=0):
    rng = np.random.default_rng(seed + 1)
    memory = jax.tree.map(lambda x: rng.normal(size=(size, *x.shape)).astype(np.float32), net.memory())
    mask = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0]], np.float32)[:size]
    return Batch(some_steps(length, size, seed), memory, mask, rng.random(size).astype(np.float32) + 0.5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def on_paper(params, memory, seen):
    """Values [H, A] and memory of one network after one step, in NumPy: torso, LSTM and dueling heads."""
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    x = seen.observation
    for w, b in params.torso.layers:
        x = np.maximum(x @ w + b, 0)
    reward = seen.previous_reward
    squashed = np.sign(reward) * (np.sqrt(np.abs(reward) + 1) - 1) + 1e-3 * reward
    x = np.concatenate([x, np.eye(2)[seen.previous_action], [squashed]])
    h, c = memory
    size, lstm = len(h), params.lstm
    gates = x @ lstm.x + h @ lstm.h + lstm.b
    write, candidate, forget, read = (gates[i * size : (i + 1) * size] for i in range(4))
    c = sigmoid(forget) * c + sigmoid(write) * np.tanh(candidate)
    h = sigmoid(read) * np.tanh(c)
    heads, values = params.heads, []
    width = heads.value.shape[1]
    for k in range(len(heads.value)):
        hidden = np.maximum(h @ heads.w + heads.b, 0)[2 * k * width : 2 * (k + 1) * width]
        value = hidden[:width] @ heads.value[k] + heads.value_b[k]
        advantage = hidden[width:] @ heads.advantage[k] + heads.advantage_b[k]
        values.append(value + advantage - advantage.mean())
    return np.stack(values), (h, c)


@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_a_network_is_its_formulas(scale):
    """Torso, LSTM, dueling heads and λ·P against NumPy, with nonzero biases."""
    net, _ = parts(prior=scale)
    params = net.init(jax.random.key(3))
    rng = np.random.default_rng(4)
    params = jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape).astype(np.float32), params)
    seen = jax.tree.map(lambda x: x[:3, :1], some_steps(7, 2))
    q, memory = net.unroll(params, jax.tree.map(lambda x: x[None], net.memory()), seen)
    networks = [weights for weights in params if weights]
    memories = [tuple(np.zeros(n) for n in (len(weights.lstm.h),) * 2) for weights in networks]
    for t in range(3):
        now = jax.tree.map(lambda x, t=t: x[t, 0], seen)
        found = [on_paper(network, remembered, now) for network, remembered in zip(networks, memories, strict=True)]
        expected = found[0][0] + (scale * found[1][0] if scale else 0.0)
        np.testing.assert_allclose(q[t, 0], expected, rtol=1e-4, atol=1e-5)
        memories = [remembered for _, remembered in found]
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours[0], theirs, rtol=1e-4, atol=1e-5),
        memory,
        Memory(*(LstmState(*remembered) for remembered in memories)),
    )


def one_by_one(net, params, memory, steps):
    """Values [T, B, H, A], one step of one sequence at a time, with explicit resets of the memory."""
    columns = []
    for b in range(steps.action.shape[1]):
        lstm, rows = jax.tree.map(lambda x, b=b: x[b : b + 1], memory), []
        for t in range(steps.action.shape[0]):
            if steps.first[t, b]:
                lstm = jax.tree.map(lambda x: x[None], net.memory())
            now = jax.tree.map(lambda x, t=t, b=b: x[t : t + 1, b : b + 1], steps)
            q, lstm = net.unroll(params, lstm, now._replace(first=np.zeros((1, 1), bool)))
            rows.append(q[0, 0])
        columns.append(np.stack(rows))
    return np.stack(columns, axis=1).astype(np.float64)


def by_hand(q, target, batch):
    """Errors [H, T, B] and σ [T, B], by plain loops over the paper's formulas."""
    steps, begin = batch.steps, SHAPE.burn_in
    unsquash = lambda x: float(td.unsquash(np.float32(x)))  # noqa: E731
    squash = lambda x: float(td.squash(np.float32(x)))  # noqa: E731
    _, size, heads, _ = q.shape
    delta, sigma = np.zeros((heads, SHAPE.trace, size)), np.zeros((SHAPE.trace, size))
    for b in range(size):
        for i in range(SHAPE.trace):
            t = begin + i
            one_step = []
            for k in range(CONFIG.exploiters):
                best = int(np.argmax(q[t + 1, b, k]))
                v = CONFIG.discount * steps.discount[t, b] * unsquash(target[t + 1, b, k, best])
                one_step.append(steps.reward[t, b] + v - unsquash(q[t, b, k, steps.action[t, b]]))
            sigma[i, b] = np.std(one_step, ddof=1)
        for k in range(heads):
            after = None
            for i in reversed(range(SHAPE.trace)):
                t = begin + i
                reward = steps.reward[t, b] + (BETA * sigma[i, b] if k >= CONFIG.exploiters else 0.0)
                v = unsquash(target[t + 1, b, k, int(np.argmax(q[t + 1, b, k]))])
                mixes = after is not None and steps.valid[t + 1, b]
                v = (1 - CONFIG.td_lambda) * v + CONFIG.td_lambda * after if mixes else v
                after = reward + CONFIG.discount * steps.discount[t, b] * v
                delta[k, i, b] = steps.valid[t, b] * (squash(after) - q[t, b, k, steps.action[t, b]])
    return delta, sigma


@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_a_learning_step_is_the_paper_s_formulas(prior):
    net, made = parts(prior)
    state = made.init(jax.random.key(0))
    state = state._replace(target=made.init(jax.random.key(1)).trained)
    batch = some_batch(net)
    _, priorities, metrics = made.update(state, batch)
    q, target = (
        one_by_one(net, RecurrentParams(trained, state.prior), batch.memory, batch.steps)
        for trained in (state.trained, state.target)
    )
    delta, sigma = by_hand(q, target, batch)
    valid = batch.steps.valid[SHAPE.burn_in : -1]
    squares = 0.5 * np.square(delta).sum(axis=1) * batch.mask.T * batch.weights
    np.testing.assert_allclose(metrics["loss"], squares.sum() / (3 * 3), rtol=1e-4)
    np.testing.assert_allclose(metrics["bonus"], sigma[valid].mean(), rtol=1e-4)
    size = np.abs(delta).mean(axis=0)
    expected = [0.9 * size[:, b].max() + 0.1 * size[valid[:, b], b].mean() for b in range(3)]
    np.testing.assert_allclose(priorities, expected, rtol=1e-4)
    exploiters = td.unsquash(q[SHAPE.burn_in : -1, :, :2].astype(np.float32))
    np.testing.assert_allclose(metrics["largest_q"], np.abs(exploiters).max(), rtol=1e-4)


def test_nothing_after_the_end_of_the_task_counts_and_the_last_observation_of_a_time_limit_does():
    net, made = parts()
    state, batch = made.init(jax.random.key(0)), some_batch(net)
    _, before, _ = made.update(state, batch)

    def changed(t, b):
        steps = jax.tree.map(np.copy, batch.steps)
        steps.observation[t, b] += 1.0
        q = np.asarray(net.unroll(RecurrentParams(state.trained, state.prior), batch.memory, steps)[0])
        return q, np.asarray(made.update(state, batch._replace(steps=steps))[1])

    q, _ = changed(0, 0)
    later, _ = changed(4, 0)
    np.testing.assert_array_equal(q[4:, 0], np.asarray(changed(3, 0)[0])[4:, 0])  # a new episode resets the memory
    assert not np.array_equal(q[3, 0], later[3, 0])
    cut = jax.tree.map(np.copy, batch.steps)
    cut.observation[5, 1] += 1.0  # the last observation before the time limit
    _, after, _ = made.update(state, batch._replace(steps=cut))
    assert after[1] != before[1]
    assert after[0] == before[0]


def test_burn_in_brings_the_memory_up_to_date_without_gradient():
    """The learning step equals one that starts from the memory after the burn-in."""
    net, made = parts()
    _, without = parts(burn_in=0)
    state, batch = made.init(jax.random.key(0)), some_batch(net)
    early = jax.tree.map(lambda x: x[: SHAPE.burn_in], batch.steps)
    _, memory = net.unroll(RecurrentParams(state.trained, state.prior), batch.memory, early)
    rest = jax.tree.map(lambda x: x[SHAPE.burn_in :], batch.steps)
    one, _, _ = made.update(state, batch)
    other, _, _ = without.update(state, batch._replace(steps=rest, memory=memory))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), one.trained, other.trained)
    stale, _, _ = without.update(state, batch._replace(steps=rest))
    gaps = jax.tree.map(lambda x, y: float(np.abs(x - y).max()), one.trained, stale.trained)
    assert max(jax.tree.leaves(gaps)) > 1e-3


def test_the_mask_selects_the_heads_that_learn():
    net, made = parts()
    state, batch = made.init(jax.random.key(0)), some_batch(net)
    masked = batch._replace(mask=np.array([[0, 1, 1]] * 3, np.float32))
    learned, _, _ = made.update(state, masked)
    for name in ("value", "advantage"):
        moved = (
            np.abs(getattr(learned.trained.heads, name) - getattr(state.trained.heads, name)).reshape(3, -1).max(axis=1)
        )
        assert moved[0] == 0
        assert (moved[1:] > 0).all()


def test_gradients_are_clipped_and_the_target_is_copied_in_its_time():
    net, made = parts()
    state, batch = made.init(jax.random.key(0)), some_batch(net)
    first, _, metrics = made.update(state, batch)
    jax.tree.map(np.testing.assert_array_equal, first.target, state.target)
    second, _, _ = made.update(first, batch)
    jax.tree.map(np.testing.assert_array_equal, second.target, second.trained)
    tight = learner.make(net, replace(CONFIG, clip=1e-3, adam_eps=1.0), bonus.td_uncertainty(BETA))
    clipped, _, _ = jax.jit(tight.update)(state, batch)
    # With a huge ε, Adam's first step is the learning rate times the (clipped) gradient.
    changes = jax.tree.leaves(jax.tree.map(lambda x, y: np.square(x - y).sum(), clipped.trained, state.trained))
    np.testing.assert_allclose(np.sqrt(np.sum(changes)), CONFIG.learning_rate * 1e-3, rtol=1e-2)
    assert metrics["gradient_norm"] > 1e-3


def test_a_prior_is_never_trained_and_remembers_for_itself():
    net, made = parts(0.5)
    state, batch = made.init(jax.random.key(0)), some_batch(net)
    learned = state
    for _ in range(3):
        learned, _, _ = made.update(learned, batch)
    jax.tree.map(np.testing.assert_array_equal, learned.prior, state.prior)
    (hidden, _), (own, _) = net.memory()
    assert (hidden.shape, own.shape) == ((4,), (2,))
    other = batch._replace(memory=batch.memory._replace(prior=jax.tree.map(np.zeros_like, batch.memory.prior)))
    assert made.update(state, other)[2]["loss"] != made.update(state, batch)[2]["loss"]


def test_the_ensemble_is_its_heads_one_by_one():
    net, made = parts()
    state = made.init(jax.random.key(0))
    batch = some_batch(net)
    q, _ = net.unroll(RecurrentParams(state.trained), batch.memory, batch.steps)
    alone = network.make(SPEC, Config(exploiters=1, lstm_size=4))
    for head in range(3):
        heads, width = state.trained.heads, 2 * CONFIG.head_size
        part = slice(head * width, (head + 1) * width)
        head_params = jax.tree.map(lambda x, head=head: x[head : head + 1], heads)
        head_params = head_params._replace(w=heads.w[:, part], b=heads.b[part])
        one, _ = alone.unroll(RecurrentParams(state.trained._replace(heads=head_params)), batch.memory, batch.steps)
        np.testing.assert_allclose(one[:, :, 0], q[:, :, head], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "spec",
    [
        EnvSpec("one hot", (3, 3), 3, num_states=9),
        EnvSpec("bytes", (40, 36, 2), 3, dtype="uint8"),
        EnvSpec("small image", (5, 5, 2), 3),
        EnvSpec("vector", (4,), 3),
    ],
    ids=lambda spec: spec.name,
)
def test_every_kind_of_observation_is_taken(spec):
    net = network.make(spec, CONFIG)
    params = net.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    high = {"uint8": 256}.get(spec.dtype, 10)
    observation = rng.integers(0, high, size=(4, 2, *spec.carried_shape)).astype(spec.carried_dtype)
    none = np.zeros((4, 2), np.int32)
    seen = Steps(observation, none, none.astype(np.float32), none.astype(bool))
    memory = jax.tree.map(lambda x: jnp.zeros((2, *x.shape)), net.memory())
    q, _ = net.unroll(params, memory, seen)
    assert q.shape == (4, 2, 3, 3)
    assert len(np.unique(np.asarray(q).round(5))) > 12
    if spec.num_states is not None:  # the all-zero observation is a state of its own
        net.unroll(params, memory, seen._replace(observation=np.full((4, 2), spec.num_states, np.int32)))


def test_layer_norm_makes_the_scale_of_observations_irrelevant():
    spec = EnvSpec("vector", (4,), 3)
    observation = np.random.default_rng(0).normal(size=(1, 1, 4)).astype(np.float32)
    none = np.zeros((1, 1), np.int32)

    def values(torso, scale):
        net = network.make(spec, replace(CONFIG, torso=torso))
        memory = jax.tree.map(lambda x: jnp.zeros((1, *x.shape)), net.memory())
        seen = Steps(scale * observation, none, none.astype(np.float32), none.astype(bool))
        return net.unroll(net.init(jax.random.key(0)), memory, seen)[0]

    np.testing.assert_allclose(values("layer_norm", 1.0), values("layer_norm", 50.0), rtol=1e-4, atol=1e-5)
    assert np.abs(values("auto", 1.0) - values("auto", 50.0)).max() > 1e-2


def test_images_are_averaged_over_squares_first():
    spec = EnvSpec("bytes", (24, 24, 1), 2, dtype="uint8")
    small = spec._replace(observation_shape=(12, 12, 1))
    config = replace(CONFIG, filters=(4,))
    params = network.make(small, config).init(jax.random.key(0))
    picture = np.random.default_rng(0).integers(0, 256, size=(1, 1, 12, 12, 1)).astype(np.uint8)
    none = np.zeros((1, 1), np.int32)
    memory = jax.tree.map(lambda x: jnp.zeros((1, *x.shape)), network.make(small, config).memory())
    found = [
        network.make(which, replace(config, pixels=12)).unroll(
            params, memory, Steps(seen, none, none.astype(np.float32), none.astype(bool))
        )[0]
        for which, seen in ((small, picture), (spec, picture.repeat(2, axis=2).repeat(2, axis=3)))
    ]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_a_sum_tree_is_a_list_of_weights():
    rng = np.random.default_rng(0)
    for capacity in (1, 5, 8, 33):
        tree, plain = SumTree(capacity), np.zeros(capacity)
        for _ in range(30):
            indices = rng.integers(capacity, size=rng.integers(1, 5))
            weights = rng.random(len(indices)) * rng.integers(0, 2, size=len(indices))
            tree.set(indices, weights)
            for i, w in zip(indices, weights, strict=True):
                plain[i] = w
            np.testing.assert_array_equal(tree.weights(), plain)
            np.testing.assert_allclose(tree.total, plain.sum(), rtol=1e-12)
            if plain.sum() > 0:
                points = rng.random(50) * tree.total
                np.testing.assert_array_equal(
                    tree.find(points), np.searchsorted(np.cumsum(plain), points, side="right")
                )


def stream(count, seed=0, shape=(3,), dtype=np.float32):
    rng = np.random.default_rng(seed)
    steps = sequences.empty_steps(EnvSpec("s", shape, 2, dtype=np.dtype(dtype).name), count)
    high = 256 if dtype == np.uint8 else 1000
    return steps._replace(
        observation=rng.integers(0, high, size=(count, *shape)).astype(dtype),
        action=np.arange(count, dtype=np.int32),
        reward=rng.normal(size=count).astype(np.float32),
        valid=np.ones(count, bool),
    )


def test_a_stream_is_cut_into_overlapping_sequences():
    steps, memory = stream(30), np.arange(1, 31, dtype=np.float32)[:, None]
    one = {"numbers": range(1), "heads": 1, "mask_prob": 1.0, "seed": (0,)}
    pieces, writer, again = [], *(Streams(SHAPE, np.zeros(1, np.float32), **one) for _ in range(2))
    for part in (slice(0, 3), slice(3, 11), slice(11, 12), slice(12, 30)):
        pieces += writer.extend(0, jax.tree.map(lambda x, part=part: x[part], steps), memory[part])
    assert [piece.start for piece in pieces] == [0, 4, 8, 12, 16, 20]
    for piece in pieces:
        np.testing.assert_array_equal(piece.steps.action, np.arange(piece.start, piece.start + SHAPE.length))
        assert piece.memory == piece.start  # the memory after the previous step
    again.restore(*writer.save(), exact=True)
    more = [w.extend(0, stream(4, seed=1), memory[:4]) for w in (writer, again)]
    assert len(more[0]) == 1
    jax.tree.map(np.testing.assert_array_equal, *more)


def replay_config(capacity, **options):
    lengths = {"burn_in": 2, "trace_length": 5, "replay_period": 4}
    return Config(exploiters=2, replay_capacity=capacity, min_replay=1, batch_size=1, **lengths | options)


def filled_replay(count, *, capacity=6, compress=False, steps=None, spec=SPEC, streams=2):
    """A replay with `count` sequences of each stream, and the steps of the streams."""
    config = replay_config(capacity, compress=compress)
    kept = replay.Replay(spec, config, memory=np.zeros(1, np.float32), streams=streams)
    steps = steps or [stream(SHAPE.length + 4 * count, seed, spec.carried_shape, spec.dtype) for seed in range(streams)]
    for i in range(count):
        for s in range(streams):
            piece = jax.tree.map(lambda x, i=i: x[4 * i : 4 * i + SHAPE.length], steps[s])
            mask = np.array([i % 2, 1], np.float32)
            kept.add(Sequence(s, 4 * i, piece, np.array([10 * s + i], np.float32), mask), priority=1.0 + i)
    return kept, steps


@pytest.mark.parametrize("compress", [False, True])
def test_the_replay_gives_back_what_it_was_given_and_forgets_the_oldest(compress):
    kept, steps = filled_replay(7, compress=compress)
    assert len(kept) == kept.capacity == 6
    drawn = kept.sample(200, np.random.default_rng(0))
    assert set(drawn.ids) == set(range(8, 14))
    for b, id_ in enumerate(drawn.ids):
        i, s = divmod(int(id_), 2)
        expected = jax.tree.map(lambda x, i=i: x[4 * i : 4 * i + SHAPE.length], steps[s])
        jax.tree.map(lambda x, y, b=b: np.testing.assert_array_equal(x[:, b], y), drawn.steps, expected)
        assert drawn.memory[b] == 10 * s + i
        np.testing.assert_array_equal(drawn.mask[b], [i % 2, 1])


def test_sequences_are_drawn_by_priority_and_weighted_against_it():
    kept, _ = filled_replay(3)
    kept.update_priorities(np.arange(6), np.array([1.0, 2.0, 4.0, 1e-9, 1.0, 1.0]))
    drawn = kept.sample(4000, np.random.default_rng(1))
    weights = np.array([1.0, 2.0, 4.0, 1e-6, 1.0, 1.0]) ** 0.9
    shares = np.bincount(drawn.ids, minlength=6) / 4000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=2e-3)
    ratio = drawn.weights[drawn.ids == 0][0] / drawn.weights[drawn.ids == 2][0]
    np.testing.assert_allclose(ratio, (weights[2] / weights[0]) ** 0.6, rtol=1e-5)
    assert drawn.weights.max() == 1.0
    kept.update_priorities(np.array([99, -1]), np.array([5.0, 5.0]))  # deleted, or never stored
    np.testing.assert_allclose(kept.priorities()[2], 4.0, rtol=1e-12)
    assert kept.largest_priority == 4.0


def stacks(count, seed=0):
    """Stacks of four frames as in Atari, with an episode that begins in the middle of a block."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(1, 256, size=(count, 6, 5), dtype=np.uint8)
    observations = np.zeros((count, 6, 5, 4), np.uint8)
    for t in range(count):
        before = np.zeros((6, 5, 4), np.uint8) if t in (0, 6) else observations[t - 1]
        observations[t] = np.concatenate([before[..., 1:], shown[t][..., None]], axis=-1)
    return stream(count)._replace(observation=observations)


def test_a_stack_that_differs_by_any_one_byte_comes_back_as_it_was():
    spec = EnvSpec("stacks", (3, 3, 3), 2, dtype="uint8", is_stacked=True)
    shown = np.arange(1, 55, dtype=np.uint8).reshape(6, 3, 3)
    continued = np.stack([shown[t : t + 3].transpose(1, 2, 0) for t in range(4)])
    for place in range(27):
        observations = continued.copy()
        observations[2].reshape(-1)[place] ^= 1
        kept = frames.Frames(spec, blocks=2, period=4, compress=False)
        kept.write(1, 0, observations[:2])
        kept.write(1, 2, observations[2:])
        np.testing.assert_array_equal(kept.read_many(np.array([[1]]), 4)[:, 0], observations)
        np.testing.assert_array_equal(kept.read(1, 3), observations[:3])


@pytest.mark.parametrize("compress", [False, True])
def test_frames_of_stacks_are_kept_once_and_come_back_whole(compress):
    spec = EnvSpec("stacks", (6, 5, 4), 2, dtype="uint8", is_stacked=True)
    steps = [stacks(SHAPE.length + 16, seed) for seed in range(2)]
    kept, _ = filled_replay(4, compress=compress, spec=spec, steps=steps, capacity=8)
    drawn = kept.sample(60, np.random.default_rng(0))
    assert set(drawn.ids) == set(range(8))
    for b, id_ in enumerate(drawn.ids):
        i, s = divmod(int(id_), 2)
        np.testing.assert_array_equal(drawn.steps.observation[:, b], steps[s].observation[4 * i : 4 * i + SHAPE.length])
    light = kept.sample(60, np.random.default_rng(0), packed=True)
    np.testing.assert_array_equal(unpack(light.steps).observation, drawn.steps.observation)
    assert sum(x.nbytes for x in light.steps.observation) < 0.8 * drawn.steps.observation.nbytes
    one = kept.sequence(3)
    travelled = pack(spec, one)
    assert travelled.steps.observation.newest.shape == (SHAPE.length, 1, 6, 5)
    jax.tree.map(np.testing.assert_array_equal, travelled._replace(steps=unpack(travelled.steps)), one)
    assert frames.block_bytes(spec, 40, compress=False) == 6 * 5 * 43
    arrays, _ = kept.save()
    held = sum(x.nbytes for name, x in arrays.items() if name.startswith("frames."))
    apart = 8 * SHAPE.length * 6 * 5 * 4
    assert held < (0.75 if not compress else 1.2) * apart


def test_colours_are_no_frames_and_take_the_stated_memory():
    spec = EnvSpec("colours", (6, 5, 3), 2, dtype="uint8")
    rng = np.random.default_rng(0)
    count = SHAPE.length + 16
    pictures = rng.integers(0, 256, size=(count, 6, 5, 3), dtype=np.uint8)
    steps = [stream(count)._replace(observation=pictures)] * 2
    kept, _ = filled_replay(4, spec=spec, steps=steps, capacity=8)
    arrays, _ = kept.save()
    said = replay.bytes_needed(spec, replay_config(8), memory=np.zeros(1), streams=2)
    held = sum(x.nbytes for name, x in arrays.items() if name.startswith("frames."))
    assert 0.3 * said < held <= said
    np.testing.assert_array_equal(kept.sequence(0).steps.observation, pictures[: SHAPE.length])
    assert pack(spec, kept.sequence(0)).steps.observation.shape == (SHAPE.length, 6, 5, 3)
    assert kept.sample(3, rng, packed=True).steps.observation.shape == (SHAPE.length, 3, 6, 5, 3)


def test_without_an_exponent_all_sequences_are_alike():
    kept = replay.Replay(SPEC, replay_config(8, priority_exponent=0.0), memory=np.zeros(1))
    kept.add(Sequence(0, 0, jax.tree.map(lambda x: x[: SHAPE.length], stream(60)), np.zeros(1), np.ones(2)), 3.0)
    np.testing.assert_array_equal(kept.priorities(), [1.0])
    np.testing.assert_array_equal(kept.sample(2, np.random.default_rng(0)).weights, [1.0, 1.0])


@pytest.mark.parametrize("compress", [False, True])
def test_a_replay_is_put_back_as_it_was(compress):
    kept, _ = filled_replay(7, compress=compress)
    arrays, plain = kept.save()
    again, _ = filled_replay(0, compress=compress)
    again.restore({name: x.copy() for name, x in arrays.items()}, dict(plain))
    for other in (kept, again):
        piece = jax.tree.map(lambda x: x[28 : 28 + SHAPE.length], stream(60, 9))
        other.add(Sequence(5, 28, piece, np.zeros(1), np.ones(2)))
    one, two = (r.sample(40, np.random.default_rng(2)) for r in (kept, again))
    assert jax.tree.all(jax.tree.map(np.array_equal, one, two))


def test_a_replay_that_does_not_fit_is_refused_with_the_largest_that_does():
    spec = EnvSpec("atari", (84, 84, 4), 18, dtype="uint8", is_stacked=True)
    config, memories = Config(exploiters=10), (np.zeros(512, np.float32),) * 2
    needed = replay.bytes_needed(spec, config, memory=memories)
    assert 28e9 < needed < 33e9, "a hundred thousand sequences fit one large host"
    assert f"{needed / 1e9:.1f} GB" in replay.check_room(spec, config, memory=memories, available=10**12)
    with pytest.raises(UserError, match=r"largest replay_capacity that fits is (\d+)") as refused:
        replay.check_room(spec, config, memory=memories, available=8 * 10**9)
    fits = int(str(refused.value).split("fits is ")[1].split()[0])
    for capacity, is_fine in ((fits, True), (fits + 1, False)):
        smaller = replay.bytes_needed(spec, config, memory=memories, capacity=capacity)
        assert (smaller <= 0.9 * 8e9) == is_fine
    assert memory.available() > 0


def test_an_actor_keeps_its_head_over_episodes_and_draws_another_in_its_time():
    net, made = parts()
    params = made.params(made.init(jax.random.key(0)))
    acts = actor.explorer(net, 1000, 5, 0.0)
    state = acts.begin(params, jax.random.key(1))
    now = TimeStep(jnp.ones(3), jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool))
    act, heads = jax.jit(acts.act), []
    for t in range(20):
        if t == 7:
            state = actor.forgetting(net, state)
            assert bool(state.remembered.is_first)
            assert not any(np.any(x) for x in jax.tree.leaves(state.remembered.memory))
        _, state = act(params, state, now, jax.random.fold_in(jax.random.key(2), t))
        heads.append(int(state.head))
    assert [heads[i : i + 5] == [heads[i]] * 5 for i in (0, 5, 10, 15)] == [True] * 4
    assert len(set(heads)) == 4


def test_the_ladder_of_random_actions():
    np.testing.assert_allclose(actor.ladder(8), [0.4 ** (1 + i) for i in range(8)], rtol=1e-5)
    np.testing.assert_allclose(actor.ladder(1), [0.4**4.5], rtol=1e-5)


@pytest.mark.parametrize("kind", ["exploiters", "explorers"])
def test_the_trained_policy_takes_the_mean_of_unsquashed_values(kind):
    net, made = parts()
    params = made.params(made.init(jax.random.key(0)))
    heads = slice(0, 2) if kind == "exploiters" else slice(2, 3)
    evaluator = actor.evaluator(net, heads, 0.0)
    state = evaluator.begin(params, jax.random.key(0))
    now = TimeStep(jnp.array([1.0, -2.0, 0.5]), jnp.full((), 3.0), jnp.ones(()), jnp.zeros((), bool))
    q, _ = actor.look(net, params, state, now)
    expected = np.mean([td.unsquash(q[k]) for k in range(*heads.indices(3))], axis=0)
    np.testing.assert_allclose(evaluator.values(params, state, now), expected, rtol=1e-5)
    action, after = evaluator.act(params, state, now, jax.random.key(1))
    assert expected[int(action)] == expected.max()
    assert int(after.action) == int(action)
    np.testing.assert_array_equal(q, actor.look(net, params, state, now._replace(reward=jnp.zeros(())))[0])
    later, _ = actor.look(net, params, after, now)
    assert not np.allclose(later, actor.look(net, params, after, now._replace(reward=jnp.zeros(())))[0])


@pytest.mark.parametrize("name", ["tdu", "qu", "qex", "counts", "rnd"])
def test_every_bonus_pays_explorers(name):
    options = {"bonus": name, "exploiters": 2, "explorers": 2, "hidden_sizes": (4,), "lstm_size": 3, "head_size": 3}
    options |= {"batch_size": 2, "burn_in": 1, "trace_length": 6, "replay_period": 2}
    config = agents.configure("tdu_r2d2", options, "memory")
    made = agents.find("tdu_r2d2").make(SPEC, config)
    free = agents.find("tdu_r2d2").make(SPEC, agents.configure("tdu_r2d2", options | {"beta": 0.0}, "memory"))
    steps, memory = (
        some_steps(8, 2),
        jax.tree.map(lambda x: np.zeros((2, *x.shape), np.float32), made.empty_memory()),
    )
    batch = Batch(steps, memory, np.ones((2, 4), np.float32), np.ones(2, np.float32))
    state = made.init(jax.random.key(0))
    if made.observe is not None:
        now, after = learner.trace(steps, Shape(1, 6, 2))
        seen = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), learner.transitions(now, after))
        state = made.observe(state, seen)
        assert int(state.bonus.sum()) == 12
    learned, _, metrics = jax.jit(made.update)(state, batch)
    if name == "rnd":  # the first bonus is 0: no earlier error normalises it
        state = learned
        learned, _, metrics = jax.jit(made.update)(state, batch)
    unpaid, _, _ = jax.jit(free.update)(state, batch)
    moved = np.abs(learned.trained.heads.value - unpaid.trained.heads.value).max(axis=1)
    assert metrics["bonus"] > 0 or (name == "rnd" and metrics["bonus"] != 0)
    assert (moved[2:] > 1e-6).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trace_length": 10, "burn_in": 20, "replay_period": 5}, "trace_length (10) is shorter than burn_in (20)"),
        ({"replay_period": 90}, "replay_period (90) must not be larger than trace_length (80)"),
        ({"min_replay": 200_000}, "min_replay (200000) must not be larger than replay_capacity (100000)"),
        ({"prior_width": 0.5}, "prior_width is of the prior"),
        ({"exploiters": 1}, "bonus tdu needs at least two exploiters"),
        ({"resolution": 0.5}, "resolution is for bonus=counts"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(UserError) as refused:
        agents.configure("tdu_r2d2", options)
    assert words in str(refused.value)


def test_the_paper_s_settings():
    config = agents.configure("tdu_r2d2", {}, "paper")
    assert (config.discount, config.batch_size, config.trace_length, config.replay_period) == (0.997, 64, 80, 40)
    assert (config.burn_in, config.td_lambda, config.replay_capacity, config.min_replay) == (20, 0.97, 100_000, 5000)
    assert (config.learning_rate, config.adam_eps, config.clip, config.target_period) == (2e-4, 1e-3, 40, 400)
    assert (config.priority_exponent, config.importance_exponent, config.evaluation_epsilon) == (0.9, 0.6, 0.001)
    assert (config.exploiters, config.explorers, config.prior_scale, config.beta) == (5, 5, 0.0, 1.0)
    plus = agents.configure("tdu_r2d2_prior", {})
    assert (plus.exploiters, plus.explorers, plus.prior_scale, plus.beta) == (8, 2, 0.1, 1.0)
    small = agents.configure("tdu_r2d2", {}, "atari-small")
    assert (small.pixels, small.filters, small.lstm_size, small.batch_size, small.learn_period) == (
        42,
        (16, 32),
        128,
        16,
        160,
    )
    assert (small.burn_in, small.trace_length, small.discount, small.learning_rate) == (5, 20, 0.99, 5e-4)
    assert agents.configure("tdu_r2d2", {}, "minatar").hidden_sizes == (128,)
    assert agents.configure("tdu_r2d2", {}, "deep-sea").discount == 0.997
    assert agents.configure("tdu_r2d2", {}, "memory").hidden_sizes == (32,)
    bootstrapped = agents.configure("b_r2d2", {})
    assert (bootstrapped.exploiters, bootstrapped.prior_scale) == (10, 0.1), "section 5.2: with additive priors"
    assert agents.configure("r2d2", {}).exploiters == 1
