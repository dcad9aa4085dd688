"""What defines a run, checked before anything runs; and the runner of it."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tdu import agents, environments, memory
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.cluster.runner import RayRunner
from tdu.environments import MadeEnvironment
from tdu.errors import UserError, unknown
from tdu.options import whole_number, written
from tdu.run import folder as runs
from tdu.run.folder.records import RunConfig
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.mastery import Until
from tdu.run.runners.protocol import Budget, Runner
from tdu.run.runners.recurrent import RecurrentRunner
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.types import Agent, Environment, EnvSpec
from tdu.values import standard

AnyAgent = Agent | RecurrentAgent

MOST_EPISODES = 2**31 - 1
MOST_STEPS = 10**12
MOST_ENVS = 4096
MOST_ACTORS = 4096
LARGEST_SEED = 2**32 - 1
DEFAULT_AGENT = "tdu"


class Plan(NamedTuple):
    """A run that can be started: what defines it, its environment, and where that came from."""

    config: RunConfig
    env: MadeEnvironment
    source: Any
    """An environment's id, or the object that was given."""
    general_because: str | None
    """Why it has the general settings and not the paper's, where nobody has said which."""


class Asked(NamedTuple):
    """A run as it is asked for, its environment not yet made."""

    config: RunConfig
    """Its number of episodes may be missing: the environment's own."""
    source: Any
    general_because: str | None


def plan(env: Any = None, agent: str | None = None, **settings: Any) -> Plan:
    """A run that can be started; see `asked_for` for its settings."""
    asked, env, general_because = asked_for(env, agent, **settings)
    made = make_environment(env, asked)
    _refuse_what_changes_nothing(made, settings)
    if asked.episodes is None and asked.steps is None:
        default = whole_number("episodes", made.spec.default_episodes, 1, MOST_EPISODES)
        asked = dataclasses.replace(asked, episodes=default)
    size = asked.num_envs if isinstance(made, Environment) or asked.actors else made.size
    asked = dataclasses.replace(asked, env=asked.env or object_name(made.spec), num_envs=size)
    return Plan(asked, made, env, general_because)


def _refuse_what_changes_nothing(made: MadeEnvironment, settings: dict[str, Any]) -> None:
    """Options that were asked for and are not for observations such as these."""
    spec = made.spec
    useless = {
        "observations": None if standard.measured(spec).any() else "observation is no vector of numbers",
        "dense_prior": None if spec.num_states is None else "observation is one-hot",
    }
    for name, why in useless.items():
        if settings.get(name) is not None and why is not None:
            environments.close(made)
            raise UserError(f"{name} changes nothing on {spec.name}, whose {why}; leave it out.")


def make_environment(env: Any, config: RunConfig) -> MadeEnvironment:
    """The environment of a run."""
    vectorises = agents.find(config.agent).is_recurrent
    if config.actors and not isinstance(env, str):
        raise UserError("the actors of a cluster make their environments themselves; give an id, not an object.")
    num_envs = 1 if config.actors else config.num_envs
    return environments.make(env, config.seed, num_envs=num_envs, vectorises=vectorises)


def asked_for(
    env: Any = None,
    agent: str | None = None,
    *,
    config: str | Path | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    until: Until | None = None,
    preset: str | None = None,
    actors: int | None = None,
    **options: Any,
) -> Asked:
    """Everything that defines a run, checked, as config.json holds it.

    What is None is as in the file `config`, a run's config.json, or else the usual. `actors` are a Ray cluster's.
    """
    general_because = None
    if config is not None:
        stored = runs.read_template(Path(config))
        if env is None and environments.parse(stored.env).source == environments.OBJECT:
            raise UserError(f"{config} is of a run on an object, which a file cannot hold; give the environment too.")
        env = stored.env if env is None else env
        agent = stored.agent if agent is None else agent
        seed = stored.seed if seed is None else seed
        num_envs = stored.num_envs if num_envs is None else num_envs
        until = stored.until if until is None else until
        actors = stored.actors if actors is None else actors
        if episodes is None and steps is None:
            episodes, steps = stored.episodes, stored.steps
        if agent == stored.agent and preset is None:
            options = stored.config | options
            preset = "paper"  # every option has its value
    if env is None:
        raise UserError("an environment is missing, for example deep_sea:size=20; see tdu list.")
    name = env if isinstance(env, str) else ""
    agent = DEFAULT_AGENT if agent is None else agent
    if preset is None:
        env_id = environments.identify(env)
        preset = agents.default_preset(agent, of_the_paper=env_id.is_of_the_paper, kind=env_id.kind)
        if preset == "general":
            general_because = _GENERAL_BECAUSE.format(agent)
        elif agents.find(agent).is_recurrent:
            general_because = _SMALL_BECAUSE.format(agent, preset)
    if config is not None and agent != stored.agent:
        words = f"{config} is of a run of {stored.agent}, so that the options of {agent} are its own defaults."
        general_because = f"{words[:-1]}; {general_because}" if general_because else words
    if num_envs is None:
        num_envs = 1 if environments.is_made(env) else agents.default_num_envs(agent, preset)
        num_envs = max(num_envs // (actors or 1), 1)  # as many in all
    asked = ask(
        name,
        agent,
        seed=0 if seed is None else seed,
        episodes=episodes,
        steps=steps,
        num_envs=num_envs,
        until="mastered" if until is None else until,
        preset=preset,
        options=options,
        actors=actors,
    )
    return Asked(asked, env, general_because)


_GENERAL_BECAUSE = (
    "{} has the preset general, because this is not one of the paper's environments; "
    "preset paper has the paper's settings."
)


_SMALL_BECAUSE = (
    "{} has the preset {}, which one machine can run; preset paper has the paper's settings, for a cluster."
)


def ask(
    env: str,
    agent: str,
    *,
    seed: int,
    episodes: int | None,
    steps: int | None,
    num_envs: int,
    until: Until,
    preset: str,
    options: dict[str, Any],
    actors: int | None = None,
) -> RunConfig:
    """A run as it is asked for, checked without making its environment, whose default of episodes may be missing here."""
    config = written(agents.configure(agent, options, preset))
    if until not in get_args(Until):
        raise unknown("until", until, get_args(Until))
    if actors is not None and not agents.find(agent).is_recurrent:
        raise UserError(
            f"actors are for agents with a memory, tdu_r2d2 for example, and {agent} has none; many runs of it are what "
            "tdu sweep --engine ray is for."
        )
    return RunConfig(
        env=str(environments.parse(env).canonical()),
        agent=agent,
        seed=whole_number("seed", seed, 0, LARGEST_SEED),
        episodes=None if episodes is None else whole_number("episodes", episodes, 1, MOST_EPISODES),
        steps=None if steps is None else whole_number("steps", steps, 1, MOST_STEPS),
        num_envs=whole_number("num_envs", num_envs, 1, MOST_ENVS),
        until=until,
        config=config,
        actors=None if actors is None else whole_number("actors", actors, 1, MOST_ACTORS),
    )


def is_as_asked(stored: RunConfig, asked: RunConfig) -> bool:
    """Whether a stored run is the one asked for; an environment's own number of episodes may be left unsaid."""
    unsaid = asked.episodes is None and asked.steps is None and stored.steps is None
    return stored == (dataclasses.replace(asked, episodes=stored.episodes) if unsaid else asked)


def object_name(spec: EnvSpec) -> str:
    """What a run's config calls an environment that has no id."""
    name = f"{spec.name}:{spec.observation_shape}:{spec.num_actions}"
    return str(environments.EnvId(environments.OBJECT, name))


def make_runner(
    config: RunConfig,
    env: MadeEnvironment,
    *,
    compiled: bool = True,
    address: str | None = None,
    say: Callable[[str], None] = lambda words: None,
) -> tuple[Runner, AnyAgent]:
    """What drives the run, and its agent; not compiled where it only has to be loaded. An address is a Ray cluster's."""
    entry = agents.find(config.agent)
    agent = _make_agent(entry.make, env.spec, agents.configure(config.agent, config.config))
    budget, seed = Budget(episodes=config.episodes, steps=config.steps), environments.own_seed(config.env, config.seed)
    if isinstance(agent, RecurrentAgent) and config.actors is not None:
        on_ray = RayRunner(env.spec, agent, config, budget=budget, address=address, compiled=compiled, say=say)
        return on_ray, agent
    if isinstance(agent, RecurrentAgent):
        recurrent = RecurrentRunner(
            env, agent, seed, budget=budget, until=config.until, num_envs=config.num_envs, compiled=compiled
        )
        return recurrent, agent
    notes = memory.check_fits(agent.init, config.config.get("replay_capacity", 0)) if compiled else ()
    runner: CompiledRunner | StepwiseRunner
    if isinstance(env, Environment):
        runner = CompiledRunner(env, agent, seed, budget=budget, until=config.until, compiled=compiled)
    else:
        runner = StepwiseRunner(env, agent, seed, budget=budget, until=config.until, compiled=compiled)
    runner.notes = notes
    return runner, agent


@lru_cache(maxsize=8)
def _make_agent(make: Callable[[EnvSpec, Any], AnyAgent], spec: EnvSpec, config: Any) -> AnyAgent:
    """One object for one agent, so that its second run needs no compilation."""
    return make(spec, config)
