"""The nouns of the library, and nothing else.

Every part is a NamedTuple of pure functions, every state a plain pytree, so that the same code runs under `jit` from
Python, inside a loop on the device, or under `vmap` over seeds. Shapes: `[H]` heads, `[B]` batch, `[A]` actions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from tdu.metrics import STANDARD, Metrics, Reducers

Array = jax.Array
Key = jax.Array
State = Any  # a pytree
Params = Any  # a pytree
EitherArray = Any  # JAX's inside compiled code, NumPy's outside


DEFAULT_EPISODES = 10_000
"""Of a run on an environment that says nothing else: bsuite's number for Deep Sea."""


class TimeStep(NamedTuple):
    """What an environment answers, in dm_env's meaning.

    `discount` is 0 only at a true end of the task; `last` is true at any end, a time limit included. Observations travel
    raw, in the environment's dtype. A one-hot observation is an integer: the index of its one, or `num_states` for the
    all-zero observation.
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
    later: Any = ()
    """Transitions of the steps after it, with an axis of their own, where a target may look at them; else empty."""


class SolvedRule(NamedTuple):
    """When an environment counts as solved; evaluated after every episode.

    Either the share of bad episodes so far falls below `bad_share` (not looked at before `from_episode`), or, where
    `streak` is given, that many episodes in a row were not bad.
    """

    bad_share: float = 0.0
    from_episode: int = 1
    streak: int = 0

    def __call__(self, total_bad: Any, episode: Any, streak: Any) -> Any:
        """True where solved. Works on numbers and on arrays."""
        if self.streak:
            return streak >= self.streak
        return (total_bad / episode < self.bad_share) & (episode >= self.from_episode)


class Part(NamedTuple):
    """One part of an observation that has several."""

    path: tuple[str | int, ...]
    """Its keys, from the outermost."""
    shape: tuple[int, ...] = ()
    largest: float = 1.0
    """What its numbers are divided by."""
    choices: tuple[tuple[int, int], ...] = ()
    """Where it is no array of numbers: what the first of its choices is called and how many there are, for each of it."""

    @property
    def size(self) -> int:
        """How many numbers it becomes."""
        return sum(count for _, count in self.choices) if self.choices else math.prod(self.shape)


class Parts(NamedTuple):
    """How an observation of several parts is laid out as one array (`environments.parts`)."""

    taken: tuple[Part, ...]
    left_out: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array; a single part keeps its own."""
        alone = len(self.taken) == 1 and not self.taken[0].choices
        return self.taken[0].shape if alone else (sum(part.size for part in self.taken),)


class EnvSpec(NamedTuple):
    """What an agent and a runner need to know of an environment."""

    name: str
    observation_shape: tuple[int, ...]
    num_actions: int
    num_states: int | None = None
    """Set where the observation is one-hot: then it travels as an integer in [0, num_states]."""
    dtype: str = "float32"
    """Of the observations, as NumPy names it; a one-hot one travels as int32 whatever this says."""
    first_action: int = 0
    """What the environment calls the first of its actions; agents call it 0."""
    first_state: int = 0
    """What the environment itself calls its first state, where it names states by numbers."""
    default_episodes: int = DEFAULT_EPISODES
    solved: SolvedRule | None = None
    info_names: tuple[str, ...] = ()
    """Numbers that the log carries beside bsuite's standard columns: running totals, unless `per_episode` says otherwise."""
    per_episode: tuple[str, ...] = ()
    """Those of `info_names` that describe one episode."""
    optimal_path: tuple[tuple[int, int], ...] = ()
    """The states of an optimal episode without slips, each with its optimal action; empty where they are not known."""
    parts: Parts | None = None
    """Where the environment's own observation has several parts."""
    frames_per_step: int = 1
    """Frames of a game that a step passes; 4 for Atari with its action repeat."""
    is_stacked: bool = False
    """Whether an image's channels are its last frames, of which the next observation shares all but the oldest."""

    def with_episode(self, so_far: dict[str, Any], episode: dict[str, Any]) -> dict[str, Any]:
        """`info_names` of a run, with one more episode."""

        def joined(name: str) -> Any:
            if name in self.per_episode:
                return episode[name]
            return max(so_far[name], episode[name]) if name.startswith("best") else so_far[name] + episode[name]

        return {name: joined(name) for name in self.info_names}

    @property
    def carried_shape(self) -> tuple[int, ...]:
        """Shape of an observation as it travels."""
        return self.observation_shape if self.num_states is None else ()

    @property
    def carried_dtype(self) -> str:
        """Type of an observation as it travels."""
        return self.dtype if self.num_states is None else "int32"


class Environment(NamedTuple):
    """A JAX-native environment. It never resets itself: the runner does, after storing the last transition."""

    spec: EnvSpec
    reset: Callable[[Key], tuple[State, TimeStep]]
    step: Callable[[State, Array, Key], tuple[State, TimeStep]]
    info: Callable[[State], dict[str, Array]]
    """What the episode adds to each of `spec.info_names`, or its own value of it; read when it ends.

    The log keeps the sum over episodes, the largest value where the name begins with `best`, and the last value where
    `spec.per_episode` has the name."""


class Replay(NamedTuple):
    """Storage of transitions in four verbs."""

    init: Callable[[Transition], State]
    add: Callable[[State, Transition], State]
    sample: Callable[[State, Key], Transition]
    size: Callable[[State], Array]


class Weights(NamedTuple):
    """How the numbers that are trained become the weights of networks: the weights themselves, or noisy ones."""

    init: Callable[[Key, Params], State]
    """init(key, networks) -> what draws are made from."""
    trainable: Callable[[Params], Params]
    """trainable(initial weights) -> what is trained in their place."""
    trainable_rows: Callable[[Array], Array]
    """The same for the rows [S, W] of a one-hot layer."""
    draw: Callable[[State, Array, int], Any]
    """draw(state, step, stream): the noise of a learning step, one stream for online networks and one for targets."""
    drawn: Callable[[Params, Any], Params]
    """drawn(trained, draw) -> weights; without noise where `draw` is None."""
    drawn_rows: Callable[[Array, Array, Any], Array]
    """drawn_rows(trained rows, states [B], draw) -> rows [B, W]."""
    each: Callable[[Callable[[Params], Params], Params], Params] = lambda function, trained: function(trained)
    """each(function, trained): the function of everything that is trained in the form of the weights."""


class Values(NamedTuple):
    """An ensemble of H value functions with their priors, targets and optimiser: all that one Adam step touches."""

    init: Callable[[Key], State]
    update: Callable[..., tuple[State, Any]]
    """update(state, o_tm1 [B], o_t [C], loss, priors): one step on `loss(q_tm1, target_t, online_t)`, all `[H, ·, A]`.

    Where a target needs the values of several steps, C is as many times B. `priors` are those of o_tm1 and of o_t, where
    `prior` exists and they are known already."""
    params: Callable[[State], Params]
    """params(state) -> all that evaluating the online networks needs."""
    q: Callable[[Params, Array], Array]
    """q(params, observation) -> [H, A], of the online networks as they are now."""
    noiseless_q: Callable[[Params, Array], Array]
    """The same without noise, where the networks are noisy."""
    freeze: Callable[[Params, Array], State]
    """freeze(params, head): what is needed to evaluate that head later, unchanged by learning in between."""
    frozen_q: Callable[[State, Array], Array]
    """frozen_q(frozen, observation) -> [A]."""
    rebase: Callable[[State], State]
    """The same state with its 32-bit counters far from their end; to be called every 2²⁸ steps or so."""
    rescaled: Callable[[State, Array], State]
    """rescaled(state, by): what was learned, online and target, times a number; the prior stays what it is."""
    prior: Callable[[State, Array], Array] | None = None
    """prior(state, observation) -> [H, A], the part of q that never changes, where it costs enough to be worth keeping."""


class Exploit(NamedTuple):
    """What the K exploiters say about a batch: the material of a bonus. No gradient passes through it."""

    q: Array
    """Value of the action taken, [K, B]."""
    td: Array
    """target − q, without reward noise, [K, B]."""


class Bonus(NamedTuple):
    """What explorers are paid for. `observe` is given every step; in a batch for `learn` and `reward` several may be one.

    Or a batch holds the first of several, with the others under `later`: what is paid is its reward and something more.
    """

    init: Callable[[Key], State]
    observe: Callable[[State, Transition], State]
    learn: Callable[[State, Transition], tuple[State, Any]]
    """learn(state, batch) -> (state, what `reward` has to know of the batch, from before it was learned)."""
    reward: Callable[[Any, Transition, Exploit], tuple[Array, Array]]
    """reward(novelty, batch, exploit) -> (what explorers are paid [B], or [N, B] if not all the same; the bonus in it [B]).

    `novelty` is what `learn` gave."""
    rebase: Callable[[State], State] = lambda state: state
    """The same state with its 32-bit counters far from their end."""


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
    """What acts. All that it needs of a learner travels as `params`, so it runs in a compiled loop, over many environments,
    in another process or on another host.
    """

    begin: Callable[[Params, Key], State]
    """begin(params, key) -> actor state of a new episode: the head drawn, its frozen copy, memory."""
    act: Callable[[Params, State, TimeStep, Key], tuple[Array, State]]
    """act(params, actor state, timestep, key) -> action, actor state."""
    remembers: bool = False
    """Whether `act` changes its state; where not, nobody has to carry it from step to step.

    One that remembers is given a time step with `last` true where there is nothing to act on: its state then stays."""
    values: Callable[[Params, State, TimeStep], Array] | None = None
    """values(params, actor state, timestep) -> [A], where what it maximises depends on what it remembers."""


class Examined(NamedTuple):
    """What every head says about transitions [B]."""

    q: Array
    """Value of the action taken, [H, B]."""
    td: Array
    """TD error for the reward alone, [H, B]."""
    bonus: Array
    """What the agent's bonus is for each, [B]; 0 where it has none."""


class Examiner(NamedTuple):
    """Looks into an agent without changing it: exploiters are its first heads, explorers the others."""

    exploiters: int
    explorers: int
    q: Callable[[Params, Array], Array]
    """q(params, observation) -> [H, A]."""
    remembered: Callable[[State, Key], Transition]
    """remembered(state, key) -> a batch of what it has met, as it learns from it: several steps may be one."""
    examine: Callable[[State, Transition], Examined]
    """examine(state, transitions) of any number."""


class Agent(NamedTuple):
    """Pure functions over explicit state. Keys given to them are consumed."""

    init: Callable[[Key], State]
    params: Callable[[State], Params]
    """params(state) -> what its actors need of it."""
    actor: Actor
    """Gathers experience: draws a head for each episode, explores."""
    evaluator: Actor
    """The finished agent: greedy on `values`."""
    values: Callable[[Params, Array], Array]
    """values(params, observation) -> [A], what the evaluator maximises."""
    observe: Callable[[State, State, Transition, Key], State]
    """observe(state, actor state, transition, key) -> state."""
    learn: Callable[[State, Key], tuple[State, Metrics]]
    """learn(state, key) -> state, metrics. Called at every environment step; the learner decides when to wait."""
    rebase: Callable[[State], State]
    """The same state with its 32-bit counters far from their end; to be called every 2²⁸ steps or so."""
    head: Callable[[State], Array]
    """head(actor state) -> index of the head that acts."""
    discount: float
    """γ, by which values are limited."""
    reducers: Reducers = STANDARD
    """The metrics of `learn`, which learner.csv logs."""
    live: bool = True
    """Whether `actor.act` looks at the params. Where not, learning may lag within an episode."""
    one_stream: bool = False
    """Whether it learns from consecutive steps, and so from one environment at a time only."""
    examiner: Examiner | None = None
    """For pictures of what it knows, where it can be looked into."""
    extras: tuple[str, ...] = ()
    """What its transitions carry beside: `last`, and the `row` of their environment among several."""
    cut: Callable[[State], State] | None = None
    """The same state where all environments begin episodes before those under way have ended."""


class RecurrentAgent(NamedTuple):
    """An agent that learns from sequences which a replay on the host holds. Pure functions over explicit state."""

    init: Callable[[Key], State]
    params: Callable[[State], Params]
    """params(state) -> what its actors need of it."""
    actor: Callable[[Array | float], Actor]
    """actor(ε) -> what gathers experience, acting at random with that probability."""
    next_episode: Callable[[State], State]
    """next_episode(actor state) -> the same actor, the same head, with nothing remembered."""
    evaluator: Actor
    """The finished agent."""
    values: Callable[[Params, Array], Array]
    """values(params, observation) -> [A], what the evaluator maximises when an episode begins with it."""
    update: Callable[[State, Any], tuple[State, Array, Metrics]]
    """update(state, batch of sequences) -> state, priorities [B], metrics."""
    observe: Callable[[State, Transition], State] | None
    """observe(state, transitions [n]) -> state, where the bonus has to see every transition once."""
    memory: Callable[[State], State]
    """memory(actor state) -> what the network remembers, as sequences store it."""
    head: Callable[[State], Array]
    """head(actor state) -> index of the head that acts."""
    discount: float
    """γ, by which values are limited."""
    exploiters: int
    heads: int
    reducers: Reducers
    """The metrics of `update`, which learner.csv logs."""
    settings: Any
    """How it is run: see `r2d2.agent.Running`."""
    examiner: Examiner | None = None
    """As of an `Agent`; none of these can be looked into yet."""
