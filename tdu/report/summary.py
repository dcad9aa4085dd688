"""`tdu score`: the results of a folder of runs as a table and as JSON, with the scores of bsuite and of Atari."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tdu.errors import UserError
from tdu.files import Json
from tdu.report import atari_scores, bsuite_scores, bsuite_summary, figures
from tdu.report.collect import StoredRun, groups, read_run, with_budgets
from tdu.report.headline import headline, median, reached
from tdu.report.text import markdown_table, number_words
from tdu.run import folder as runs

Summary = Json


def summarise(folder: Path, target: float | None = None) -> Summary:
    """Results of the runs in a folder by agent; `damaged` has the reason for each run that cannot be used.

    `target` is an evaluation return; the step at which each seed first reached it is reported.
    """
    found, damaged, notes = _read(folder)
    by_agent: dict[str, dict[str, dict[int, StoredRun]]] = {}
    for (env, agent), some in groups(found).items():
        for seed in dict.fromkeys(run.config.seed for run in some):
            same = [run for run in some if run.config.seed == seed]
            kept = max(same, key=lambda run: (run.result is not None, len(run.log.get("episode", ()))))
            notes += [f"{run.name} is the same run as {kept.name} and is left out." for run in same if run is not kept]
            by_agent.setdefault(agent, {}).setdefault(env, {})[seed] = kept
    kept_runs = [run for run in found if by_agent[run.agent][run.config.env][run.config.seed] is run]
    described = {
        name: {
            "environments": {env: _environment(seeds, target) for env, seeds in envs.items()},
            "bsuite": bsuite_summary.summarise([r for seeds in envs.values() for r in seeds.values()], damaged, notes),
        }
        for name, envs in by_agent.items()
    }
    return {
        "runs": len(found),
        "unfinished": [run.name for run in found if run.result is None],
        "unchecked": [run.name for run in found if run.result is not None and run.result.log_sha256 is None],
        "damaged": damaged,
        "notes": notes,
        "target": target,
        "agents": described,
        "atari": atari_scores.summarise(kept_runs),
    }


def _read(folder: Path) -> tuple[list[StoredRun], dict[str, str], list[str]]:
    """The runs in a folder, the reason for each that cannot be used, and notes about the others."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder.")
    found, damaged, notes = list[StoredRun](), dict[str, str](), list[str]()
    for path in runs.find_runs(folder):
        try:
            run = read_run(path)
            _check_log(run)
        except UserError as e:
            damaged[path.name] = str(e)
            continue
        found.append(run)
        notes += [f"{path.name}: {note}" for note in run.notes]
    if not found and not damaged:
        if (Path(folder) / runs.CONFIG).exists():
            raise UserError(
                f"{folder} is a single run; give the folder that contains it, or use tdu evaluate {folder}."
            )
        raise UserError(f"{folder} has no runs in it.")
    return with_budgets(found), damaged, notes


def _check_log(run: StoredRun) -> None:
    if run.result is None and not run.log:
        return  # it has only just begun
    for name in bsuite_scores.COLUMNS:
        if name not in run.log:
            raise UserError(f"its log has no column {name}.")
        if not np.all(np.isfinite(run.log[name])):
            raise UserError(f"its log's column {name} has values that are not finite.")
    if run.result is not None and len(run.log["episode"]) != run.result.episodes:
        raise UserError(f"its log has {len(run.log['episode'])} of its {run.result.episodes} episodes.")


def as_text(summary: Summary, published: bool = False) -> str:
    """The summary as text with Markdown tables."""
    parts = []
    environments = list(dict.fromkeys(env for agent in summary["agents"].values() for env in agent["environments"]))
    if len(environments) <= 60 or not any(a["bsuite"] for a in summary["agents"].values()):
        parts.append(_environment_table(summary, environments))
    scored = {name: agent["bsuite"] for name, agent in summary["agents"].items() if agent["bsuite"]}
    if scored:
        parts += bsuite_summary.as_text(scored, with_published=published)
    if summary.get("atari"):
        parts += atari_scores.as_text(summary["atari"], published)
    parts += summary["notes"]
    if unchecked := summary["unchecked"]:
        whose = f"{unchecked[0]} was" if len(unchecked) == 1 else f"{len(unchecked)} of {summary['runs']} runs were"
        its = "its log" if len(unchecked) == 1 else "their logs"
        parts.append(f"{whose} written without checksums: {its} cannot be checked.")
    if summary["unfinished"]:
        parts.append(f"{len(summary['unfinished'])} of {summary['runs']} runs have not finished.")
    return "\n\n".join(parts)


def _environment_table(summary: Summary, environments: Sequence[str]) -> str:
    """A line for each agent on each environment; columns that apply to none are left out."""
    rows = []
    for env in environments:
        for name, agent in summary["agents"].items():
            if env in agent["environments"]:
                e = agent["environments"][env]
                row = {"environment": f"`{env}`", "agent": name, "seeds": str(e["seeds"])}
                row["evaluation return (95 %)"] = _interval_words(e["evaluation_return"])
                row["best"] = number_words(e["evaluation_return"]["best"])
                row["success rate"] = number_words(e["evaluation_return"]["success_rate"])
                if summary["target"] is not None:
                    row[f"steps to {summary['target']:g} (median)"] = _reached_words(e["first_reached_step"])
                row |= {"solved at (median)": _solved_words(e), "last-100 return": number_words(e["mean_return"])}
                rows.append(row)
    columns = [
        name for name in (rows[0] if rows else ()) if name == "last-100 return" or any(r[name] != "–" for r in rows)
    ]
    return markdown_table(columns, [[row[name] for name in columns] for row in rows])


def _interval_words(found: Json) -> str:
    interval = "" if found["low"] is None else f" ({found['low']:.3f} to {found['high']:.3f})"
    return number_words(found["mean"]) + interval


def _reached_words(steps: dict[int, int | None] | None) -> str:
    if steps is None:
        return "no evaluations"
    middle = median(steps.values())
    words = f"{middle:,.0f}" if np.isfinite(middle) else "not by half of the seeds"
    return f"{words} ({', '.join('no' if at is None else f'{at:,}' for at in steps.values())})"


def write_figures(summary: Summary, folder: Path, *, published: bool = False) -> list[Path]:
    """Draws bsuite's radar and bars and the learning curves of Atari games."""
    scored = {name: agent["bsuite"] for name, agent in summary["agents"].items() if agent["bsuite"]}
    names = [*(bsuite_summary.FIGURES if scored else ()), *(atari_scores.FIGURES if summary["atari"] else ())]
    if not names:
        raise UserError("there are no runs on bsuite's ids or on Atari games to draw.")
    runs.make_folder(folder)
    for path in (folder / name for name in names):
        if path.exists() and not figures.is_ours(path):
            raise UserError(f"{path} exists and was not drawn by tdu; choose another folder for the figures.")
    paths = bsuite_summary.write_figures(scored, folder, with_published=published) if scored else []
    return [*paths, *(atari_scores.write_figures(summary["atari"], folder) if summary["atari"] else ())]


def write_bsuite_csv(folder: Path, out: Path) -> int:
    """Writes every run on a bsuite id as bsuite's own CSV; returns their number."""
    count = bsuite_summary.write_csv(_read(folder)[0], out)
    if not count:
        raise UserError(f"{folder} has no runs on bsuite's ids; there are no logs to write.")
    return count


def _environment(seeds: dict[int, StoredRun], target: float | None) -> Json:
    results = {seed: run.result for seed, run in sorted(seeds.items()) if run.result is not None}
    means = [r.mean_return for r in results.values() if r.mean_return is not None]
    rates = [r.steps_per_second or 0.0 for r in results.values()]
    when = None if target is None else reached(list(seeds.values()), target)
    return {
        "seeds": len(seeds),
        "finished": len(results),
        "evaluation_return": headline(list(seeds.values()))._asdict(),
        "first_reached_step": when and when.by_seed,
        "solved_episodes": {seed: r.solved_episode for seed, r in results.items() if r.has_solved_rule},
        "episodes": max((r.episodes for r in results.values()), default=0),
        "mean_return": float(np.mean(means)) if means else None,
        "steps_per_second": float(np.mean(rates)) if rates else None,
    }


def _solved_words(environment: Json) -> str:
    solved = list(environment["solved_episodes"].values())
    if not solved:
        return "–"
    middle, never = median(solved), f">{environment['episodes']}"
    return f"{f'{middle:g}' if np.isfinite(middle) else never} ({', '.join(str(x or never) for x in solved)})"
