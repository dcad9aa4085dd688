"""bsuite's official scores, per experiment and per tag, from the logs of runs. Needs the extra `bsuite`.

bsuite 0.3.6's own functions compute the scores, except for the two Deep Sea experiments: their functions do not run on
today's pandas and are rewritten here. Tests compare all scores with golden values from bsuite's own code.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdu.environments import parse
from tdu.environments.bsuite import imported
from tdu.environments.bsuite_twins.experiments import DEEP_SEAS
from tdu.environments.deep_sea import solved_rule
from tdu.errors import UserError, writing
from tdu.run import folder as runs

COLUMNS = ("steps", "episode", "total_return", "episode_len", "episode_return")
"""bsuite's standard columns, in its order; an experiment's own columns follow."""

_NOT_BSUITE = {"head", "bonus", "loss", "seconds"}
_POINTS = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
"""bsuite logs at these multiples of every power of ten."""

_FORGIVENESS = 100  # Deep Sea counts if it is solved before episode 2^size + 100; dithering needs about 2^size episodes


class ExperimentScore(NamedTuple):
    experiment: str
    score: float
    tags: tuple[str, ...]
    finished: bool
    every_episode: float | None = None  # Deep Sea only: the same rule checked at every episode, a measure of our own


def logged_episodes(last: int) -> set[int]:
    """Episodes at which bsuite writes a row."""
    powers = range(len(str(max(last, 1))))
    return {round(point * 10**power) for power in powers for point in _POINTS if round(point * 10**power) <= last}


def bsuite_rows(log: Mapping[str, np.ndarray], bsuite_id: str) -> dict[str, np.ndarray]:
    """The rows and columns of a run's log that bsuite writes, and the last row of a Deep Sea run that ends solved.

    A run that stops once solved ends between two rows of bsuite. It counts as solved at the next one.
    """
    episodes = log["episode"]
    keep = np.isin(episodes, list(logged_episodes(int(episodes.max(initial=0)))))
    solved = _solved(log, bsuite_id)
    if solved.any() and solved[-1]:
        keep[-1] = True
    names = [*COLUMNS, *(n for n in log if n not in COLUMNS and n not in _NOT_BSUITE)]
    return {name: np.asarray(log[name])[keep] for name in names}


def write_csv(log: Mapping[str, np.ndarray], bsuite_id: str, folder: Path) -> Path:
    """Writes a run's log in the format of bsuite's CSV logger, for `bsuite.logging.csv_load`."""
    rows = bsuite_rows(log, bsuite_id)
    runs.make_folder(folder)
    path = folder / f"bsuite_id_-_{bsuite_id.replace('/', '-')}.csv"
    lines = (rows, *zip(*(column.tolist() for column in rows.values()), strict=True))
    text = "".join(",".join(map(str, line)) + "\n" for line in lines)
    if path.exists() and not text.startswith(path.read_text("utf-8")):
        raise UserError(f"{path} exists with other content; choose another folder.")
    with writing(path):
        path.write_text(text, "utf-8")
    return path


def score_logs(logs: Mapping[str, Mapping[str, np.ndarray]]) -> list[ExperimentScore]:
    """Scores of one agent from its logs by bsuite id, for each experiment with a log."""
    imported()
    import pandas as pd

    rows = {bsuite_id: bsuite_rows(log, bsuite_id) for bsuite_id, log in logs.items()}
    frames = [pd.DataFrame(of).assign(bsuite_id=i) for i, of in rows.items() if len(of["episode"])]
    settled = [i for i, of in rows.items() if _solved(of, i).any()]
    own = _every_episode(logs)
    scores = score_frame(pd.concat(frames, sort=False), settled=settled) if frames else []
    return [score._replace(every_episode=own.get(score.experiment)) for score in scores]


def _every_episode(logs: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, float]:
    """Share of the sizes of each Deep Sea experiment that are solved before dithering would, checked at every episode."""
    _, sweep = imported()
    beaten: dict[str, list[bool]] = {}
    for bsuite_id, log in logs.items():
        name = parse(bsuite_id).experiment
        if name in DEEP_SEAS and bsuite_id in sweep.SETTINGS and len(log["episode"]):
            solved = log["episode"][_solved(log, bsuite_id)]
            size = sweep.SETTINGS[bsuite_id]["size"]
            beaten.setdefault(name, []).append(beats_dithering(float(solved[0]) if len(solved) else None, size))
    return {name: float(np.mean(sizes)) for name, sizes in beaten.items()}


def score_frame(frame: Any, *, settled: Sequence[str] = ()) -> list[ExperimentScore]:
    """Scores from a table like `csv_load`'s, without its metadata; `settled` ids need no more episodes."""
    _, sweep = imported()
    from bsuite.experiments import summary_analysis
    from bsuite.logging import logging_utils

    unknown = sorted(set(frame["bsuite_id"]) - set(sweep.SWEEP))
    if unknown:
        raise UserError(
            f"'{unknown[0]}' is not an id of bsuite 0.3.6; was the log written by another version of bsuite?"
        )
    joined = logging_utils.join_metadata(frame.copy())
    scores = []
    for experiment, rows in joined.groupby("bsuite_env"):
        info = summary_analysis.BSUITE_INFO[experiment]
        stochastic = DEEP_SEAS.get(experiment)
        try:
            score = info.score(rows) if stochastic is None else _deep_sea(rows, stochastic)
        except (KeyError, AttributeError, AssertionError) as e:
            raise UserError(
                f"the logs of {experiment} lack data that bsuite 0.3.6 logs ({e}); were they written by another version?"
            ) from None
        last = rows.groupby("bsuite_id")["episode"].max().drop(labels=settled, errors="ignore")
        scores.append(ExperimentScore(experiment, float(score), tuple(info.tags), bool((last >= info.episode).all())))
    return scores


def beats_dithering(solved: float | None, size: int) -> bool:
    """Whether a Deep Sea solved at that episode counts: dithering needs 2^size episodes."""
    return solved is not None and solved < 2.0**size + _FORGIVENESS


def logged_from(episode: int) -> int:
    """The first episode, not before this one, at which bsuite writes a row."""
    return min(logged for logged in logged_episodes(10 * episode) if logged >= episode)


def by_tag(scores: Iterable[ExperimentScore]) -> dict[str, float]:
    """Mean score of the experiments of each tag. NaN scores are ignored, as in bsuite.

    (bsuite's score of MNIST is NaN before nine tenths of its episodes.)
    """
    found: dict[str, list[float]] = {}
    for score in scores:
        for tag in score.tags:
            found.setdefault(tag, []).append(score.score)
    return {tag: mean(values) for tag, values in sorted(found.items())}


def mean(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN; NaN if there are none."""
    numbers = [v for v in values if not np.isnan(v)]
    return float(np.mean(numbers)) if numbers else float("nan")


def _deep_sea(rows: Any, stochastic: bool) -> float:
    """Share of the sizes that are solved before dithering would, checked at the episodes that bsuite logs."""
    rule = solved_rule(stochastic)
    rows = rows[(rows.episode >= rule.from_episode) & (rows.episode <= 10_000)]
    beaten = []
    for size, of_size in rows.groupby("size"):
        solved = of_size.episode[of_size.total_bad_episodes / of_size.episode < rule.bad_share]
        # One vote for each row at the deciding episode, as in bsuite where a size was run twice.
        deciding = solved.min() if len(solved) else of_size.episode.max()
        beat = beats_dithering(logged_from(int(deciding)) if len(solved) else None, size)
        beaten += [beat] * int((of_size.episode == deciding).sum())
    return float(np.mean(beaten)) if beaten else float("nan")


def _solved(log: Mapping[str, np.ndarray], bsuite_id: str) -> np.ndarray:
    """At which rows of a log bsuite's rule for Deep Sea holds; nowhere on other tasks."""
    stochastic = DEEP_SEAS.get(parse(bsuite_id).experiment)
    if stochastic is None or "total_bad_episodes" not in log:
        return np.zeros(len(log["episode"]), bool)
    return np.asarray(solved_rule(stochastic)(log["total_bad_episodes"], np.maximum(log["episode"], 1), 0))
