"""bsuite's part of `tdu score`: scores of each agent as tables and figures, and logs in bsuite's own format."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tdu.environments import bsuite, parse
from tdu.environments.bsuite_twins.experiments import DEEP_SEAS
from tdu.errors import UserError
from tdu.files import Json
from tdu.report import bsuite_scores, figures
from tdu.report.bsuite_scores import ExperimentScore
from tdu.report.collect import StoredRun
from tdu.report.text import markdown_table, number_words, published
from tdu.run import sweeps

FIGURES = ("bsuite_radar.png", "bsuite_bars.png")

Scores = Json  # The scores of one agent, as JSON can hold them; see `summarise`


def published_scores() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for experiment, scores in published("published_bsuite.csv").items():
        for agent, score in scores.items():
            found.setdefault(f"{agent} (published)", {})[experiment] = score
    return found


def summarise(found: Iterable[StoredRun], damaged: dict[str, str], notes: list[str]) -> Scores | None:
    """bsuite's scores of one agent, mean over seeds; None without runs on bsuite. A task with two names counts once."""
    by_seed: dict[int, dict[str, StoredRun]] = {}
    for run in found:
        bsuite_id, config = parse(run.config.env).bsuite_id, run.config
        if not bsuite_id or not run.has_episodes:
            continue
        if config.num_envs > 1:
            at_once = f"it ran {config.num_envs} environments at once"
            notes.append(f"{run.name} has no bsuite score, because {at_once}; bsuite's scores are for one.")
            continue
        kept = by_seed.setdefault(config.seed, {}).setdefault(bsuite_id, run)
        if kept is not run:
            names = f"{config.env} and {kept.config.env}"
            only = f"only one run of seed {config.seed}: {kept.name}"
            notes.append(f"{names} are the same task, so bsuite's scores use {only}.")
    by_name: dict[str, list[ExperimentScore]] = {}
    for by_id in by_seed.values():
        for score in _scores(by_id, damaged):
            by_name.setdefault(score.experiment, []).append(score)
    if not by_name:
        return None
    ran = {bsuite_id for by_id in by_seed.values() for bsuite_id in by_id}
    means = [scores[0]._replace(score=bsuite_scores.mean(s.score for s in scores)) for scores in by_name.values()]
    return {
        "scores": {mean.experiment: _mean_or_none([mean.score]) for mean in means},
        "by_seed": {n: [_mean_or_none([s.score]) for s in scores] for n, scores in by_name.items()},
        "every_episode": {
            n: _mean_or_none(s.every_episode for s in scores if s.every_episode is not None)
            for n, scores in by_name.items()
            if n in DEEP_SEAS
        },
        "finished": {n: all(s.finished for s in scores) for n, scores in by_name.items()},
        "settings": {n: [sum(i.startswith(f"{n}/") for i in ids) for ids in (ran, bsuite.ids(n))] for n in by_name},
        "tags": {tag: _mean_or_none([score]) for tag, score in bsuite_scores.by_tag(means).items()},
    }


def _scores(by_id: dict[str, StoredRun], damaged: dict[str, str]) -> list[ExperimentScore]:
    """Scores of one seed's runs; a log that bsuite's code cannot use counts as damaged."""
    try:
        return bsuite_scores.score_logs({bsuite_id: run.log for bsuite_id, run in by_id.items()})
    except UserError:
        for bsuite_id, run in [*by_id.items()]:
            try:
                bsuite_scores.score_logs({bsuite_id: run.log})
            except UserError as e:
                damaged[run.name] = str(e)
                del by_id[bsuite_id]
        return bsuite_scores.score_logs({bsuite_id: run.log for bsuite_id, run in by_id.items()})


def as_text(scored: Mapping[str, Scores], *, with_published: bool) -> list[str]:
    """Scores by experiment and by tag, with remarks."""
    others = published_scores() if with_published else {}
    rows = []
    names = [n for n in figures.ORDER if any(n in s["scores"] for s in scored.values())]
    for name in names:
        having = [s for s in scored.values() if name in s["scores"]]
        ran, every = min(s["settings"][name] for s in having)
        ending = f" ({ran} of {every} settings)" if ran < every else ""
        ending += " *" if any(not s["finished"][name] for s in having) else ""
        cells = [_seed_words(s, name) for s in scored.values()] + [number_words(s.get(name)) for s in others.values()]
        rows.append([f"{name}{ending}", *cells])
        if name in DEEP_SEAS:
            cells = [number_words(s.get("every_episode", {}).get(name)) for s in scored.values()] + ["–"] * len(others)
            rows.append([f"{name}, checked at every episode{ending}", *cells])
    left_out = [n for n in figures.ORDER if n not in names]
    if len(names) > 1:
        columns = [*(s["scores"] for s in scored.values()), *others.values()]
        rows.append([f"mean of {len(names)} experiments", *(number_words(_mean_of(c, names)) for c in columns)])
    tags = sorted({tag for s in scored.values() for tag in s["tags"]})
    tag_rows = [[tag, *(number_words(s["tags"].get(tag)) for s in scored.values())] for tag in tags]
    parts = [markdown_table(["bsuite experiment", *scored, *others], rows)]
    if len(names) > 1 and left_out:
        missing = ", ".join(left_out)
        parts.append(f"All means, also the published ones, leave out {len(left_out)} of 23 experiments: {missing}.")
    parts.append(markdown_table(["bsuite tag", *scored], tag_rows))
    if any(len(seeds) > 1 for s in scored.values() for seeds in s["by_seed"].values()):
        parts.append("Mean over seeds, with the lowest and the highest in brackets.")
    if others and any(ran < every for s in scored.values() for ran, every in s["settings"].values()):
        parts.append("Published scores are over all settings of an experiment; the first setting is often the easiest.")
    if any(not all(s["finished"].values()) for s in scored.values()):
        parts.append("\\* not all episodes have been run")
    return parts


def _mean_of(scores: Mapping[str, float | None], names: Sequence[str]) -> float | None:
    """Mean over these experiments; None if one of them has no score."""
    values = [scores.get(name) for name in names]
    return None if None in values else _mean_or_none(v for v in values if v is not None)


def _seed_words(scored: Scores, experiment: str) -> str:
    words = number_words(scored["scores"].get(experiment))
    seeds = [x for x in scored["by_seed"].get(experiment, ()) if x is not None]
    return f"{words} ({min(seeds):.3f}–{max(seeds):.3f})" if len(seeds) > 1 else words


def write_figures(scored: Mapping[str, Scores], folder: Path, *, with_published: bool) -> list[Path]:
    """The radar of tags and the bars of experiments."""
    radar, bars = (folder / name for name in FIGURES)
    figures.radar({name: s["tags"] for name, s in scored.items()}, radar)
    others = published_scores() if with_published else {}
    labels = {}
    for name in {name for s in scored.values() for name in s["scores"]}:
        ran, every = min(s["settings"][name] for s in scored.values() if name in s["settings"])
        labels[name] = name.replace("_", " ") + (f" ({ran} of {every})" if ran < every else "")
    figures.bars({name: s["scores"] for name, s in scored.items()} | others, labels, bars, faint=tuple(others))
    return [radar, bars]


def write_csv(found: Sequence[StoredRun], out: Path) -> int:
    """Writes every run on a bsuite id as bsuite's own CSV, a folder for each agent and seed; returns their number."""
    written = set()
    for run in found:
        bsuite_id = parse(run.config.env).bsuite_id
        place = out / sweeps.file_name(f"{run.agent}-seed{run.config.seed}")
        if bsuite_id and run.log and (place, bsuite_id) not in written:
            bsuite_scores.write_csv(run.log, bsuite_id, place)
            written.add((place, bsuite_id))
    return len(written)


def _mean_or_none(values: Iterable[float]) -> float | None:
    mean = bsuite_scores.mean(values)
    return None if math.isnan(mean) else mean
