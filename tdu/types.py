"""The nouns of the library, and nothing else.

Every part is a NamedTuple of pure functions, every state a plain pytree, so that the same code runs under `jit` from
Python, inside a loop on the device, or under `vmap` over seeds. Shapes: `[H]` heads, `[B]` batch, `[A]` actions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Array = jax.Array
Key = jax.Array
State = Any  # a pytree
EitherArray = Any  # JAX's inside compiled code, NumPy's outside


class TimeStep(NamedTuple):
    """What an environment answers, in dm_env's meaning.

    `discount` is 0 only at a true end of the task; `last` is true at any end, a time limit included.
    A one-hot observation is an integer: the index of its one, or `num_states` for the all-zero observation.
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


class EnvSpec(NamedTuple):
    """What an agent and a runner need to know of an environment."""

    name: str
    observation_shape: tuple[int, ...]
    num_actions: int
    num_states: int | None = None
    """Set where the observation is one-hot: then it travels as an integer in [0, num_states]."""
    bytes: bool = False
    """Whether the environment's observations are bytes; they travel divided by 255."""
    default_episodes: int = 10_000
    solved: SolvedRule | None = None
    info_names: tuple[str, ...] = ()
    """Running totals that the log carries beside bsuite's standard columns."""


class Environment(NamedTuple):
    """A JAX-native environment. It never resets itself: the runner does, after storing the last transition."""

    spec: EnvSpec
    reset: Callable[[Key], tuple[State, TimeStep]]
    step: Callable[[State, Array, Key], tuple[State, TimeStep]]
    info: Callable[[State], dict[str, Array]]
    """What the episode adds to each of `spec.info_names`; read when it ends."""


class Replay(NamedTuple):
    """Storage of transitions in four verbs."""

    init: Callable[[Transition], State]
    add: Callable[[State, Transition], State]
    sample: Callable[[State, Key], Transition]
    size: Callable[[State], Array]


class Weights(NamedTuple):
    """How the numbers that are trained become the weights of networks: the weights themselves, or noisy ones."""

    init: Callable[[Key, Any], State]
    """init(key, networks) -> what draws are made from."""
    widen: Callable[[Any], Any]
    """widen(initial weights) -> what is trained in their place."""
    widen_rows: Callable[[Array], Array]
    """The same for the rows [S, W] of a one-hot layer."""
    draw: Callable[[State, Array, int], Any]
    """draw(state, step, stream): the noise of a learning step, one stream for online networks and one for targets."""
    of: Callable[[Any, Any], Any]
    """of(trained, draw) -> weights; without noise where `draw` is None."""
    rows: Callable[[Array, Array, Any], Array]
    """rows(trained rows, states [B], draw) -> rows [B, W]."""


class Values(NamedTuple):
    """An ensemble of H value functions with their priors, targets and optimiser: all that one Adam step touches."""

    init: Callable[[Key], State]
    update: Callable[..., tuple[State, Any]]
    """update(state, o_tm1 [B], o_t [B], loss, priors): one step on `loss(q_tm1, target_t, online_t)`, all `[H, B, A]`.

    `priors` are those of o_tm1 and of o_t, where `prior` exists and they are known already."""
    q: Callable[[State, Array], Array]
    """q(state, observation) -> [H, A], of the online networks as they are now."""
    still_q: Callable[[State, Array], Array]
    """The same without noise, where the networks are noisy."""
    freeze: Callable[[State, Array], State]
    """freeze(state, head): what is needed to evaluate that head later, unchanged by learning in between."""
    frozen_q: Callable[[State, Array], Array]
    """frozen_q(frozen, observation) -> [A]."""
    prior: Callable[[State, Array], Array] | None = None
    """prior(state, observation) -> [H, A], the part of q that never changes, where it costs enough to be worth keeping."""


class Exploit(NamedTuple):
    """What the K exploiters say about a batch: the material of a bonus. No gradient passes through it."""

    q: Array
    """Value of the action taken, [K, B]."""
    target: Array
    """Bootstrapped target r + γ·d·v(s'), [K, B]."""
    td: Array
    """target − q, without reward noise, [K, B]."""


class Bonus(NamedTuple):
    """What explorers are paid for."""

    init: Callable[[Key], State]
    observe: Callable[[State, Transition], State]
    learn: Callable[[State, Transition], tuple[State, Any]]
    """learn(state, batch) -> (state, what `reward` has to know of the batch, from before it was learned)."""
    reward: Callable[[Any, Transition, Exploit], tuple[Array, Array]]
    """reward(known, batch, exploit) -> (what explorers are paid [B], or [N, B] if not all the same; the bonus in it [B])."""


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


class Agent(NamedTuple):
    """Pure functions over explicit state. Keys given to them are consumed."""

    init: Callable[[Key], State]
    begin_episode: Callable[[State, Key], State]
    """begin_episode(state, key) -> actor. Draws a head here, so that no runner needs a special case."""
    act: Callable[[State, State, Array, Key], Array]
    """act(state, actor, observation, key) -> action."""
    observe: Callable[[State, State, Transition, Key], State]
    """observe(state, actor, transition, key) -> state."""
    learn: Callable[[State, Key], tuple[State, dict[str, Array]]]
    """learn(state, key) -> state, metrics. Called at every environment step; it knows itself when to wait."""
    head: Callable[[State], Array]
    """head(actor) -> index of the head that acts."""
    evaluate: Callable[[State, Array], Array]
    """evaluate(state, observation) -> [A], the values that the finished agent acts greedily on."""
    live: bool = True
    """Whether `act` looks at the state. Where not, all that acts is in the actor, and learning may lag within an episode."""
