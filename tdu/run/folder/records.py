"""What config.json and result.json hold, field by field. A file that holds anything else is refused in one sentence."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tdu import agents
from tdu.errors import RunError
from tdu.options import unwritten
from tdu.run.runners.mastery import Until

Json = dict[str, Any]

RECENT = 100
"""`mean_return` is over so many last episodes."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that defines a run."""

    env: str
    agent: str
    seed: int
    episodes: int | None
    """At most so many; None is no limit, and in what is asked for without a limit of steps, the environment's own."""
    steps: int | None
    """At most so many environment steps; None is no limit."""
    num_envs: int
    """Environments side by side."""
    until: Until
    """What ends the run before its budget is spent."""
    config: Json
    """Every option of the agent."""
    actors: int | None = None
    """Processes of a Ray cluster that act, each in `num_envs` environments; None for a run in one process."""

    def to_json(self) -> Json:
        """As config.json holds it, without its own checksum; `actors` is there where there are some."""
        content = dataclasses.asdict(self)
        if content["actors"] is None:
            del content["actors"]
        return content

    def to_file(self) -> Json:
        """As config.json holds it, its own checksum included."""
        return self.to_json() | {"sha256": self.sha256()}

    @classmethod
    def from_json(cls, content: Json, path: Path) -> "RunConfig":
        """What a config.json says; those of older versions have no `steps`, no `num_envs` and no checksum."""
        fields = _Fields(content, path, "config")
        if "sha256" in content and content["sha256"] != _digest(content):
            raise RunError(f"{path} was changed after the run wrote it.")
        config = cls(
            env=fields.text("env"),
            agent=fields.text("agent"),
            seed=fields.whole("seed"),
            episodes=fields.whole_or_none("episodes"),
            steps=fields.whole_or_none("steps") if "steps" in content else None,
            num_envs=fields.whole("num_envs") if "num_envs" in content else 1,
            until=fields.one_of("until", get_args(Until)),
            config=fields.table("config"),
            actors=fields.whole("actors") if "actors" in content else None,
        )
        if config.episodes is None and config.steps is None:
            raise fields.wrong("it limits neither episodes nor steps")
        if strange := sorted(content.keys() - config.to_json().keys() - {"sha256"}):
            raise fields.wrong(f"{strange[0]} is unknown to this version")
        return config

    def sha256(self) -> str:
        """Checksum of all of it."""
        return _digest(self.to_json())

    def digest(self) -> str:
        """Eight letters that tell this config from others, for the name of a folder."""
        return self.sha256()[:8]

    def difference(self, asked: "RunConfig") -> str:
        """The first few fields in which this config is not the one asked for."""
        mine, theirs = (
            {**c.to_json(), **unwritten(agents.find(c.agent).config), **c.config, "config": None} for c in (self, asked)
        )
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        return ", ".join(f"{name}={mine.get(name)!r} and not {theirs.get(name)!r}" for name in names[:3])


@dataclass(frozen=True)
class GreedyReturn:
    """What the trained policy returns when it only exploits."""

    mean: float
    standard_error: float
    episodes: int


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
    """Over the last `mean_return_episodes`; None where no episode has ended."""
    mean_return_episodes: int
    has_solved_rule: bool
    """Whether the environment says when it counts as solved."""
    solved_episode: int | None
    greedy_return: GreedyReturn | None
    largest_q: float | None
    """Largest absolute value in the last `mean_return_episodes`; None where no episode has ended, or by older versions."""
    possible_return: float | None
    """What rewards and bonus can explain of it."""
    config_sha256: str | None
    """Checksum of the run's config; this one and those below are None in results of older versions."""
    log_sha256: str | None
    """Checksum of log.csv; None also for a run without a folder."""
    checkpoint_sha256: str | None
    """That which the manifest of the last checkpoint, the one of the run's last step, has; None also without a folder."""
    optimal_depth: int | None = None
    """Steps of the environment's optimal path, where it has one."""
    greedy_depth: int | None = None
    """Steps that the greedy policy followed it at the last check (`runners.mastery`)."""
    mastered_episode: int | None = None

    def belongs_to(self, config: RunConfig) -> bool:
        """Whether a run of this config can have ended so."""
        if self.config_sha256 is not None:
            return self.config_sha256 == config.sha256()
        fits = config.episodes is None or self.episodes <= config.episodes
        return fits and all(getattr(self, name) == getattr(config, name) for name in ("env", "agent", "seed", "config"))

    def to_json(self) -> Json:
        """As result.json holds it, without its own checksum. What does not apply is left out."""
        content = dataclasses.asdict(self)
        if not content.pop("has_solved_rule"):
            del content["solved_episode"]
        if content["optimal_depth"] is None:
            for name in ("optimal_depth", "greedy_depth", "mastered_episode"):
                del content[name]
        return content

    def to_file(self) -> Json:
        """As result.json holds it, its own checksum included."""
        content = self.to_json()
        return content | {"sha256": _digest(content)}

    @classmethod
    def from_json(cls, content: Json, path: Path) -> "RunResult":
        """What a result.json says, if its checksum is right; those of older versions have none."""
        fields = _Fields(content, path, "result")
        if "sha256" in content and content["sha256"] != _digest(content):
            raise RunError(f"{path} was changed after the run wrote it.")
        if "sha256" not in content and "log_sha256" in content:
            raise RunError(f"{path} was changed after the run wrote it: its checksum is missing.")
        episodes = fields.whole("episodes")
        greedy = fields.table("greedy_return") if content.get("greedy_return") is not None else None
        played = _Fields(greedy, path, "result") if greedy is not None else None
        return cls(
            env=fields.text("env"),
            agent=fields.text("agent"),
            config=fields.table("config"),
            seed=fields.whole("seed"),
            episodes=episodes,
            steps=fields.whole("steps"),
            seconds=fields.real("seconds"),
            steps_per_second=fields.real_or_none("steps_per_second"),
            mean_return=fields.real_or_none("mean_return"),
            mean_return_episodes=fields.whole("mean_return_episodes")
            if "mean_return_episodes" in content
            else min(episodes, RECENT),
            has_solved_rule="solved_episode" in content,
            solved_episode=fields.whole_or_none("solved_episode") if "solved_episode" in content else None,
            optimal_depth=fields.whole("optimal_depth") if "optimal_depth" in content else None,
            greedy_depth=fields.whole("greedy_depth") if "optimal_depth" in content else None,
            mastered_episode=fields.whole_or_none("mastered_episode") if "optimal_depth" in content else None,
            greedy_return=GreedyReturn(
                mean=played.real("mean"),
                standard_error=played.real("standard_error"),
                episodes=played.whole("episodes"),
            )
            if played is not None
            else None,
            largest_q=fields.real_or_none("largest_q") if "largest_q" in content else None,
            possible_return=fields.real_or_none("possible_return") if "possible_return" in content else None,
            config_sha256=fields.text_or_none("config_sha256"),
            log_sha256=fields.text_or_none("log_sha256"),
            checkpoint_sha256=fields.text_or_none("checkpoint_sha256"),
        )


class _Fields:
    """Reads a record's fields and refuses those that are missing or of another type."""

    def __init__(self, content: Json, path: Path, record: str):
        self._content, self._path, self._record = content, path, record

    def wrong(self, reason: str) -> RunError:
        return RunError(f"{self._path} is not a run's {self._record}: {reason}.")

    def text(self, name: str) -> str:
        return self._checked(name, isinstance(self._get(name), str), "a text")

    def flag(self, name: str) -> bool:
        return self._checked(name, isinstance(self._get(name), bool), "true or false")

    def one_of(self, name: str, choices: Sequence[str]) -> Any:
        return self._checked(name, self._get(name) in choices, f"one of {', '.join(choices)}")

    def table(self, name: str) -> Json:
        return self._checked(name, isinstance(self._get(name), dict), "a table")

    def whole(self, name: str) -> int:
        value = self._get(name)
        fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return self._checked(name, fine, "a whole number of at least 0")

    def real(self, name: str) -> float:
        value = self._get(name)
        fine = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return self._checked(name, fine, "a finite number")

    def text_or_none(self, name: str) -> str | None:
        return None if self._content.get(name) is None else self.text(name)

    def whole_or_none(self, name: str) -> int | None:
        return None if self._get(name) is None else self.whole(name)

    def real_or_none(self, name: str) -> float | None:
        return None if self._get(name) is None else self.real(name)

    def _get(self, name: str) -> Any:
        if name not in self._content:
            raise self.wrong(f"{name} is missing")
        return self._content[name]

    def _checked(self, name: str, fine: bool, kind: str) -> Any:
        if not fine:
            raise self.wrong(f"{name} is not {kind}")
        return self._content[name]


def read_json(path: Path) -> Json:
    """A JSON file of ours."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{path} is missing.") from None
    except (OSError, ValueError, RecursionError) as e:
        raise RunError(f"{path} cannot be read: it is damaged, or not a file of a run ({e}).") from None
    if not isinstance(content, dict):
        raise RunError(f"{path} is not a run's file.")
    return content


def written_json(content: Json) -> bytes:
    """A record as its file holds it."""
    return (json.dumps(content, indent=2) + "\n").encode()


def canonical(content: Json) -> bytes:
    """The one way to write a record that its checksum is taken of."""
    return json.dumps(content, sort_keys=True, indent=1).encode()


def _digest(content: Json) -> str:
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k != "sha256"})).hexdigest()
