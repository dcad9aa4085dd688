"""TDU on Deep Sea in one file: environment, ensemble, replay, bonus, learning, acting and a plot, without the library.

    python examples/tdu_in_one_file.py [--size 10] [--seed 0] [--episodes 1000] [--beta 1.0] [--out tdu.png]

Equations, algorithms and tables are those of "Temporal Difference Uncertainties as a Signal for Exploration"
(Flennerhag et al., 2020, https://arxiv.org/abs/2010.02255). Shapes: H = K + N heads, B transitions, A = 2 actions.
Size 10 takes about 100 episodes and 4 seconds on one core. The tests check the parts against the library.
"""

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

# Table 2, with the best λ and β of table 3.
K, N = 10, 10  # exploiters, explorers
BETA = 1.0  # β, weight of the bonus
PRIOR_SCALE = 3.0  # λ, scale of the random priors
DISCOUNT = 0.99  # γ
BATCH = 32
HIDDEN = (64, 64)
LEARNING_RATE = 1e-3
REPLAY_CAPACITY = 10_000
MIN_REPLAY = 128  # transitions stored before learning starts
TARGET_PERIOD = 4  # learning steps between two copies of the target network
SOLVED_IN_A_ROW = 20  # evaluations of the greedy policy that must all find the chest

# --- Environment ---


class Transition(NamedTuple):
    """τ = (s, a, r, s'). Observations are cell numbers, row · size + column; size² is the end of the episode."""

    s: Array
    a: Array
    r: Array
    d: Array  # 0 at the end of an episode, else 1
    s_next: Array


def action_mapping(size: int, seed: int = 42) -> Array:
    """Which of the two actions moves right in each cell, [size, size]. The draw is bsuite's."""
    return jnp.asarray(np.random.RandomState(seed).binomial(1, 0.5, (size, size)))


def deep_sea(mapping: Array, s: Array, a: Array) -> Transition:
    """One step of deterministic Deep Sea: the diver sinks one row, to the left or to the right.

    A move to the right costs 0.01 / size. Only `size` moves to the right in a row reach the chest, worth 1.
    """
    size = len(mapping)
    row, column = s // size, s % size
    right = a == mapping[row, column]
    chest = right & (column == size - 1)
    r = jnp.where(chest, 1.0, 0.0) - jnp.where(right, 0.01 / size, 0.0)
    column = jnp.clip(column + jnp.where(right, 1, -1), 0, size - 1)
    last = row == size - 1
    return Transition(s, a, r, 1.0 - last, jnp.where(last, size * size, (row + 1) * size + column))


# --- Ensemble with priors ---

Network = list[tuple[Array, Array]]  # weights and biases of each layer; those of an ensemble have a leading axis H


def init_ensemble(key: Array, size: int) -> Network:
    """H networks. Weights are normal with standard deviation 1/√fan_in, truncated at two of them. Biases are 0."""
    widths = (size * size, *HIDDEN, 2)
    return [
        (jax.random.truncated_normal(k, -2, 2, (K + N, fan_in, width)) / jnp.sqrt(fan_in), jnp.zeros((K + N, width)))
        for k, fan_in, width in zip(jax.random.split(key, 3), widths[:-1], widths[1:], strict=True)
    ]


def network(weights: Network, s: Array) -> Array:
    """Output [A] of one network for one cell. A one-hot input picks one row of the first layer.

    The end of an episode has no row. JAX then takes the last one, and d = 0 drops its value from the target.
    """
    (first, bias), *rest = weights
    x = first[s] + bias
    for w, b in rest:
        x = jax.nn.relu(x) @ w + b
    return x


def q_values(params: Network, prior: Network, s: Array) -> Array:
    """Q_k(s, ·) = f_k(s, ·) + λ·p_k(s, ·) of every head in every cell, [H, B, A]. The prior p_k is never trained."""
    ensemble = jax.vmap(jax.vmap(network, in_axes=(None, 0)), in_axes=(0, None))
    return ensemble(params, s) + PRIOR_SCALE * ensemble(prior, s)


# --- TD errors, bonus and loss (algorithm 2) ---


def td_errors(q: Array, q_target: Array, batch: Transition) -> Array:
    """δ_k = r + γ·max_a Q̄_k(s', a) − Q_k(s, a) of every head, [H, B]. Q̄_k is the target network."""
    target = batch.r + DISCOUNT * batch.d * jnp.max(q_target, axis=-1)
    q_taken = jnp.take_along_axis(q, batch.a[None, :, None], axis=-1)[..., 0]
    return jax.lax.stop_gradient(target) - q_taken


def bonus(td: Array) -> Array:
    """σ(τ) of eq. 7: standard deviation of the exploiters' TD errors, [K, B] to [B], without gradient."""
    deviation = td - jnp.mean(td, axis=0)
    return jax.lax.stop_gradient(jnp.sqrt(jnp.sum(deviation**2, axis=0) / (len(td) - 1)))


def loss(params: Network, target: Network, prior: Network, batch: Transition, beta: float) -> tuple[Array, Array]:
    """½δ², summed over heads and averaged over the batch, and the mean of σ.

    Exploiters learn from r, explorers from r + β·σ (eq. 6). The reward enters δ as a sum, so β·σ is added to δ.
    """
    td = td_errors(q_values(params, prior, batch.s), q_values(target, prior, batch.s_next), batch)
    sigma = bonus(td[:K])
    td = jnp.concatenate([td[:K], td[K:] + beta * sigma])
    return jnp.sum(jnp.mean(0.5 * td**2, axis=1)), jnp.mean(sigma)


# --- Agent (algorithm 1) ---


class Agent(NamedTuple):
    """Everything that changes during training."""

    params: Network
    target: Network
    adam: optax.OptState
    replay: Transition  # a ring of the last transitions, [capacity] each
    steps: Array  # environment steps so far


class Episode(NamedTuple):
    """The log of one episode."""

    reward: Array  # sum of rewards
    sigma: Array  # mean σ of the batches learned from
    cells: Array  # the cells visited, [size]
    finds_chest: Array  # whether the greedy policy of the exploiters' mean finds the chest afterwards


def make_agent(size: int, beta: float) -> tuple[Callable[[Array], tuple[Agent, Network]], Callable]:
    """`init(key)`, and `play(agent, prior, key)`: one episode with a learning step after every environment step."""
    mapping = action_mapping(size)
    adam = optax.adam(LEARNING_RATE)

    def init(key: Array) -> tuple[Agent, Network]:
        key_params, key_prior = jax.random.split(key)
        params, prior = init_ensemble(key_params, size), init_ensemble(key_prior, size)
        cell, number = jnp.zeros(REPLAY_CAPACITY, int), jnp.zeros(REPLAY_CAPACITY)
        replay = Transition(s=cell, a=cell, r=number, d=number, s_next=cell)
        return Agent(params, params, adam.init(params), replay, jnp.zeros((), int)), prior

    def store(agent: Agent, transition: Transition) -> Agent:
        place = agent.steps % REPLAY_CAPACITY
        replay = jax.tree.map(lambda ring, new: ring.at[place].set(new), agent.replay, transition)
        return agent._replace(replay=replay, steps=agent.steps + 1)

    def learn(agent: Agent, prior: Network, key: Array) -> tuple[Agent, Array]:
        stored = jnp.minimum(agent.steps, REPLAY_CAPACITY)
        drawn = jax.random.randint(key, (BATCH,), 0, stored)
        batch = jax.tree.map(lambda ring: ring[drawn], agent.replay)
        gradient, sigma = jax.grad(loss, has_aux=True)(agent.params, agent.target, prior, batch, beta)
        updates, adam_state = adam.update(gradient, agent.adam)
        params = optax.apply_updates(agent.params, updates)
        target = optax.periodic_update(params, agent.target, agent.steps, TARGET_PERIOD)
        return agent._replace(params=params, target=target, adam=adam_state), sigma

    def wait(agent: Agent, prior: Network, key: Array) -> tuple[Agent, Array]:
        return agent, jnp.zeros(())

    def finds_chest(params: Network, prior: Network) -> Array:
        """The chest is found if the greedy policy moves right in every cell of the diagonal."""
        diagonal = jnp.arange(size)
        q = jnp.mean(q_values(params, prior, diagonal * size + diagonal)[:K], axis=0)
        return jnp.all(jnp.argmax(q, axis=-1) == mapping[diagonal, diagonal])

    @jax.jit
    def play(agent: Agent, prior: Network, key: Array) -> tuple[Agent, Episode]:
        key_head, key_steps = jax.random.split(key)
        head = jax.random.randint(key_head, (), 0, K + N)
        acting, acting_prior = jax.tree.map(lambda x: x[head], (agent.params, prior))  # fixed for the episode

        def step(carry: tuple[Agent, Array], key: Array) -> tuple[tuple[Agent, Array], tuple[Array, ...]]:
            agent, s = carry
            q = network(acting, s) + PRIOR_SCALE * network(acting_prior, s)
            transition = deep_sea(mapping, s, jnp.argmax(q))
            agent = store(agent, transition)
            agent, sigma = jax.lax.cond(agent.steps >= MIN_REPLAY, learn, wait, agent, prior, key)
            return (agent, transition.s_next), (transition.r, sigma, s)

        begin = agent, jnp.zeros((), int)
        (agent, _), (r, sigma, cells) = jax.lax.scan(step, begin, jax.random.split(key_steps, size))
        return agent, Episode(jnp.sum(r), jnp.mean(sigma), cells, finds_chest(agent.params, prior))

    return init, play


def train(size: int, seed: int, episodes: int, beta: float = BETA) -> tuple[list[Episode], int | None]:
    """The episodes of a run, and the one that solved it: the last of `SOLVED_IN_A_ROW` that end with the chest found."""
    init, play = make_agent(size, beta)
    key_init, key_run = jax.random.split(jax.random.key(seed))
    agent, prior = init(key_init)
    log, in_a_row = [], 0
    for number in range(1, episodes + 1):
        agent, episode = play(agent, prior, jax.random.fold_in(key_run, number))
        log.append(jax.device_get(episode))
        in_a_row = in_a_row + 1 if log[-1].finds_chest else 0
        if in_a_row == SOLVED_IN_A_ROW:
            return log, number
    return log, None


def plot(log: list[Episode], size: int, path: str) -> None:
    """Return and bonus by episode, and how often each cell was visited."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    returns, bonuses, visits = figure.subplots(1, 3)
    returns.plot([episode.reward for episode in log], ".")
    bonuses.plot([episode.sigma for episode in log])
    for axes, title in ((returns, "return"), (bonuses, "mean σ of the batches")):
        axes.set(title=title, xlabel="episode")
    counts = np.bincount(np.concatenate([episode.cells for episode in log]), minlength=size * size)
    image = visits.imshow(np.log10(1 + counts.reshape(size, size)), cmap="viridis")
    visits.set(title="log10(1 + visits)", xlabel="column", ylabel="row")
    figure.colorbar(image, ax=visits)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="TDU on Deep Sea in one file.")
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=1000, help="maximum number of episodes")
    parser.add_argument("--beta", type=float, default=BETA, help="weight of the bonus")
    parser.add_argument("--out", default="tdu.png", help="where the plot goes")
    options = parser.parse_args()
    began = time.perf_counter()
    log, solved = train(options.size, options.seed, options.episodes, options.beta)
    outcome = f"solved at episode {solved}" if solved else f"unsolved after {len(log)} episodes"
    print(f"Deep Sea {options.size}: {outcome}, {time.perf_counter() - began:.1f} s. Plot: {options.out}")
    plot(log, options.size, options.out)
