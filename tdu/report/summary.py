"""What a folder of runs amounts to: a table for people, the same for machines; bsuite's scores where its ids were run, and
human-normalised ones where Atari's were.
"""

import csv
import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdu import agents
from tdu.environments import bsuite
from tdu.errors import UserError
from tdu.report import atari_scores, bsuite_scores, figures, statistics
from tdu.run import folder as runs
from tdu.run import sweeps
from tdu.run.folder.folder import CONFIG

Summary = dict[str, Any]


class Found(NamedTuple):
    """A run in a sweep's folder."""

    name: str
    config: runs.RunConfig
    result: runs.RunResult | None
    """None where it has not finished."""
    log: dict[str, np.ndarray]


def summarise(folder: Path) -> Summary:
    """Everything about the runs in a sweep's folder, by agent; `damaged` has the reason for each that cannot be used."""
    found, damaged, notes = _read(folder)
    by_agent: dict[str, dict[str, dict[int, Found]]] = {}
    on_atari = []
    for name, run in _told_apart(found):
        seeds = by_agent.setdefault(name, {}).setdefault(run.config.env, {})
        kept = seeds.setdefault(run.config.seed, run)
        if kept is not run:
            notes.append(f"{run.name} is the same run as {kept.name} and is left out.")
        else:
            on_atari.append((name, run.config, run.result, run.log))
    described = {name: _agent(envs, damaged, notes) for name, envs in by_agent.items()}
    return {
        "runs": len(found),
        "unfinished": [run.name for run in found if run.result is None],
        "unchecked": [run.name for run in found if run.result is not None and run.result.log_sha256 is None],
        "damaged": damaged,
        "notes": notes,
        "agents": described,
        "atari": atari_scores.summarised(on_atari),
    }


def _told_apart(found: Sequence[Found]) -> list[tuple[str, Found]]:
    """Runs with the name of their agent; where it ran the same environment at several lengths, the length belongs to it."""
    lengths: dict[tuple[str, str], set[tuple[int | None, int | None, str]]] = {}
    for run in found:
        lengths.setdefault((label(run.config), run.config.env), set()).add(_length(run))
    several = {name for (name, _), found_lengths in lengths.items() if len(found_lengths) > 1}
    return [
        (f"{name} {_length_words(run)}" if name in several else name, run)
        for run in found
        for name in [label(run.config)]
    ]


def _length(run: Found) -> tuple[int | None, int | None, str]:
    return run.config.episodes, run.config.steps, run.config.until


def _length_words(run: Found) -> str:
    limits = (("episodes", run.config.episodes), ("steps", run.config.steps))
    words = [f"{name}={limit}" for name, limit in limits if limit is not None]
    return " ".join(words if run.config.until == "mastered" else [*words, f"until={run.config.until}"])


def _read(folder: Path) -> tuple[list[Found], dict[str, str], list[str]]:
    """The runs in a folder, what is wrong with those that cannot be read, and what has to be known of the others."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder.")
    found, damaged, notes = [], {}, []
    for path in runs.find_runs(folder):
        said: list[str] = []
        try:
            config, result = runs.read_config(path), runs.read_result(path)
            run = Found(path.name, config, result, runs.read_checked_log(path, config, result, said.append))
            label(run.config)
            _check_log(run)
        except UserError as e:
            damaged[path.name] = str(e)
            continue
        found.append(run)
        notes += [f"{path.name}: {sentence}" for sentence in said]
    if not found and not damaged:
        if (Path(folder) / CONFIG).exists():
            raise UserError(f"{folder} is a run itself; name the folder that it lies in, or see tdu evaluate {folder}.")
        raise UserError(f"{folder} has no runs in it.")
    return found, damaged, notes


def _check_log(run: Found) -> None:
    if run.result is None and not run.log:
        return  # it has only just begun
    for name in bsuite_scores.COLUMNS:
        if name not in run.log:
            raise UserError(f"its log has no column {name}.")
        if not np.all(np.isfinite(run.log[name])):
            raise UserError(f"its log's column {name} has something that is not finite.")
    if run.result is not None and len(run.log["episode"]) != run.result.episodes:
        raise UserError(f"its log has {len(run.log['episode'])} of its {run.result.episodes} episodes.")


def label(config: runs.RunConfig) -> str:
    """The agent's name, the preset it is nearest to if not the paper's, and every option in which it differs from that; and
    how many environments, if not one.
    """
    differences = {preset: _changed(config, preset) for preset in agents.presets(config.agent)}
    preset, changed = min(differences.items(), key=lambda item: len(item[1]))
    changed |= {"num_envs": config.num_envs} if config.num_envs != 1 else {}
    words = (f"{k}={'x'.join(map(str, v)) if isinstance(v, list) else v}" for k, v in changed.items())
    return " ".join((config.agent, *(() if preset == "paper" else (preset,)), *words))


def _changed(config: runs.RunConfig, preset: str) -> dict[str, Any]:
    default = dataclasses.asdict(agents.configure(config.agent, {}, preset))
    has = config.config
    return {k: v for k, v in has.items() if k in default and v != _listed(default[k])}


def as_text(summary: Summary, published: bool = False) -> str:
    """The table for people."""
    parts = []
    environments = list(dict.fromkeys(env for agent in summary["agents"].values() for env in agent["environments"]))
    if len(environments) <= 60 or not any(a["bsuite"] for a in summary["agents"].values()):
        lines = ["| environment | agent | seeds | solved at (median) | last-100 return |", "|---|---|---|---|---|"]
        for env in environments:
            for name, agent in summary["agents"].items():
                if env in agent["environments"]:
                    e = agent["environments"][env]
                    cells = [f"`{env}`", name, str(e["seeds"]), _solved_words(e), _number(e["mean_return"])]
                    lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    scored = {name: agent["bsuite"] for name, agent in summary["agents"].items() if agent["bsuite"]}
    if scored:
        parts += _bsuite_tables(scored, published_scores() if published else {})
    if summary.get("atari"):
        parts += atari_scores.as_text(summary["atari"], published)
    parts += summary["notes"]
    if unchecked := summary["unchecked"]:
        whose = f"{unchecked[0]} was" if len(unchecked) == 1 else f"{len(unchecked)} of {summary['runs']} runs were"
        its = "its log" if len(unchecked) == 1 else "their logs"
        parts.append(f"{whose} made by an older version: {its} cannot be checked.")
    if summary["unfinished"]:
        parts.append(f"{len(summary['unfinished'])} of {summary['runs']} runs have not finished.")
    return "\n\n".join(parts)


def _bsuite_tables(scored: dict[str, Any], others: dict[str, dict[str, float]]) -> list[str]:
    """bsuite's scores by experiment and by tag, and what has to be known about them."""
    columns = [*scored, *others]
    lines = [f"| bsuite experiment | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 1)]
    for row in (n for n in figures.ORDER if any(n in s["scores"] for s in scored.values())):
        mine = [s for s in scored.values() if row in s["scores"]]
        star = " *" if any(not s["finished"][row] for s in mine) else ""
        run, every = min(s["settings"][row] for s in mine)
        part = f" ({run} of {every} settings)" if run < every else ""
        cells = [_score_words(s, row) for s in scored.values()] + [_number(s.get(row)) for s in others.values()]
        lines.append(f"| {row}{part}{star} | {' | '.join(cells)} |")
        own = [_number(s.get("every_episode", {}).get(row)) for s in scored.values()] + ["–"] * len(others)
        if row in bsuite.DEEP_SEAS:
            lines.append(f"| {row}, checked at every episode{part}{star} | {' | '.join(own)} |")
    parts = ["\n".join(lines)]
    lines = [f"| bsuite tag | {' | '.join(scored)} |", "|" + "---|" * (len(scored) + 1)]
    for tag in sorted({t for s in scored.values() for t in s["tags"]}):
        lines.append(f"| {tag} | {' | '.join(_number(s['tags'].get(tag)) for s in scored.values())} |")
    parts.append("\n".join(lines))
    if any(len(seeds) > 1 for s in scored.values() for seeds in s["by_seed"].values()):
        parts.append("Mean over seeds, lowest and highest in brackets.")
    if others and any(run < every for s in scored.values() for run, every in s["settings"].values()):
        parts.append("Published scores are over all settings of an experiment; the first is often the easiest.")
    if any(not all(s["finished"].values()) for s in scored.values()):
        parts.append("\\* not all episodes have been run")
    return parts


def _score_words(scored: Any, experiment: str) -> str:
    words = _number(scored["scores"].get(experiment))
    seeds = [x for x in scored["by_seed"].get(experiment, ()) if x is not None]
    return f"{words} ({min(seeds):.3f}–{max(seeds):.3f})" if len(seeds) > 1 else words


def published_scores() -> dict[str, dict[str, float]]:
    """Scores that others have published, by agent and experiment."""
    with open(Path(__file__).parent / "published_bsuite.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    names = [n for n in rows[0] if n != "experiment"]
    return {f"{n} (published)": {r["experiment"]: float(r[n]) for r in rows if r[n]} for n in names}


def write_figures(summary: Summary, folder: Path, *, published: bool = False) -> list[Path]:
    """Radar and bars of bsuite's scores, learning curves of Atari's games."""
    scored = {name: agent["bsuite"] for name, agent in summary["agents"].items() if agent["bsuite"]}
    names = [*(("bsuite_radar.png", "bsuite_bars.png") if scored else ())]
    names += [*(atari_scores.FIGURES if summary["atari"] else ())]
    if not names:
        raise UserError("there are no runs on bsuite's ids or Atari's games to draw.")
    runs.make_folder(folder)
    for path in (folder / name for name in names):
        if path.exists() and not figures.is_ours(path):
            raise UserError(f"{path} is there already and not drawn by tdu; choose another folder for the figures.")
    paths = _bsuite_figures(scored, folder, published) if scored else []
    return [*paths, *(atari_scores.write_figures(summary["atari"], folder) if summary["atari"] else ())]


def _bsuite_figures(scored: dict[str, Any], folder: Path, published: bool) -> list[Path]:
    paths = [folder / "bsuite_radar.png", folder / "bsuite_bars.png"]
    figures.radar({name: s["tags"] for name, s in scored.items()}, paths[0])
    others = published_scores() if published else {}
    labels = {}
    for name in {name for s in scored.values() for name in s["scores"]}:
        run, every = min(s["settings"][name] for s in scored.values() if name in s["settings"])
        labels[name] = name.replace("_", " ") + (f" ({run} of {every})" if run < every else "")
    figures.bars({name: s["scores"] for name, s in scored.items()} | others, labels, paths[1], faint=tuple(others))
    return paths


def write_bsuite_csv(folder: Path, out: Path) -> int:
    """Every run on a bsuite id as bsuite's own CSV, in a folder for each agent and seed; how many."""
    written = set()
    for name, run in _told_apart(_read(folder)[0]):
        bsuite_id = bsuite_id_of(run.config.env)
        place = out / sweeps.file_name(f"{name}-seed{run.config.seed}")
        if bsuite_id is not None and run.log and (place, bsuite_id) not in written:
            bsuite_scores.write_csv(run.log, bsuite_id, place)
            written.add((place, bsuite_id))
    if not written:
        raise UserError(f"{folder} has no runs on bsuite's ids, so there are no logs to write.")
    return len(written)


def bsuite_id_of(env: str) -> str | None:
    """The official id of an environment, if it has one."""
    name = env.removeprefix("bsuite:")
    return name if re.fullmatch(r"[a-z_]+/\d+", name) else None


def _agent(envs: dict[str, dict[int, Found]], damaged: dict[str, str], notes: list[str]) -> dict[str, Any]:
    described = {env: _environment(seeds) for env, seeds in envs.items()}
    return {"environments": described, "bsuite": _bsuite(envs, damaged, notes)}


def _environment(seeds: dict[int, Found]) -> dict[str, Any]:
    results = {seed: run.result for seed, run in sorted(seeds.items()) if run.result is not None}
    means = [r.mean_return for r in results.values() if r.mean_return is not None]
    rates = [r.steps_per_second or 0.0 for r in results.values()]
    return {
        "seeds": len(seeds),
        "finished": len(results),
        "solved_episodes": {seed: r.solved_episode for seed, r in results.items() if r.has_solved_rule},
        "episodes": max((r.episodes for r in results.values()), default=0),
        "mean_return": float(np.mean(means)) if means else None,
        "steps_per_second": float(np.mean(rates)) if rates else None,
    }


def _scores(found: dict[str, Found], damaged: dict[str, str]) -> list[bsuite_scores.Score]:
    """Scores of runs by their bsuite ids; a log that bsuite's code cannot use is taken out and told."""
    try:
        return bsuite_scores.score_logs({bsuite_id: run.log for bsuite_id, run in found.items()})
    except UserError:
        for bsuite_id, run in [*found.items()]:
            try:
                bsuite_scores.score_logs({bsuite_id: run.log})
            except UserError as e:
                damaged[run.name] = str(e)
                del found[bsuite_id]
        return bsuite_scores.score_logs({bsuite_id: run.log for bsuite_id, run in found.items()})


def _bsuite(envs: dict[str, dict[int, Found]], damaged: dict[str, str], notes: list[str]) -> dict[str, Any] | None:
    """Mean over seeds of bsuite's scores. A task that was run under two names counts once, and that is noted."""
    logs: dict[int, dict[str, Found]] = {}
    for env, seeds in envs.items():
        bsuite_id = bsuite_id_of(env)
        for seed, run in seeds.items():
            if bsuite_id is not None and run.config.num_envs > 1:
                notes.append(f"{run.name} ran {run.config.num_envs} environments at once: bsuite's scores are of one.")
            elif bsuite_id is not None and run.log and len(run.log["episode"]):
                kept = logs.setdefault(seed, {}).setdefault(bsuite_id, run)
                if kept is not run:
                    notes.append(
                        f"{env} and {kept.config.env} are one task; its seed {seed} counts once in bsuite's scores, "
                        f"as {kept.name}."
                    )
    per_seed = [_scores(mine, damaged) for mine in logs.values()]
    by_name: dict[str, list[bsuite_scores.Score]] = {}
    for mine in per_seed:
        for score in mine:
            by_name.setdefault(score.experiment, []).append(score)
    if not by_name:
        return None
    known = {bsuite_id for mine in logs.values() for bsuite_id in mine}
    means = [scores[0]._replace(score=bsuite_scores.mean(s.score for s in scores)) for scores in by_name.values()]
    return {
        "scores": {mean.experiment: _or_none([mean.score]) for mean in means},
        "by_seed": {n: [_or_none([s.score]) for s in scores] for n, scores in by_name.items()},
        "every_episode": {
            n: _or_none(s.every_episode for s in scores if s.every_episode is not None)
            for n, scores in by_name.items()
            if n in bsuite.DEEP_SEAS
        },
        "finished": {n: all(s.finished for s in scores) for n, scores in by_name.items()},
        "settings": {n: [sum(i.startswith(f"{n}/") for i in ids) for ids in (known, bsuite.ids(n))] for n in by_name},
        "tags": {tag: _or_none([score]) for tag, score in bsuite_scores.by_tag(means).items()},
    }


def _solved_words(environment: dict[str, Any]) -> str:
    solved = list(environment["solved_episodes"].values())
    if not solved:
        return "–"
    words = [str(x or f">{environment['episodes']}") for x in solved]
    return f"{statistics.median_words(solved, environment['episodes'])} ({', '.join(words)})"


def _or_none(values: Iterable[float]) -> float | None:
    """The mean, or None where there is no number: JSON has no other word for it."""
    mean = bsuite_scores.mean(values)
    return None if math.isnan(mean) else mean


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
