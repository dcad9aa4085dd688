"""What a folder of runs amounts to: a table for people, the same for machines, bsuite's scores where its ids were run."""

import csv
import dataclasses
import math
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tdu import agents, runs, sweeps
from tdu.errors import UserError
from tdu.reporting import bsuite_scores, figures

Summary = dict[str, Any]


def summarise(folder: Path) -> Summary:
    """Everything about the runs in a sweep's folder, by agent."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder.")
    found = list(sweeps.found(folder))
    if not found:
        raise UserError(f"{folder} has no runs in it.")
    by_agent: dict[str, dict[str, dict[int, Any]]] = {}
    for path, config, result in found:
        by_agent.setdefault(label(config), {}).setdefault(config["env"], {})[config["seed"]] = (path, config, result)
    return {
        "runs": len(found),
        "unfinished": [path.name for path, _, result in found if result is None],
        "agents": {name: _agent(envs) for name, envs in by_agent.items()},
    }


def label(config: dict[str, Any]) -> str:
    """The agent's name, and every option that is not its default."""
    default = dataclasses.asdict(agents.configure(config["agent"], {}))
    changed = {k: v for k, v in config["config"].items() if k in default and v != _listed(default[k])}
    words = (f"{k}={'x'.join(map(str, v)) if isinstance(v, list) else v}" for k, v in changed.items())
    return " ".join((config["agent"], *words))


def as_text(summary: Summary, published: bool = False) -> str:
    """The table for people."""
    parts = []
    environments = list(dict.fromkeys(env for agent in summary["agents"].values() for env in agent["environments"]))
    if len(environments) <= 60 or not any(a["bsuite"] for a in summary["agents"].values()):
        lines = ["| environment | agent | seeds | solved at (median) | mean return |", "|---|---|---|---|---|"]
        for env in environments:
            for name, agent in summary["agents"].items():
                if env in agent["environments"]:
                    e = agent["environments"][env]
                    cells = [f"`{env}`", name, str(e["seeds"]), _solved_words(e), _number(e["mean_return"])]
                    lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    scored = {name: agent["bsuite"] for name, agent in summary["agents"].items() if agent["bsuite"]}
    if scored:
        columns = {name: s["scores"] for name, s in scored.items()} | (published_scores() if published else {})
        for kind, rows in (
            ("experiment", figures.ORDER),
            ("tag", sorted({t for s in scored.values() for t in s["tags"]})),
        ):
            if kind == "tag":
                columns = {name: s["tags"] for name, s in scored.items()}
            lines = [f"| bsuite {kind} | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)]
            for row in rows:
                if any(row in s[f"{'scores' if kind == 'experiment' else 'tags'}"] for s in scored.values()):
                    cells = [_number(values.get(row)) for values in columns.values()]
                    unfinished = kind == "experiment" and any(not s["finished"].get(row, True) for s in scored.values())
                    lines.append(f"| {row}{' *' if unfinished else ''} | " + " | ".join(cells) + " |")
            parts.append("\n".join(lines))
        if any(not all(s["finished"].values()) for s in scored.values()):
            parts.append("\\* not all episodes of all its settings have been run")
    if summary["unfinished"]:
        parts.append(f"{len(summary['unfinished'])} of {summary['runs']} runs have not finished.")
    return "\n\n".join(parts)


def published_scores() -> dict[str, dict[str, float]]:
    """Scores that others have published, by agent and experiment."""
    with open(Path(__file__).parent / "published_bsuite.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    names = [n for n in rows[0] if n != "experiment"]
    return {f"{n} (published)": {r["experiment"]: float(r[n]) for r in rows if r[n]} for n in names}


def write_figures(summary: Summary, folder: Path, *, published: bool = False) -> list[Path]:
    """Radar and bars of bsuite's scores."""
    scored = {name: agent["bsuite"] for name, agent in summary["agents"].items() if agent["bsuite"]}
    if not scored:
        raise UserError("there are no runs on bsuite's ids to draw.")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "bsuite_radar.png", folder / "bsuite_bars.png"]
    figures.radar({name: s["tags"] for name, s in scored.items()}, paths[0])
    others = published_scores() if published else {}
    figures.bars({name: s["scores"] for name, s in scored.items()} | others, paths[1])
    return paths


def write_bsuite_csv(folder: Path, out: Path) -> int:
    """Every run on a bsuite id as bsuite's own CSV, in a folder for each agent and seed; how many."""
    count = 0
    for path, config, _ in sweeps.found(folder):
        bsuite_id = bsuite_id_of(config["env"])
        if bsuite_id is not None:
            place = out / re.sub(r"[^A-Za-z0-9=.,_]", "-", f"{label(config)}-seed{config['seed']}")
            bsuite_scores.write_csv(runs.read_log(path / "log.csv"), bsuite_id, place)
            count += 1
    return count


def bsuite_id_of(env: str) -> str | None:
    """The official id of an environment, if it has one."""
    name = env.removeprefix("bsuite:")
    return name if re.fullmatch(r"[a-z_]+/\d+", name) else None


def _agent(envs: dict[str, dict[int, Any]]) -> dict[str, Any]:
    return {"environments": {env: _environment(seeds) for env, seeds in envs.items()}, "bsuite": _bsuite(envs)}


def _environment(seeds: dict[int, Any]) -> dict[str, Any]:
    results = {seed: result for seed, (_, _, result) in sorted(seeds.items()) if result is not None}
    solved = {seed: r["solved_episode"] for seed, r in results.items() if "solved_episode" in r}
    return {
        "seeds": len(seeds),
        "finished": len(results),
        "solved_episodes": solved,
        "episodes": max((r["episodes"] for r in results.values()), default=0),
        "mean_return": statistics.fmean(r["mean_return"] for r in results.values()) if results else None,
        "steps_per_second": statistics.fmean(r["steps_per_second"] or 0 for r in results.values()) if results else None,
    }


def _bsuite(envs: dict[str, dict[int, Any]]) -> dict[str, Any] | None:
    """Mean over seeds of bsuite's scores."""
    logs: dict[int, dict[str, Any]] = {}
    for env, seeds in envs.items():
        bsuite_id = bsuite_id_of(env)
        if bsuite_id is None:
            continue
        for seed, (path, _, _) in seeds.items():
            try:
                logs.setdefault(seed, {})[bsuite_id] = runs.read_log(path / "log.csv")
            except UserError as e:
                raise UserError(f"{path.name}: {e}") from None
    if not logs:
        return None
    per_seed = [bsuite_scores.score_logs(mine) for mine in logs.values()]
    names = sorted({s.experiment for scores in per_seed for s in scores})
    scores = {n: _or_none(s.score for mine in per_seed for s in mine if s.experiment == n) for n in names}
    finished = {n: all(s.finished for mine in per_seed for s in mine if s.experiment == n) for n in names}
    tags = [bsuite_scores.by_tag(mine) for mine in per_seed]
    every_tag = sorted({t for mine in tags for t in mine})
    return {
        "scores": scores,
        "finished": finished,
        "tags": {t: _or_none(mine[t] for mine in tags if t in mine) for t in every_tag},
    }


def _solved_words(environment: dict[str, Any]) -> str:
    solved = list(environment["solved_episodes"].values())
    if not solved:
        return "–"
    words = [str(x or f">{environment['episodes']}") for x in solved]
    middle = sorted(solved, key=lambda x: x or 10**9)[(len(solved) - 1) // 2]
    return f"{middle or '>' + str(environment['episodes'])} ({', '.join(words)})"


def _or_none(values: Iterable[float]) -> float | None:
    """The mean, or None where there is no number: JSON has no other word for it."""
    mean = bsuite_scores.mean(values)
    return None if math.isnan(mean) else mean


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
