"""The types of the library.

Every part is a NamedTuple of pure functions and every state is a pytree. So the same code runs under `jit` from Python,
inside a loop on the device, or under `vmap` over seeds. Shapes: `[H]` heads, `[B]` batch, `[A]` actions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from tdu.metrics import STANDARD, Metrics, Reducers
from tdu.metrics import EitherArray as EitherArray

Array = jax.Array
Key = jax.Array
State = Any  # a pytree
Params = Any  # a pytree

Aux = TypeVar("Aux")
Loss = Callable[[Array, Array, Array | None], tuple[Array, Aux]]
"""loss(q_tm1, target_t, online_t) -> the loss, and what else the caller needs; see `Evaluated`."""

DEFAULT_EPISODES = 10_000
"""Episodes of a run where neither the user nor the environment sets a number: bsuite's number for Deep Sea."""


class TimeStep(NamedTuple):
    """What an environment returns, as in dm_env.

    `discount` is 0 only at a true end of the task; `last` is true at any end, including a time limit. Observations are raw,
    in the environment's dtype. A one-hot observation is an integer: the index of its one, or `num_states` for the all-zero
    observation.
    """

    observation: EitherArray
    reward: EitherArray
    discount: EitherArray
    last: EitherArray


class Transition(NamedTuple):
    """One step of experience, with leading axes `[]`, `[B]` or `[T, B]`. `o_t` is always the true next observation."""

    o_tm1: Array
    a_tm1: Array
    r_t: Array
    d_t: Array
    o_t: Array
    extras: dict[str, Array]
    later: "Transition | tuple[()]" = ()
    """The steps after it, [B, n − 1], where a target uses them one by one; otherwise empty."""


class SolvedRule(NamedTuple):
    """When an environment counts as solved; evaluated after every episode.

    With `streak`, that many episodes in a row were not bad. Without it, the share of bad episodes is below `bad_share`, from
    episode `from_episode` on.
    """

    bad_share: float = 0.0
    from_episode: int = 1
    streak: int = 0

    def __call__(self, total_bad: EitherArray, episode: EitherArray, streak: EitherArray) -> EitherArray:
        """Whether it is solved; works on numbers and on arrays."""
        if self.streak:
            return streak >= self.streak
        return (total_bad / episode < self.bad_share) & (episode >= self.from_episode)


Choices = tuple[tuple[int, int], ...]
"""The smallest value and the number of values of each of several discrete choices."""


class Part(NamedTuple):
    """One part of a nested observation."""

    path: tuple[str | int, ...]
    """Its keys, outermost first."""
    shape: tuple[int, ...] = ()
    largest: float = 1.0
    """Its numbers are divided by this."""
    choices: Choices = ()
    """For discrete spaces."""

    @property
    def size(self) -> int:
        """Numbers in the flat observation."""
        return sum(count for _, count in self.choices) if self.choices else math.prod(self.shape)


class Parts(NamedTuple):
    """How a nested observation is flattened into one array (`environments.spaces`)."""

    taken: tuple[Part, ...]
    left_out: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array; a single array keeps its own."""
        alone = len(self.taken) == 1 and not self.taken[0].choices
        return self.taken[0].shape if alone else (sum(part.size for part in self.taken),)


class EnvSpec(NamedTuple):
    """What an agent and a runner need of an environment."""

    name: str
    observation_shape: tuple[int, ...]
    num_actions: int
    num_states: int | None = None
    """Set where the observation is one-hot: it is then passed as an integer in [0, num_states]."""
    dtype: str = "float32"
    """NumPy dtype of the observations; one-hot observations are always passed as int32."""
    actions: Choices = ((0, 0),)
    """The environment's own action: one choice, or several, whose combinations agents count from 0."""
    first_state: int = 0
    """The environment's number of its first state, where observations are state numbers."""
    default_episodes: int = DEFAULT_EPISODES
    solved: SolvedRule | None = None
    info_names: tuple[str, ...] = ()
    """Log columns in addition to bsuite's standard ones: running totals, except those in `per_episode`."""
    per_episode: tuple[str, ...] = ()
    """Those of `info_names` that describe one episode."""
    optimal_path: tuple[tuple[int, int], ...] = ()
    """States of an optimal episode without slips, each with its optimal action; empty where unknown."""
    parts: Parts | None = None
    """Set where the environment's own observation is nested."""
    frames_per_step: int = 1
    """Game frames per step; 4 for Atari with action repeat."""
    is_stacked: bool = False
    """Whether an image's channels are the last frames, so that consecutive observations share all but one."""

    def with_episode(self, so_far: dict[str, EitherArray], episode: dict[str, EitherArray]) -> dict[str, EitherArray]:
        """`info_names` of a run after one more episode."""

        def joined(name: str) -> EitherArray:
            if name in self.per_episode:
                return episode[name]
            return max(so_far[name], episode[name]) if name.startswith("best") else so_far[name] + episode[name]

        return {name: joined(name) for name in self.info_names}

    def own_action(self, action: EitherArray) -> EitherArray:
        """The environment's own action, or actions [B], from an agent's."""
        if len(self.actions) == 1:
            return action + self.actions[0][0]
        starts, counts = zip(*self.actions, strict=True)
        return np.stack(np.unravel_index(action, counts), axis=-1) + np.asarray(starts)

    @property
    def carried_shape(self) -> tuple[int, ...]:
        """Shape of an observation as it is passed."""
        return self.observation_shape if self.num_states is None else ()

    @property
    def carried_dtype(self) -> str:
        """Dtype of an observation as it is passed."""
        return self.dtype if self.num_states is None else "int32"


class Environment(NamedTuple):
    """A JAX-native environment. It never resets itself: the runner does, after storing the last transition."""

    spec: EnvSpec
    reset: Callable[[Key], tuple[State, TimeStep]]
    step: Callable[[State, Array, Key], tuple[State, TimeStep]]
    info: Callable[[State], dict[str, Array]]
    """info(state) -> the episode's value of each of `spec.info_names`; read when it ends.

    The log keeps the last value of those in `spec.per_episode`, the largest of names that begin with `best`, and the sum of
    the others."""


class TransitionReplay(NamedTuple):
    """Storage of transitions."""

    init: Callable[[Transition], State]
    """init(example) -> an empty replay of transitions like the example."""
    add: Callable[[State, Transition], State]
    sample: Callable[[State, Key], Transition]
    size: Callable[[State], Array]


class Optimiser(Protocol):
    """A gradient step on any pytree of parameters."""

    def init(self, params: Params) -> State:
        """State before the first step."""

    def update(self, params: Params, state: State, gradient: Params, step: Array) -> tuple[Params, State]:
        """Parameters and state after step number `step`, counted from 1."""


class Weights(NamedTuple):
    """How trained numbers become the weights of networks: they are the weights, or parameters of noisy ones."""

    init: Callable[[Key, Params], State]
    """init(key, networks) -> state that noise is drawn from."""
    trainable: Callable[[Params], Params]
    """trainable(initial weights) -> what is trained."""
    trainable_rows: Callable[[Array], Array]
    """The same for the rows [S, W] of a one-hot layer."""
    draw: Callable[[State, Array, int], State]
    """draw(state, step, stream) -> noise of a learning step; one stream for online networks and one for targets."""
    drawn: Callable[[Params, State], Params]
    """drawn(trained, draw) -> weights; without noise where `draw` is None."""
    drawn_rows: Callable[[Array, Array, State], Array]
    """drawn_rows(trained rows, states [B], draw) -> rows [B, W]."""
    each: Callable[[Callable[[Params], Params], Params], Params] = lambda function, trained: function(trained)
    """each(function, trained) -> the function applied to every part of `trained` that is structured as the weights are."""


class Evaluated(NamedTuple):
    """Values of a batch: B observations o_tm1 and C observations o_t."""

    q_tm1: Array
    """Online values of o_tm1, [H, B, A]."""
    target_t: Array
    """Target networks' values of o_t, [H, C, A]."""
    online_t: Array | None
    """Online values of o_t, [H, C, A]; only where targets are double Q-learning's."""


class UpdateValues(Protocol):
    """One learning step on a loss. See `Values.update`."""

    def __call__(
        self, state: State, o_tm1: Array, o_t: Array, loss: Loss[Aux], priors: tuple[Array, Array] | None = None
    ) -> tuple[State, Aux]: ...


class Values(NamedTuple):
    """An ensemble of H value functions with their priors, targets and optimiser: everything that one Adam step changes."""

    init: Callable[[Key], State]
    evaluate: Callable[[State, Array, Array], Evaluated]
    """evaluate(state, o_tm1 [B], o_t [C]) -> the values that `update` computes its loss from."""
    update: UpdateValues
    """update(state, o_tm1 [B], o_t [C], loss, priors) -> state, aux: one Adam step on `loss(*evaluated)`.

    C is a multiple of B where a target needs the values of several steps. `priors` are those of o_tm1 and o_t, if they are
    stored."""
    params: Callable[[State], Params]
    """params(state) -> everything that evaluating the online networks needs."""
    q: Callable[[Params, Array], Array]
    """q(params, observation) -> [H, A], of the online networks."""
    noiseless_q: Callable[[Params, Array], Array]
    """The same without noise, where the networks are noisy."""
    freeze: Callable[[Params, Array], State]
    """freeze(params, head) -> a copy of that head, which later learning does not change."""
    frozen_q: Callable[[State, Array], Array]
    """frozen_q(frozen, observation) -> [A]."""
    rebase: Callable[[State], State]
    """The same state with lower 32-bit step counters; to be called every 2²⁸ steps or so."""
    rescaled: Callable[[State, Array], State]
    """rescaled(state, factor) -> learned values, online and target, times the factor; the prior is unchanged."""
    prior: Callable[[State, Array], Array] | None = None
    """prior(state, observation) -> [H, A], the constant part of q; None where storing it would save nothing."""


class Exploit(NamedTuple):
    """The K exploiters' values of a batch, from which a bonus is computed. No gradient passes through it."""

    q: Array
    """Value of the action taken, [K, B]."""
    td: Array
    """target − q, without reward noise, [K, B]."""


class Bonus(NamedTuple):
    """What explorers are paid for.

    `observe` is called with every step. A batch for `learn` and `reward` may hold n steps as one (`return_steps`), or the
    first of n steps with the others in `later`; the reward of a transition is then its r_t plus a bonus.
    """

    init: Callable[[Key], State]
    observe: Callable[[State, Transition], State]
    learn: Callable[[State, Transition], tuple[State, State]]
    """learn(state, batch) -> state, novelty: what `reward` needs, computed before the batch is learned."""
    reward: Callable[[State, Transition, Exploit], tuple[Array, Array]]
    """reward(novelty, batch, exploit) -> (what explorers are paid, [B], or [N, B] if they differ; the bonus in it, [B])."""
    rebase: Callable[[State], State] = lambda state: state
    """The same state with lower 32-bit counters."""


class Behaviour(NamedTuple):
    """Which head acts in an episode, and how it picks an action."""

    init: Callable[[], State]
    begin: Callable[[State, Key], Array]
    """begin(state, key) -> head."""
    act: Callable[[Array, Array, Key], Array]
    """act(q [A], head, key) -> action; with `every_head`, q is [H, A]."""
    observe: Callable[[State, Array, Transition], State]
    """observe(state, head, transition) -> state."""
    every_head: bool = False
    """Whether the action depends on the values of all heads."""


class Actor(NamedTuple):
    """A policy. All it needs of a learner is passed as `params`, so it runs in a compiled loop, in many environments, or in
    another process.
    """

    begin: Callable[[Params, Key], State]
    """begin(params, key) -> actor state of a new episode: the head drawn, its frozen copy, memory."""
    act: Callable[[Params, State, TimeStep, Key], tuple[Array, State]]
    """act(params, actor state, timestep, key) -> action, actor state."""
    remembers: bool = False
    """Whether `act` changes its state; if not, the state need not be carried from step to step.

    With `remembers`, a time step whose `last` is true leaves the state unchanged."""
    values: Callable[[Params, State, TimeStep], Array] | None = None
    """values(params, actor state, timestep) -> [A], where the values depend on the actor's memory."""


class Examined(NamedTuple):
    """Every head's values of transitions [B]."""

    q: Array
    """Value of the action taken, [H, B]."""
    td: Array
    """TD error on the reward alone, [H, B]."""
    bonus: Array
    """The agent's bonus, [B]; 0 where it has none."""


class Examiner(NamedTuple):
    """Reads an agent's values without changing it. Its first heads are exploiters, the others explorers."""

    exploiters: int
    explorers: int
    q: Callable[[Params, Array], Array]
    """q(params, observation) -> [H, A]."""
    remembered: Callable[[State, Key], Transition]
    """remembered(state, key) -> a batch as the agent learns from it; n steps may be one."""
    examine: Callable[[State, Transition], Examined]
    """examine(state, transitions [B]), for any B."""


class Agent(NamedTuple):
    """Pure functions over explicit state. Keys passed to them are consumed."""

    init: Callable[[Key], State]
    params: Callable[[State], Params]
    """params(state) -> what its actors need."""
    actor: Actor
    """Collects experience: draws a head for each episode and explores."""
    evaluator: Actor
    """The trained policy: greedy on `values`."""
    values: Callable[[Params, Array], Array]
    """values(params, observation) -> [A], which the evaluator maximises."""
    observe: Callable[[State, State, Transition, Key], State]
    """observe(state, actor state, transition, key) -> state."""
    learn: Callable[[State, Key], tuple[State, Metrics]]
    """learn(state, key) -> state, metrics. Called at every environment step; does nothing where no learning step is due."""
    rebase: Callable[[State], State]
    """The same state with lower 32-bit counters; to be called every 2²⁸ steps or so."""
    head: Callable[[State], Array]
    """head(actor state) -> index of the head that acts."""
    discount: float
    """γ, which bounds values."""
    reducers: Reducers = STANDARD
    """The metrics of `learn`, which learner.csv logs."""
    live: bool = True
    """Whether `actor.act` uses the params. If not, learning may lag behind within an episode."""
    one_stream: bool = False
    """Whether it learns from consecutive steps, and so from one environment only."""
    examiner: Examiner | None = None
    """Reads its values for figures, where that is possible."""
    extras: tuple[str, ...] = ()
    """Names of what its transitions carry in `extras`: `last`, and the environment's `row` among several."""
    cut: Callable[[State], State] | None = None
    """The state after all environments were reset before their episodes ended."""
