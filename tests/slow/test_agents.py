"""Agents with parts of their own: noisy networks, successor uncertainties and the actor-critic."""

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax
import small
from bsuite.environments.deep_sea import DeepSea

import tdu
from tdu import agents, bonus, td, values
from tdu.adam import Adam
from tdu.agents import su as agent_su
from tdu.errors import TrainingError, UserError
from tdu.networks import noisy
from tdu.run.plan import make_runner, plan
from tdu.types import EnvSpec, Transition

GRID = EnvSpec("grid", (2, 2), 2, num_states=4)


def test_noisy_weights_are_mean_plus_scaled_noise():
    part = noisy.weights(scale=10.0, initial=0.5)
    layer = [(jnp.ones((3, 4)), jnp.zeros(4))]
    state = part.init(jax.random.key(0), layer)
    trained = part.trainable(layer)
    draw = part.draw(state, jnp.int32(7), 0)
    (w, b), *_ = part.drawn(trained, draw)
    zeros = jax.tree.map(jnp.zeros_like, layer)
    (ew, eb), *_ = part.drawn(
        noisy.Noisy(zeros, jax.tree.map(jnp.ones_like, layer)), draw
    )  # the noise itself, times 10
    np.testing.assert_allclose(w, 1.0 + 0.5 * ew, rtol=1e-5)
    np.testing.assert_allclose(b, 0.5 * eb, rtol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, part.drawn(trained, None), layer)
    rows = part.trainable_rows(jnp.ones((5, 4)))
    a, same, other = part.drawn_rows(rows[:3], jnp.array([2, 2, 3]), draw)
    np.testing.assert_array_equal(a, same)
    assert not np.any(np.isclose(a, other))


def test_noise_is_standard_normal_and_drawn_anew_for_each_step_and_network():
    part = noisy.weights(scale=1.0, initial=1.0)
    zeros = [(jnp.zeros((8, 8)), jnp.zeros(8))]
    state, trained = part.init(jax.random.key(0), zeros), part.trainable(zeros)

    def of(step, stream):
        return part.drawn(trained, part.draw(state, step, stream))[0][0]

    online, target = jax.jit(jax.vmap(of, in_axes=(0, None)), static_argnums=1), None
    target = online(jnp.arange(4000), 1)
    online = online(jnp.arange(4000), 0)
    for weight in (online[:, 0, 0], online[:, 7, 7], target[:, 3, 4]):
        assert float(weight.mean()) == pytest.approx(0, abs=0.06)
        assert float(weight.std()) == pytest.approx(1, abs=0.05)
    for a, b in ((online, target), (online[1:], online[:-1])):
        for i, j in ((0, 0), (5, 2)):
            assert abs(np.corrcoef(a[:, i, j], b[:, i, j])[0, 1]) < 0.06
    assert abs(np.corrcoef(online[:, 0, 0], online[:, 0, 1])[0, 1]) < 0.06


@pytest.mark.parametrize("make", [values.dense, values.one_hot])
def test_noisy_values_learn_mean_and_scale_and_act_on_one_draw_per_step(make):
    shape = values.EnsembleShape(1, (8,), 0.0, target_period=4, double=False, optimiser=Adam(1e-2))
    ensemble = make(GRID, shape, noisy.weights(1.0, 0.1))
    start = state = jax.jit(ensemble.init)(jax.random.key(0))
    q, noiseless_q = (jax.jit(lambda s, o, f=f: f(ensemble.params(s), o)) for f in (ensemble.q, ensemble.noiseless_q))
    np.testing.assert_array_equal(q(state, jnp.int32(1)), q(state, jnp.int32(1)))
    assert not np.allclose(q(state, jnp.int32(1)), noiseless_q(state, jnp.int32(1)))

    def loss(q_tm1, target_t, online_t):
        return jnp.mean(jnp.square(q_tm1 - 1.0)), ()

    observations = jnp.arange(4)
    update = jax.jit(lambda s: ensemble.update(s, observations, observations, loss)[0])
    seen = [q(state, jnp.int32(1))]
    for _ in range(150):
        state = update(state)
        seen.append(q(state, jnp.int32(1)))
    assert len({float(x[0, 0]) for x in seen}) == len(seen), "the noise is drawn anew after every learning step"
    before, after = (np.abs([noiseless_q(s, o) - 1.0 for o in observations]).max() for s in (start, state))
    assert after < 0.2 * before
    for now, then in zip(state.params, start.params, strict=True):  # means, then scales
        moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), now, then)
        assert min(jax.tree.leaves(moved)) > 0


SU = {"hidden_sizes": (8,), "features": 6, "min_replay": 1, "batch_size": 1, "discount": 0.9}
SU |= {"likelihood_variance": 4.0, "prior_variance": 0.5}


@functools.cache
def su(successor="table"):
    """The agent, its initial state and its compiled `observe`."""
    agent = agents.AGENTS["su"].make(GRID, agents.configure("su", SU | {"successor": successor}))
    return agent, jax.jit(agent.init)(jax.random.key(0)), jax.jit(agent.observe)


def transitions(n=12, key=0):
    rng = np.random.default_rng(key)
    for _ in range(n):
        state, action, after = rng.integers(0, 4), rng.integers(0, 2), rng.integers(0, 5)
        yield Transition(
            jnp.int32(state), jnp.int32(action), jnp.float32(rng.normal()), jnp.float32(after < 4), jnp.int32(after), {}
        )


@functools.cache
def su_outputs(successor):
    """φ and ψ before they are clipped at 0, as a function of the agent's state and an observation."""
    shape = values.EnsembleShape(1, SU["hidden_sizes"], 0.0, target_period=4, double=False, optimiser=Adam(1e-3))
    spec = GRID._replace(num_actions=2 * SU["features"])
    local = values.one_hot(spec, shape)
    psi = values.table(spec, shape) if successor == "table" else local
    return jax.jit(lambda state, o: (local.q(local.params(state.local), o), psi.q(psi.params(state.successor), o)))


def su_features(state, observation, successor="table"):
    """φ and ψ of every action, each [A, F]."""
    phi, psi = (np.asarray(x).reshape(2, -1) for x in su_outputs(successor)(state, observation))
    return np.maximum(phi, 0), psi if successor == "table" else np.maximum(psi, 0)


def test_su_s_posterior_by_hand():
    """The inverse covariance is I/θ + Σ φφᵀ/β."""
    _, state, observe = su()
    precision = np.eye(6) / 0.5
    for t in transitions(5):
        phi = su_features(state, t.o_tm1)[0][t.a_tm1]
        assert np.linalg.norm(phi) > 0
        precision = precision + np.outer(phi, phi) / 4.0
        state = observe(state, state.mean, t, jax.random.key(0))
    np.testing.assert_allclose(state.root @ state.root.T, np.linalg.inv(precision), rtol=1e-4, atol=1e-6)


def test_su_s_posterior_keeps_its_precision():
    """With a prior variance 10⁵ times the noise's, float32 equals float64 after 1,000 transitions in three directions."""
    rng = np.random.default_rng(0)
    directions = rng.uniform(0, 3, (3, 6))
    met = directions[rng.integers(0, 3, 1000)].astype(np.float32)

    def step(root, phi):
        return agent_su.with_transition(root, phi, 0.01), ()

    root, _ = jax.jit(lambda first, those: jax.lax.scan(step, first, those))(jnp.eye(6) * 1000**0.5, met)
    exact = np.linalg.inv(np.eye(6) / 1000 + met.astype(np.float64).T @ met.astype(np.float64) / 0.01)
    ours = np.asarray(root, np.float64)
    ours = ours @ ours.T
    for phi in directions:
        assert phi @ ours @ phi == pytest.approx(phi @ exact @ phi, rel=0.02)
    np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=0.1)
    assert np.linalg.eigvalsh(ours).min() > 0


def test_su_samples_its_posterior():
    agent, state, _ = su()
    root = jnp.eye(6) + 0.3 * jax.random.normal(jax.random.key(1), (6, 6))
    state = state._replace(mean=jnp.arange(6.0), root=root)
    begin = jax.jit(jax.vmap(agent.actor.begin, in_axes=(None, 0)))
    samples = np.asarray(begin(agent.params(state), jax.random.split(jax.random.key(2), 20_000)))
    np.testing.assert_allclose(samples.mean(axis=0), np.arange(6.0), atol=0.05)
    np.testing.assert_allclose(np.cov(samples.T), root @ root.T, atol=0.08)


@pytest.mark.parametrize("successor", ["table", "network"])
def test_su_s_loss_and_slope_by_hand(successor):
    """Checks the loss of one learning step on one transition, and Adam's first step on w."""
    agent, state, observe = su(successor)
    mean, acting = jnp.linspace(-1, 1.2, 6), jnp.linspace(1, -0.5, 6)
    t = Transition(jnp.int32(1), jnp.int32(0), jnp.float32(2.0), jnp.float32(1.0), jnp.int32(3), {})
    state = observe(state._replace(mean=mean), acting, t, jax.random.key(0))
    (phi, psi), (_, psi_t) = (su_features(state, jnp.int32(s), successor) for s in (1, 3))
    w, sample = np.asarray(mean), np.asarray(acting)
    identity = phi[0] + 0.9 * psi_t[np.argmax(psi_t @ sample)] - psi[0]
    reward_error = 2.0 - phi[0] @ w
    value_error = 2.0 + 0.9 * np.max(psi_t @ w) - psi[0] @ w
    after, metrics = jax.jit(agent.learn)(state, jax.random.key(0))
    assert float(metrics["loss"]) == pytest.approx(
        0.5 * (reward_error**2 + value_error**2 + np.mean(identity**2)), rel=1e-4
    )
    slope = -(reward_error * phi[0] + value_error * psi[0])
    np.testing.assert_allclose(np.asarray(after.mean) - w, -1e-3 * np.sign(slope), rtol=1e-3)


def test_su_s_table_by_hand():
    """The table starts at one. A learning step changes only the visited row and action, by Adam's first step."""
    agent, state, observe = su()
    for s in range(4):
        np.testing.assert_array_equal(su_features(state, jnp.int32(s))[1], 1.0)
    np.testing.assert_array_equal(su_features(state, jnp.int32(4))[1], 0.0)  # the all-zero observation
    mean, acting = jnp.linspace(-1, 1.2, 6), jnp.linspace(1, -0.5, 6)
    t = Transition(jnp.int32(1), jnp.int32(0), jnp.float32(2.0), jnp.float32(1.0), jnp.int32(3), {})
    state = observe(state._replace(mean=mean), acting, t, jax.random.key(0))
    phi = su_features(state, jnp.int32(1))[0][0]
    identity = phi + 0.9 - 1.0
    value_error = 2.0 + 0.9 * float(mean.sum()) - float(mean.sum())
    slope = -(identity / 6 + value_error * np.asarray(mean))
    after, _ = jax.jit(agent.learn)(state, jax.random.key(0))
    moved = np.stack([su_features(after, jnp.int32(s))[1] for s in range(4)]) - 1
    np.testing.assert_allclose(moved[1, 0], -1e-3 * np.sign(slope), rtol=1e-3)
    moved[1, 0] = 0
    np.testing.assert_array_equal(moved, 0)


def test_su_s_table_moves_like_adam():
    """Thirty learning steps equal Adam on the whole table, including targets. Some rows repeat, some are unused."""
    spec, adam = GRID._replace(num_actions=3), Adam(1e-2)
    table = values.table(spec, values.EnsembleShape(1, (8,), 0.0, target_period=4, double=False, optimiser=adam))
    state, dense = jax.jit(table.init)(jax.random.key(0)), jnp.ones((4, 3))
    target, moments = dense, adam.init(dense)

    def loss(q_tm1, target_t, _):
        return jnp.mean(jnp.square(q_tm1[0] - 0.5 * jnp.flip(target_t[0], axis=-1) - 0.1)), ()

    @jax.jit
    def step(state, dense, target, moments, number, o_tm1, o_t):
        state, _ = table.update(state, o_tm1, o_t, loss)
        gradient = jax.grad(lambda w: loss(w[None, o_tm1], target[None, o_t], None)[0])(dense)
        dense, moments = adam.update(dense, moments, gradient, number)
        return state, dense, jnp.where(number % 4 == 0, dense, target), moments

    q = jax.jit(lambda state, o: table.q(table.params(state), o))
    rng = np.random.default_rng(0)
    for number in range(1, 31):
        o_tm1, o_t = rng.integers(0, 3 + (number > 20), 5), rng.integers(0, 4, 5)
        state, dense, target, moments = step(state, dense, target, moments, jnp.int32(number), o_tm1, o_t)
        ours = np.stack([q(state, jnp.int32(s))[0] for s in range(4)])
        np.testing.assert_allclose(ours, dense, rtol=1e-4, atol=1e-5)
    assert np.abs(ours - 1).max() > 0.1


def test_su_s_table_needs_a_one_hot_observation():
    vectors = GRID._replace(num_states=None)
    for successor in ("table", "network"):  # the network is the default here
        with pytest.raises(UserError, match="one-hot"):
            agents.AGENTS["su"].make(vectors, agents.configure("su", SU | {"successor": successor}))
    agents.AGENTS["su"].make(vectors, agents.configure("su", SU))


@pytest.mark.parametrize("seed", [0, 1])
def test_su_solves_deep_sea(seed):
    """A short version of the result in docs/agents/su.md: Deep Sea 20 in 1,500 episodes."""
    run = tdu.train("deep_sea:size=10", "su", seed=seed, episodes=750, evaluation_episodes=0, progress=None)
    assert run.result["solved_episode"] is not None


def test_su_stays_finite_where_the_prior_is_wide():
    options = {"prior_variance": 1000.0, "likelihood_variance": 0.01}
    planned = plan("deep_sea:size=10", "su", episodes=300, until="budget", **options)
    runner, _ = make_runner(planned.config, planned.env)
    rows = [row for _ in range(3) for row in runner.advance()]
    learner = runner.learner()
    assert len(rows) == 300
    assert all(np.isfinite(row["loss"]) for row in rows)
    assert np.isfinite(learner.acting).all()
    assert np.ptp(learner.replay.data.a_tm1) == 1, "both actions were taken"
    assert np.linalg.svd(np.asarray(learner.root, np.float64), compute_uv=False).min() > 0


@pytest.mark.parametrize("env", ["deep_sea:size=4", DeepSea(4)])
def test_su_ends_where_its_sample_is_not_finite(env):
    """Covers the compiled and the stepwise runner. The square of 10³⁷ is infinite in float32."""
    with pytest.raises(TrainingError, match="posterior sample stopped being finite"):
        tdu.train(env, "su", episodes=100, evaluation_episodes=0, progress=None, prior_variance=1e74)


def test_lambda_returns_are_rlax_s_and_stop_where_told():
    key = jax.random.split(jax.random.key(0), 3)
    r, v = jax.random.normal(key[0], (7,)), jax.random.normal(key[1], (7,))
    d = jnp.array([0.9, 0.9, 0.0, 0.9, 0.9, 0.9, 0.9])
    ours = td.lambda_returns(r, d, v, jnp.full(7, 0.8).at[-1].set(0.0))
    np.testing.assert_allclose(ours, rlax.lambda_returns(r, d, v, 0.8), rtol=1e-5)
    cut = td.lambda_returns(r, d, v, jnp.full(7, 0.8).at[jnp.array([3, 6])].set(0.0))
    np.testing.assert_allclose(cut[:4], rlax.lambda_returns(r[:4], d[:4], v[:4], 0.8), rtol=1e-5)
    np.testing.assert_allclose(cut[4:], ours[4:], rtol=1e-6)
    assert float(cut[3]) == pytest.approx(float(r[3] + 0.9 * v[3]), rel=1e-5)


def test_generic_loss_by_hand():
    """Any policy loss uses r + β·σ, and the critics use r. No gradient flows through σ."""
    weights = jnp.array([1.0, 3.0, 5.0])
    batch = next(iter(transitions()))._replace(r_t=jnp.array([0.5, -1.0]))

    def both(w, beta):
        errors = jnp.stack([w, jnp.zeros(3)], axis=1)  # [K, B]: σ = 2 and 0
        return bonus.generic_loss(batch, errors, lambda t: jnp.sum(t.r_t * jnp.array([1.0, 10.0])), beta)

    policy, critics = both(weights, 2.0)
    assert float(policy) == pytest.approx(4.5 - 10.0)
    assert float(critics) == pytest.approx(0.5 * (1 + 9 + 25) / 2)
    np.testing.assert_array_equal(jax.grad(lambda w: both(w, 2.0)[0])(weights), 0.0)
    np.testing.assert_allclose(jax.grad(lambda w: both(w, 2.0)[1])(weights), weights / 2)
    sequence = jnp.broadcast_to(weights[:, None, None], (3, 4, 2))
    _, sigma = bonus.raised(batch._replace(r_t=jnp.zeros((4, 2))), sequence, 1.0)
    np.testing.assert_allclose(sigma, np.full((4, 2), 2.0), rtol=1e-6)


AC = {"hidden_sizes": (8,), "sequence_length": 8, "entropy_cost": 0.1, "discount": 0.9, "td_lambda": 0.8}


@functools.cache
def actor_critic(**options):
    """The agent, and a function that observes eight transitions and learns. The fourth one ends an episode."""
    agent = agents.AGENTS["tdu_ac"].make(GRID, agents.configure("tdu_ac", AC | options))
    data = jax.tree.map(lambda *x: jnp.stack(x), *transitions(8))

    @jax.jit
    def after_learning(state):
        def observe(state, step):
            transition, episode, key = step
            return agent.observe(state, episode, transition, key), ()

        steps = data, jnp.arange(8) // 4, jax.random.split(jax.random.key(0), 8)
        return agent.learn(jax.lax.scan(observe, state, steps)[0], jax.random.key(0))

    return agent, after_learning


@functools.cache
def ac_start(critics):
    return jax.jit(actor_critic(beta=2.0, critics=critics)[0].init)(jax.random.key(0))


def test_without_bonus_the_critics_change_nothing():
    """β = 0 is a plain actor-critic: the critics do not affect its policy."""
    policy = ac_start(2).policy
    learned = {
        (beta, critics): actor_critic(beta=beta, critics=critics)[1](ac_start(critics)._replace(policy=policy))
        for beta, critics in ((0.0, 2), (0.0, 3), (2.0, 2))
    }
    flat = {k: np.concatenate([np.ravel(x) for x in jax.tree.leaves(v[0].policy)]) for k, v in learned.items()}
    np.testing.assert_array_equal(flat[0.0, 2], flat[0.0, 3])
    assert not np.allclose(flat[0.0, 2], flat[2.0, 2])
    assert float(learned[0.0, 2][1]["bonus"]) > 0, "σ is logged even where it is not paid"


def test_actor_critic_s_loss_by_hand():
    start = ac_start(2)
    _, metrics = actor_critic(beta=2.0, critics=2)[1](start)
    batch = jax.tree.map(lambda *x: np.stack(x), *transitions(8))

    def outputs(state, heads, outputs, prior, observations):
        shape = values.EnsembleShape(heads, (8,), prior, target_period=1, double=False, optimiser=Adam(3e-3))
        network = values.one_hot(GRID._replace(num_actions=outputs), shape)
        return np.asarray(
            jax.jit(jax.vmap(network.q, in_axes=(None, 0)))(network.params(state), observations), np.float64
        )

    v_tm1, v_t = (outputs(start.critics, 2, 1, 3.0, o)[..., 0] for o in (batch.o_tm1, batch.o_t))
    errors = batch.r_t[:, None] + 0.9 * batch.d_t[:, None] * v_t - v_tm1
    sigma = np.std(errors, axis=1, ddof=1)
    assert float(metrics["bonus"]) == pytest.approx(sigma.mean(), rel=1e-4)
    out_tm1, out_t = (outputs(start.policy, 1, 3, 0.0, o)[:, 0] for o in (batch.o_tm1, batch.o_t))
    returns, after = np.zeros(8), 0.0
    for i in reversed(range(8)):
        trace = 0.0 if i in (3, 7) else 0.8  # an episode ends at 3, the sequence at 7
        reward = batch.r_t[i] + 2.0 * sigma[i]
        after = returns[i] = reward + 0.9 * batch.d_t[i] * ((1 - trace) * out_t[i, 2] + trace * after)
    log_policy = out_tm1[:, :2] - np.log(np.exp(out_tm1[:, :2]).sum(axis=1, keepdims=True))
    advantage = returns - out_tm1[:, 2]
    entropy = -(np.exp(log_policy) * log_policy).sum(axis=1)
    taken = log_policy[np.arange(8), batch.a_tm1]
    expected = np.mean(0.5 * advantage**2 - taken * advantage - 0.1 * entropy)
    assert float(metrics["loss"]) == pytest.approx(expected, rel=1e-4)


def test_the_example_of_adding_an_agent_runs(monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "agents" / "adding.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    code = [line for line in example.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(code) <= 12, "the page promises ten lines"
    module = {"__name__": "tdu.agents.surprise"}
    exec(example, module)  # our own documentation
    entry = agents.Entry("Explorers paid for a surprising reward.", module["Config"], module["make"])
    monkeypatch.setitem(agents.AGENTS, "surprise", entry)
    settings = small.settings("surprise")
    run = tdu.train(small.TASK, "surprise", episodes=40, until="budget", evaluation_episodes=0, **settings)
    assert run.result["config"]["beta"] == 1.0
    assert run.log["bonus"][-1] > 0
