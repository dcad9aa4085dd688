"""The fields of config.json and result.json. Files with other content are refused."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import jax

from tdu import files
from tdu.errors import RunError
from tdu.files import Json
from tdu.options import EVALUATION_EPISODES, MAX_ACTORS, MAX_ENVS, MAX_EPISODES, MAX_SEED, MAX_STEPS
from tdu.run.agent_file import Origin
from tdu.run.runners import mastery
from tdu.run.runners.mastery import Until
from tdu.run.runners.protocol import Budget, Clock
from tdu.types import EnvSpec

RECENT = 100
"""`mean_return` is the mean over this many last episodes."""

Ending = Literal["mastered", "solved", "return", "budget"]

LIMITS = ("episodes", "steps", "until", "until_return")
"""The fields of a config that only determine where the run ends. A run can be trained longer by changing them."""
WATCH = ("evaluate_every", "evaluation_episodes", "record", "record_every")
"""The fields of a config that only determine what is measured meanwhile. They are not part of the name of a folder."""


def without_limits(config: Json) -> Json:
    """The fields of a run's config that determine what the run does until it ends."""
    return {name: value for name, value in config.items() if name not in (*LIMITS, *WATCH)}


def versions() -> dict[str, str]:
    """What the numbers of a run depend on beside its config."""
    found = {name: metadata.version(name) for name in ("tdu", "jax", "jaxlib", "numpy")}
    return found | {"precision": "float64" if jax.config.read("jax_enable_x64") else "float32"}


def version_changes(before: dict[str, str]) -> str:
    """How the versions differ from those before; empty if they do not."""
    return ", ".join(
        f"{name} {before.get(name)} → {now}" for name, now in versions().items() if before.get(name) != now
    )


@dataclass(frozen=True)
class RunConfig:
    """Everything that defines a run."""

    env: str
    agent: str
    seed: int
    episodes: int | None
    """Maximum number of episodes; None for no limit."""
    steps: int | None
    """Maximum number of environment steps; None for no limit."""
    num_envs: int
    """Number of parallel environments."""
    until: Until
    """What ends the run before its budget is spent."""
    config: Json
    """Every option of the agent."""
    actors: int | None = None
    """Number of actors on a Ray cluster, each with `num_envs` environments; None for a run in one process."""
    until_return: float | None = None
    """The run ends when an evaluation reaches this return."""
    success_return: float | None = None
    """An evaluation episode with at least this return is a success; None if the environment reports success itself."""
    evaluate_every: int | None = None
    """Episodes between evaluations during the run."""
    evaluation_episodes: int = EVALUATION_EPISODES
    """Maximum number of evaluation episodes, during the run and at its end; 0 turns evaluation off."""
    record: bool = False
    """Whether snapshots of the agent's values are stored."""
    record_every: int | None = None
    """Episodes between snapshots; None for the default schedule."""

    @property
    def origin(self) -> Origin:
        return Origin(self.agent, self.config)

    @property
    def budget(self) -> Budget:
        return Budget(self.episodes, self.steps)

    def has_reached(self, best_return: float) -> bool:
        """Whether a run with that best evaluation ends because of `until_return`."""
        return self.until_return is not None and best_return >= self.until_return

    def to_json(self) -> Json:
        """The content of config.json without its checksum. Fields with their default are left out."""
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        return {name: value for name, value in dataclasses.asdict(self).items() if value != defaults[name]}

    def to_file(self) -> Json:
        return self.to_json() | {"sha256": self.sha256()}

    @classmethod
    def from_json(cls, content: Json, path: Path) -> "RunConfig":
        """A config from the content of its file."""
        fields = _Fields(content, path, "config")
        fields.check_sha256()
        fields.check_names(["sha256", *(field.name for field in dataclasses.fields(cls))])
        config = cls(**fields.read(cls))
        if config.episodes is None and config.steps is None:
            raise fields.wrong("it limits neither episodes nor steps")
        return config

    def sha256(self) -> str:
        return _digest(self.to_json())

    def digest(self) -> str:
        """Eight characters of the checksum, for the name of a folder."""
        return self.unwatched().sha256()[:8]

    def unwatched(self) -> "RunConfig":
        """The config with the default for what is measured during the run."""
        return self._with_watch({f.name: f.default for f in dataclasses.fields(self)})

    def watched_as(self, stored: "RunConfig") -> "RunConfig":
        """The config of a run that goes on: what is measured where this one has the default is as it was."""
        ours, default = self.to_json(), dataclasses.asdict(stored)
        return self._with_watch(default | ours)

    def _with_watch(self, values: Json) -> "RunConfig":
        return dataclasses.replace(self, **{name: values[name] for name in WATCH})

    def differs_only_in_limits(self, other: "RunConfig") -> bool:
        """Whether the configs differ at most in their limits and in what is measured."""
        return without_limits(self.to_json()) == without_limits(other.to_json())

    def difference(self, other: "RunConfig") -> str:
        """The first few fields in which two configs differ, limits left out."""
        ours, others = ({**without_limits(c.to_json()), **c.config, "config": None} for c in (self, other))
        names = [name for name in {**ours, **others} if ours.get(name) != others.get(name)]
        return ", ".join(f"{name}={ours.get(name)!r} and not {others.get(name)!r}" for name in names[:3])


@dataclass(frozen=True)
class GreedyReturn:
    """Evaluation return of the greedy policy."""

    mean: float
    standard_error: float
    episodes: int
    mean_length: float | None = None
    """Mean number of steps of these episodes."""
    success_rate: float | None = None
    """Share of these episodes that were a success; None if the environment does not report it."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    env: str
    agent: str
    config: Json
    seed: int
    episodes: int
    steps: int
    seconds: float
    steps_per_second: float | None
    mean_return: float | None
    """Over the last `mean_return_episodes` episodes; None if no episode has ended."""
    mean_return_episodes: int
    has_solved_rule: bool
    """Whether the environment has a rule for when it is solved."""
    greedy_return: GreedyReturn | None
    largest_q: float | None
    """Largest absolute value in the last `mean_return_episodes` episodes; None if no episode has ended."""
    possible_return: float | None
    """The largest value that rewards and bonus can explain."""
    config_sha256: str
    """Checksum of the run's config."""
    log_sha256: str | None
    """Checksum of log.csv; None for a run without a folder."""
    checkpoint_sha256: str | None
    """Checksum of the last checkpoint's manifest; None for a run without a folder."""
    solved_episode: int | None = None
    optimal_depth: int | None = None
    """Length of the environment's optimal path; None if it has none."""
    greedy_depth: int | None = None
    """How many steps of it the greedy policy followed at the last check (`runners.mastery`)."""
    mastered_episode: int | None = None
    reached_return: float | None = None
    """The evaluation return that ended the run (`RunConfig.until_return`)."""
    versions: list[dict[str, str]] = dataclasses.field(default_factory=list)
    """Of tdu, JAX, jaxlib and NumPy, and the precision; several if the run was resumed with others."""

    def endings(self, config: RunConfig, spec: EnvSpec, best_return: float) -> list[Ending]:
        """What ends a run with this config there. It may have other limits than the run, or a callback stopped the run.

        `spec` is of its environment, `best_return` of its evaluations during the run.
        """
        goal: Ending = "mastered" if config.until == "mastered" and not mastery.is_solving(spec) else "solved"
        found: dict[Ending, bool] = {
            goal: mastery.is_reached(config.until, spec, self.solved_episode, self.mastered_episode),
            "return": config.has_reached(best_return),
            "budget": config.budget.spent(Clock(self.steps, self.episodes)),
        }
        return [ending for ending, is_there in found.items() if is_there]

    def belongs_to(self, config: RunConfig) -> bool:
        """Whether it is the result of a run with this config."""
        return self.config_sha256 == config.sha256()

    def to_json(self) -> Json:
        """The content of result.json without its checksum. Fields that do not apply are left out."""
        content = dataclasses.asdict(self)
        if content["reached_return"] is None:
            del content["reached_return"]
        if not content.pop("has_solved_rule"):
            del content["solved_episode"]
        if content["optimal_depth"] is None:
            for name in ("optimal_depth", "greedy_depth", "mastered_episode"):
                del content[name]
        return content

    def to_file(self) -> Json:
        content = self.to_json()
        return content | {"sha256": _digest(content)}

    @classmethod
    def from_json(cls, content: Json, path: Path) -> "RunResult":
        """A result from the content of its file."""
        _Fields(content, path, "result").check_sha256()
        fields = _Fields(content | {"has_solved_rule": "solved_episode" in content}, path, "result")
        result = cls(**fields.read(cls))
        if (result.optimal_depth is None) != (result.greedy_depth is None):
            raise fields.wrong("it has only one of optimal_depth and greedy_depth")
        return result


_MOST = {"seed": MAX_SEED, "num_envs": MAX_ENVS, "actors": MAX_ACTORS, "episodes": MAX_EPISODES + MAX_ENVS}
_MOST_COUNTED = 2 * MAX_STEPS
"""The largest values of fields. A run may exceed its budget by a step of each of its environments."""
LARGEST_REAL = 1e100
"""Larger values, which 32-bit training cannot produce, would overflow in sums and squares."""
_LONGEST_TEXT = 10_000


class _Fields:
    """Reads a record's fields and refuses missing ones and wrong types."""

    def __init__(self, content: Json, path: Path, record: str):
        self._content, self._path, self._record = content, path, record

    def wrong(self, reason: str) -> RunError:
        return RunError(f"{self._path} is not a run's {self._record}: {reason}.")

    def check_sha256(self) -> None:
        if "sha256" not in self._content:
            raise self.wrong("sha256 is missing")
        if self._content["sha256"] != _digest(self._content):
            raise RunError(f"{self._path} was changed after the run wrote it.")

    def check_names(self, known: Iterable[str]) -> None:
        if strange := sorted(self._content.keys() - set(known)):
            raise self.wrong(f"{strange[0]} is unknown to this version")

    def read(self, record: type, *, partly: bool = False) -> Json:
        """The fields of a record, checked against their types. With `partly`, any may be missing."""
        hints = get_type_hints(record)
        for field in dataclasses.fields(record):
            if field.default is dataclasses.MISSING and field.name not in self._content and not partly:
                raise self.wrong(f"{field.name} is missing")
        return {name: self._value(name, hint) for name, hint in hints.items() if name in self._content}

    def _value(self, name: str, hint: Any) -> object:
        value, kinds = self._content[name], get_args(hint)
        if get_origin(hint) is UnionType:
            return None if value is None else self._value(name, kinds[0])
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            self._check(name, isinstance(value, dict), "a table")
            return hint(**_Fields(value, self._path, self._record).read(hint))
        if get_origin(hint) is Literal:
            self._check(name, value in kinds, f"one of {', '.join(kinds)}")
        elif get_origin(hint) is dict:
            self._check(name, isinstance(value, dict), "a table")
        elif get_origin(hint) is list:
            self._check(name, isinstance(value, list), "a list")
            for i, one in enumerate(value):
                _Fields({name: one}, self._path, self._record)._value(name, kinds[0])
                self._check(name, all(isinstance(text, str) for text in one.values()), f"a table of strings at {i}")
        elif hint is str:
            is_fine = isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_TEXT
            self._check(name, is_fine, "printable text")
        elif hint is bool:
            self._check(name, isinstance(value, bool), "true or false")
        else:
            is_number = isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
            low, high = (0, _MOST.get(name, _MOST_COUNTED)) if hint is int else (-LARGEST_REAL, LARGEST_REAL)
            kind = f"a whole number from {low} to {high}" if hint is int else "a finite number"
            self._check(name, is_number and low <= value <= high, kind)
        return value

    def _check(self, name: str, is_fine: bool, kind: str) -> None:
        if not is_fine:
            raise self.wrong(f"{name} is not {kind}")


def template(content: Json, path: Path) -> Json:
    """Settings for a new run: some or all fields of a config.json, which may have been edited, and perhaps `preset`."""
    content = {name: value for name, value in content.items() if name != "sha256"}
    fields = _Fields(content, path, "config")
    fields.check_names(["preset", *(field.name for field in dataclasses.fields(RunConfig))])
    return fields.read(RunConfig, partly=True) | ({"preset": str(content["preset"])} if "preset" in content else {})


def read_json(path: Path) -> Json:
    """The content of a JSON file."""
    try:
        return files.read_json(path)
    except FileNotFoundError:
        raise RunError(f"{path} is missing.") from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise RunError(f"{path} cannot be read: it is damaged, or not a file of a run ({reason}).") from None


def written_json(content: Json) -> bytes:
    """The bytes of a record's file."""
    return (json.dumps(content, indent=2) + "\n").encode()


def canonical(content: Json) -> bytes:
    """The form of a record that its checksum is computed from."""
    return json.dumps(content, sort_keys=True, indent=1).encode()


def _digest(content: Json) -> str:
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k != "sha256"})).hexdigest()
