"""What defines a run: the settings given are resolved once, here, into one `RunConfig`; and the runner for it."""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from tdu import agents, environments, memory
from tdu.agents import memory_trace
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments import MadeEnvironment
from tdu.errors import UserError, setting, unknown
from tdu.options import MAX_ACTORS, MAX_ENVS, MAX_EPISODES, MAX_SEED, MAX_STEPS, as_json, whole_number
from tdu.run import consent, recording
from tdu.run.folder import RunConfig, read_template
from tdu.run.folder.records import EVALUATION_EPISODES
from tdu.run.processes import cores
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.mastery import Until
from tdu.run.runners.protocol import Budget, Runner
from tdu.run.runners.recurrent import RecurrentRunner
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.types import Agent, Environment, EnvSpec
from tdu.values import standard

AnyAgent = Agent | RecurrentAgent
Engine = Literal["local", "ray"]

DEFAULT_AGENT = "tdu"


class Resolved(NamedTuple):
    """A run with every setting resolved, before its environment is made."""

    config: RunConfig
    """`episodes` may be None without a limit of steps: the environment's default, not known before it is made."""
    source: Any
    """The environment's id, or the object that was given."""
    options: dict[str, Any]
    """The agent's options that were given."""
    note: str | None
    """Why the run has its preset, if none was given."""


class Plan(NamedTuple):
    """A run that can be started."""

    config: RunConfig
    env: MadeEnvironment
    source: Any
    """The environment's id, or the object that was given."""
    note: str | None
    """Why the run has its preset, if none was given."""


def plan(env: Any = None, agent: str | None = None, **settings: Any) -> Plan:
    """A run with its environment made; `resolve` has the settings."""
    config, source, options, note = resolve(env, agent, **settings)
    made = make_environment(source, config)
    _refuse_unused(made, options)
    if config.episodes is None and config.steps is None:
        default = whole_number("episodes", made.spec.default_episodes, 1, MAX_EPISODES)
        config = dataclasses.replace(config, episodes=default)
    num_envs = config.num_envs if isinstance(made, Environment) or config.actors else made.size
    config = dataclasses.replace(config, env=config.env or object_name(made.spec), num_envs=num_envs)
    return Plan(config, made, source, note)


def resolve(
    env: Any = None,
    agent: str | None = None,
    *,
    config: str | Path | RunConfig | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    until: Until | None = None,
    preset: str | None = None,
    engine: Engine | None = None,
    actors: int | None = None,
    until_return: float | None = None,
    success_return: float | None = None,
    evaluate_every: int | None = None,
    evaluation_episodes: int | None = None,
    record: bool = False,
    record_every: int | None = None,
    trust: bool = False,
    **options: Any,
) -> Resolved:
    """Every setting of a run, checked: what is given, else what the file `config` holds, else the default."""
    refuse_without_ray(engine, actors=actors)
    notes = []
    given = options
    for one in (env, agent):
        consent.typed(one)
    if config is not None:
        path = None if isinstance(config, RunConfig) else Path(config)
        source = path or "the config"
        template = config.to_json() if isinstance(config, RunConfig) else read_template(Path(config))
        if env is None and environments.parse(template.get("env", "")).source == environments.OBJECT:
            raise UserError(f"{source} is of a run on an object, which a file cannot hold; give the environment too.")
        if env is None and "env" in template:
            env = template["env"]
            consent.require(env, path, trust=trust)
        seed = template.get("seed") if seed is None else seed
        num_envs = template.get("num_envs") if num_envs is None else num_envs
        until = template.get("until") if until is None else until
        actors = template.get("actors") if actors is None else actors
        until_return = template.get("until_return") if until_return is None else until_return
        success_return = template.get("success_return") if success_return is None else success_return
        evaluate_every = template.get("evaluate_every") if evaluate_every is None else evaluate_every
        evaluation_episodes = (
            template.get("evaluation_episodes") if evaluation_episodes is None else evaluation_episodes
        )
        record = record or template.get("record", False)
        record_every = template.get("record_every") if record_every is None else record_every
        if episodes is None and steps is None:
            episodes, steps = template.get("episodes"), template.get("steps")
        its_agent = template.get("agent", DEFAULT_AGENT)
        if agent is None:
            consent.require(its_agent, path, trust=trust)
            agent = its_agent
        if agent != its_agent:
            notes.append(f"{source} is of a run of {its_agent}, so {agent} has its own default options")
        elif preset is None:
            options = template.get("config", {}) | options
            preset = template.get("preset")
            if preset is None:
                preset = "paper"  # the config.json of a run holds every option
            else:
                given = options
    if env is None:
        raise UserError("an environment is missing, for example deep_sea:size=20; see tdu list.")
    agent = DEFAULT_AGENT if agent is None else agent
    is_recurrent = agents.find(agent).is_recurrent
    if preset is None:
        env_id = environments.identify(env)
        preset = agents.default_preset(agent, of_the_paper=env_id.is_of_the_paper, kind=env_id.kind)
        if preset == "general":
            notes.append(
                f"{agent} has the preset general, because this is not one of the paper's environments; "
                "preset paper has the paper's settings"
            )
        elif is_recurrent:
            notes.append(
                f"{agent} has the preset {preset}, which fits one machine; "
                "preset paper has the paper's settings, for a cluster"
            )
    if engine == "ray" and actors is None:
        actors = cores()
    if actors is not None and not is_recurrent:
        raise UserError(
            f"actors are for recurrent agents, for example tdu_r2d2, and {agent} is not recurrent; "
            "tdu sweep --engine ray runs many of its runs on a cluster."
        )
    if num_envs is None:
        num_envs = 1 if environments.is_made(env) else agents.default_num_envs(agent, preset)
        num_envs = max(num_envs // (actors or 1), 1)  # the total stays the same
    if until is not None and until not in get_args(Until):
        raise unknown("until", until, get_args(Until))
    resolved = RunConfig(
        env=str(environments.parse(env).canonical()) if isinstance(env, str) else "",
        agent=agent,
        seed=0 if seed is None else whole_number("seed", seed, 0, MAX_SEED),
        episodes=None if episodes is None else whole_number("episodes", episodes, 1, MAX_EPISODES),
        steps=None if steps is None else whole_number("steps", steps, 1, MAX_STEPS),
        num_envs=whole_number("num_envs", num_envs, 1, MAX_ENVS),
        until="mastered" if until is None else until,
        config=as_json(agents.configure(agent, options, preset)),
        actors=None if actors is None else whole_number("actors", actors, 1, MAX_ACTORS),
        until_return=_finite("until_return", until_return),
        success_return=_finite("success_return", success_return),
        evaluate_every=None
        if evaluate_every is None
        else whole_number("evaluate_every", evaluate_every, 1, MAX_EPISODES),
        evaluation_episodes=EVALUATION_EPISODES
        if evaluation_episodes is None
        else whole_number("evaluation_episodes", evaluation_episodes, 0, 10**6),
        record=bool(record) or record_every is not None,
        record_every=None if record_every is None else whole_number("record_every", record_every, 1, MAX_EPISODES),
    )
    if resolved.record:
        recording.check(agent)
    if resolved.evaluate_every is not None and not resolved.evaluation_episodes:
        raise UserError(f"{setting('evaluate_every')} needs {setting('evaluation_episodes')} of at least 1.")
    if resolved.episodes is None and resolved.steps is None and resolved.env:
        resolved = dataclasses.replace(resolved, episodes=environments.default_episodes(resolved.env))
    return Resolved(resolved, env, given, f"{'; '.join(notes)}." if notes else None)


def _finite(name: str, value: float | None) -> float | None:
    if value is not None and (isinstance(value, bool | str) or not math.isfinite(value)):
        raise UserError(f"{name} must be a finite number, not {value!r}.")
    return None if value is None else float(value)


def refuse_without_ray(engine: str | None, **settings: Any) -> None:
    """Refuses settings that only a Ray cluster has."""
    for name, value in settings.items():
        if value is not None and engine != "ray":
            raise UserError(f"{name} needs a Ray cluster; add --engine ray (in Python, engine='ray').")


def refuse_unevaluated(until_return: float | None, evaluate_every: int | None) -> None:
    """Refuses a return to be reached by evaluations without evaluations."""
    if until_return is not None and evaluate_every is None:
        raise UserError(
            f"{setting('until_return')} is compared with evaluations during the run; give {setting('evaluate_every')} too."
        )


def _refuse_unused(made: MadeEnvironment, options: dict[str, Any]) -> None:
    """Refuses options that were given and have no effect on such observations."""
    spec = made.spec
    reasons = {
        "observations": None if standard.measured(spec).any() else "observation is not a vector of numbers",
        "dense_prior": None if spec.num_states is None else "observation is one-hot",
        "dense_return_steps": None if spec.num_states is None else "observation is one-hot",
        "trace_decay": None if memory_trace.applies(spec) else "observation is not a vector of numbers",
    }
    for name, reason in reasons.items():
        if options.get(name) is not None and reason is not None:
            environments.close(made)
            raise UserError(f"{name} changes nothing on {spec.name}, whose {reason}; leave it out.")


def make_environment(env: Any, config: RunConfig) -> MadeEnvironment:
    """The environment of a run."""
    if config.actors and not isinstance(env, str):
        raise UserError("the actors of a cluster make their environments themselves; give an id, not an object.")
    num_envs = 1 if config.actors else config.num_envs
    return environments.make(env, config.seed, num_envs=num_envs, vectorises=agents.find(config.agent).is_recurrent)


def object_name(spec: EnvSpec) -> str:
    """The name of an environment without an id in a run's config."""
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
    """The runner of a run and its agent. `compiled=False` is enough to load it; `address` is of a Ray cluster."""
    entry = agents.find(config.agent)
    agent = _make_agent(entry.make, env.spec, agents.configure(config.agent, config.config))
    budget, seed = Budget(episodes=config.episodes, steps=config.steps), environments.own_seed(config.env, config.seed)
    if isinstance(agent, RecurrentAgent) and config.actors is not None:
        from tdu.cluster.runner import RayRunner

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
    """One object per agent, so that a second run of it is not compiled again."""
    return make(spec, config)
