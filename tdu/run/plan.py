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
from tdu.options import DEFAULT_AGENT, MAX_ACTORS, MAX_ENVS, MAX_EPISODES, MAX_SEED, MAX_STEPS, as_json, whole_number
from tdu.run import consent, recording
from tdu.run.folder import RunConfig, read_template
from tdu.run.processes import cores
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.mastery import Until
from tdu.run.runners.protocol import Runner
from tdu.run.runners.recurrent import RecurrentRunner
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.types import Agent, Environment, EnvSpec
from tdu.values import standard

AnyAgent = Agent | RecurrentAgent
Engine = Literal["local", "ray"]


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


_WHOLE = {
    "seed": (0, MAX_SEED), "episodes": (1, MAX_EPISODES), "steps": (1, MAX_STEPS), "num_envs": (1, MAX_ENVS),
    "actors": (1, MAX_ACTORS), "evaluate_every": (1, MAX_EPISODES), "evaluation_episodes": (0, 10**6),
    "record_every": (1, MAX_EPISODES),
}  # fmt: skip
"""Ranges of whole numbers among the settings."""

_SETTINGS = {field.name for field in dataclasses.fields(RunConfig)} - {"env", "agent", "config"}


def resolve(
    env: Any = None,
    agent: str | None = None,
    *,
    config: str | Path | RunConfig | None = None,
    preset: str | None = None,
    engine: Engine | None = None,
    trust: bool = False,
    **settings: Any,
) -> Resolved:
    """Every setting of a run, checked: what is given, else what the file `config` holds, else the default.

    `settings` are fields of `RunConfig`, None where not given, and options of the agent.
    """
    refuse_without_ray(engine, actors=settings.get("actors"))
    given = options = {name: value for name, value in settings.items() if name not in _SETTINGS}
    chosen = {name: value for name, value in settings.items() if name in _SETTINGS and value is not None}
    if not chosen.get("record"):
        chosen.pop("record", None)
    notes = []
    for one in (env, agent):
        consent.typed(one)
    if config is not None:
        path = None if isinstance(config, RunConfig) else Path(config)
        source = path or "the config"
        template = config.to_json() if isinstance(config, RunConfig) else read_template(Path(config))
        if env is None and environments.parse(template.get("env", "")).source == environments.OBJECT:
            raise UserError(
                f"{source} belongs to a run on a Python object, which no file stores; give the environment too."
            )
        if env is None and "env" in template:
            env = template["env"]
            consent.require(env, path, trust=trust)
        limits = {"episodes", "steps"}
        kept = _SETTINGS - limits if limits & chosen.keys() else _SETTINGS
        chosen = {name: template[name] for name in kept & template.keys()} | chosen
        its_agent = template.get("agent", DEFAULT_AGENT)
        if agent is None:
            consent.require(its_agent, path, trust=trust)
            agent = its_agent
        if agent != its_agent:
            notes.append(
                f"{source} is the config of {its_agent}, so its agent options are ignored and {agent} uses its defaults"
            )
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
                f"{agent} uses the preset general, because this is not one of the paper's environments; "
                "the preset paper has the paper's settings"
            )
        elif is_recurrent:
            notes.append(
                f"{agent} uses the preset {preset}, which fits one machine; "
                "the preset paper has the paper's settings, for a cluster"
            )
    if engine == "ray" and chosen.get("actors") is None:
        chosen["actors"] = cores()
    if chosen.get("actors") is not None and not is_recurrent:
        raise UserError(
            f"{agent} is not recurrent, so one run cannot use a cluster; use tdu sweep --engine ray for many runs, or a "
            "recurrent agent such as tdu_r2d2."
        )
    if chosen.get("num_envs") is None:
        num_envs = 1 if environments.is_made(env) else agents.default_num_envs(agent, preset)
        chosen["num_envs"] = max(num_envs // (chosen.get("actors") or 1), 1)  # the total stays the same
    resolved = RunConfig(
        env=str(environments.parse(env).canonical()) if isinstance(env, str) else "",
        agent=agent,
        config=as_json(agents.configure(agent, options, preset)),
        **{"seed": 0, "episodes": None, "steps": None, "until": "mastered"} | _checked(chosen),
    )
    if resolved.record:
        recording.check(agent)
    if resolved.evaluate_every is not None and not resolved.evaluation_episodes:
        raise UserError(f"{setting('evaluate_every')} needs {setting('evaluation_episodes')} of at least 1.")
    if resolved.episodes is None and resolved.steps is None and resolved.env:
        resolved = dataclasses.replace(resolved, episodes=environments.default_episodes(resolved.env))
    return Resolved(resolved, env, given, f"{'; '.join(notes)}." if notes else None)


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run, refused if out of range."""
    found = {name: value for name, value in settings.items() if value is not None}
    if (until := found.get("until", "mastered")) not in get_args(Until):
        raise unknown("until", until, get_args(Until))
    for name, (low, high) in _WHOLE.items():
        if name in found:
            found[name] = whole_number(name, found[name], low, high)
    for name in ("until_return", "success_return"):
        value = found.get(name, 0.0)
        if isinstance(value, bool | str) or not math.isfinite(value):
            raise UserError(f"{name} must be a finite number, not {value!r}.")
        if name in found:
            found[name] = float(value)
    return found | {"record": bool(found.get("record")) or "record_every" in found}


def refuse_without_ray(engine: str | None, **settings: Any) -> None:
    """Refuses settings that only a Ray cluster has."""
    for name, value in settings.items():
        if value is not None and engine != "ray":
            raise UserError(f"{name} needs a Ray cluster; add --engine ray (in Python, engine='ray').")


def refuse_unevaluated(until_return: float | None, evaluate_every: int | None) -> None:
    """Refuses a return to be reached by evaluations without evaluations."""
    if until_return is not None and evaluate_every is None:
        raise UserError(f"{setting('until_return')} needs evaluations during the run; add {setting('evaluate_every')}.")


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
    if isinstance(agent, RecurrentAgent) and config.actors is not None:
        from tdu.cluster.runner import RayRunner

        on_ray = RayRunner(env.spec, agent, config, budget=config.budget, address=address, compiled=compiled, say=say)
        return on_ray, agent
    seed = environments.own_seed(config.env, config.seed)
    how: dict[str, Any] = {"budget": config.budget, "until": config.until, "compiled": compiled}
    if isinstance(agent, RecurrentAgent):
        return RecurrentRunner(env, agent, seed, num_envs=config.num_envs, **how), agent
    notes = memory.check_fits(agent.init, config.config.get("replay_capacity", 0)) if compiled else ()
    runner: Runner
    if isinstance(env, Environment):
        runner = CompiledRunner(env, agent, seed, **how)
    else:
        runner = StepwiseRunner(env, agent, seed, **how)
    runner.notes = notes
    return runner, agent


@lru_cache(maxsize=8)
def _make_agent(make: Callable[[EnvSpec, Any], AnyAgent], spec: EnvSpec, config: Any) -> AnyAgent:
    """One object per agent, so that a second run of it is not compiled again."""
    return make(spec, config)
