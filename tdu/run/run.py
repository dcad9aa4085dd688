"""A run that was, or that is under way as its last checkpoint has it."""

from typing import Any, NamedTuple

from tdu.run.folder.log import Log
from tdu.run.folder.records import RunConfig
from tdu.run.trained import TrainedAgent


class Run(NamedTuple):
    """A run: its result, its log as arrays by column, the agent as it is at its end, what defines it, and `evaluations`,
    which are what the trained policy returned on the way, by column too (with `evaluate_every`; otherwise empty).
    """

    result: dict[str, Any]
    """As result.json holds it; empty where the run has not finished."""
    log: Log
    agent: TrainedAgent
    config: RunConfig
    evaluations: Log
    """What the policy returned when it was tried out during the run, as evaluations.csv holds it; empty where it was not."""

    def __repr__(self) -> str:
        config, result = self.config, self.result
        words = [f"env={config.env!r}", f"agent={config.agent!r}", f"seed={config.seed}"]
        words.append(f"episodes={len(self.log.get('episode', ()))}")
        if not result:
            return f"Run({', '.join(words)}, not finished)"
        if "solved_episode" in result:
            words.append(f"solved_episode={result['solved_episode']}")
        if "mastered_episode" in result:
            words.append(f"mastered_episode={result['mastered_episode']}")
        mean = result["mean_return"]
        words.append(f"mean_return={mean if mean is None else round(mean, 4)}")
        return f"Run({', '.join(words)})"
