"""`tdu report`: one HTML page of runs, sweeps and results. It opens from the disk and makes no request to the network.

Tables are HTML, readable without a script. Charts are drawn by uPlot, which the page contains, and maps by page/page.js.
"""

import base64
import json
import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from tdu import agents, files
from tdu.errors import UserError, several, writing
from tdu.report import page_data, palette, readme
from tdu.report.collect import FILM, Collected, CsvTable, Results, StoredRun, collect, command, groups
from tdu.report.headline import Headline, first_as_good, headline, mastered, solved
from tdu.report.page_parts import escaped, number_or_text, section, table
from tdu.report.text import rounded
from tdu.run.consent import module_of
from tdu.run.folder.records import RECENT

_MAX_ROWS = 2000
_MAX_CONFIGS = 12
_MAX_CHARTS = 40  # Environments with learning curves; others are only in the tables
_MAX_HEADLINES = 24
_MAX_FILMS = 8

Groups = dict[tuple[str, str], list[StoredRun]]


def save(folders: Sequence[Path], out: Path, title: str | None = None) -> dict[str, str]:
    """Writes the page of these folders; returns the reason for each path that is left out."""
    if out.is_dir():
        raise UserError(f"{out} is a folder; name a file, for example {out / 'report.html'}.")
    if out.exists() and not _is_ours(out):
        raise UserError(f"{out} exists and is not a page of tdu report; choose another --out.")
    collected = collect(folders)
    names = ", ".join(dict.fromkeys(path.resolve().name for path in folders))
    text = write(collected, title or f"tdu: {names}")
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(out, text.encode())
    return collected.left_out


_SIGNED = (
    b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="tdu report">\n'
)
"""The beginning of every page. Other files are never overwritten."""


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as f:
        return f.read(len(_SIGNED)) == _SIGNED


def write(collected: Collected, title: str) -> str:
    shown, grouped = collected.runs, groups(collected.runs)
    colours = palette.assign(agent for _, agent in grouped)
    environments = list(dict.fromkeys(env for env, _ in grouped))
    drawn = [run for run in shown if run.has_episodes and run.config.env in environments[:_MAX_CHARTS]]
    data: page_data.Data = {
        "palette": list(palette.COLOURS.values()),
        "colours": {label: list(palette.COLOURS).index(agent) for label, agent in colours.items()},
        "environments": _environments(drawn),
        "maps": page_data.maps(shown),
        "strips": page_data.strips(shown),
        "distributions": page_data.distributions(shown),
    }
    sections = [
        section("headline", "Results", _headlines(grouped, colours)),
        section("films", "Films of the trained policy", _films(shown)),
        section("curves", "Learning curves", _curves(data["environments"], len(environments))),
        section("heads", "Acting heads and their returns", _heads(shown, data["strips"]) if data["strips"] else ""),
        section("maps", "Exploration frontier", _maps(data["maps"]) if data["maps"] else ""),
        section("distributions", "Bonus and TD error", _distributions(data["distributions"])),
        section("runs", "Runs", _runs(shown)),
        section("config", "Configurations", _configs(grouped) if grouped else ""),
        *(_results(f"results-{i}", one) for i, one in enumerate(collected.results)),
        section("missing", "Problems and missing data", _missing(collected)),
    ]
    return _file("page.html").format(
        title=escaped(title),
        chart_style=_file("uPlot.min.css"),
        style=_file("page.css"),
        content="\n".join(filter(None, sections)),
        data=_script_safe(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        library=_file("uPlot.iife.min.js"),
        licence=_file("LICENSE-uPlot.txt").replace("*/", ""),
        script=_file("page.js"),
    )


def _environments(drawn: Sequence[StoredRun]) -> list[page_data.Data]:
    places, by_env = page_data.points(drawn), dict[str, dict[str, list[StoredRun]]]()
    for (env, agent), seeds in groups(drawn).items():
        by_env.setdefault(env, {})[agent] = seeds
    return [{"name": env, **page_data.environment(by_agent, places)} for env, by_agent in by_env.items()]


def _headlines(grouped: Groups, colours: dict[str, str]) -> str:
    first = list(grouped.items())[:_MAX_HEADLINES]
    cards = [_card(env, agent, seeds, palette.COLOURS[colours[agent]]) for (env, agent), seeds in first]
    more = len(grouped) - len(cards)
    note = f'<p class="note">{more} more agents and environments are in the tables.</p>' if more else ""
    finished = [run for seeds in grouped.values() for run in seeds if run.result is not None]
    if finished and not any(run.film for run in finished):
        folder = finished[0].folder
        trust = ["--trust"] if module_of(finished[0].config.env) else []
        again = shlex.join(["tdu", "watch", str(folder), *trust, "--out", str(folder / FILM)])
        note += f'<p class="note">To add a film: <code>{escaped(again)}</code>, then make this page again.</p>'
    return f'<div class="cards">{"".join(cards)}</div>{note}' if cards else ""


def _card(env: str, agent: str, seeds: Sequence[StoredRun], colour: palette.Colour) -> str:
    found, mastery = headline(seeds), mastered(seeds)
    facts = (first_as_good(seeds), mastery or solved(seeds))
    lines = [f"{when.what}: {when}." for when in facts if when is not None]
    if found.best is not None and found.best != found.mean:
        lines.append(f"Best evaluation: {rounded(found.best)}.")
    if found.mean_length is not None:
        unit = "step" if found.mean_length == 1 else "steps"
        lines.append(f"Mean length of an evaluation episode: {rounded(found.mean_length)} {unit}.")
    lines += _values(seeds)
    unfinished = sum(run.result is None for run in seeds)
    if unfinished:
        lines.append(f"{unfinished} of {len(seeds)} runs are not finished.")
    again = command(seeds[0].config, [run.config.seed for run in seeds])
    dates = sorted({run.date for run in seeds})
    when_run = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    words = " ".join(f"<span>{escaped(word)}</span>" for word in (again or "").split(" "))
    code = f"<pre>{words}</pre>" if again else ""
    items = "".join(f"<li>{escaped(line)}</li>" for line in lines)
    return (
        f'<article class="card" style="--light:{colour.light};--dark:{colour.dark}"><h3>{escaped(agent)}</h3>'
        f'<p class="env">{escaped(env)}</p>{_returned(found, seeds)}<ul>{items}</ul>{code}'
        f'<p class="note">Run on {when_run}{_versions(seeds)}.</p></article>'
    )


def _versions(seeds: Sequence[StoredRun]) -> str:
    """The versions that finished runs were made with."""
    made_with = [one for run in seeds if run.result is not None for one in run.result.versions]
    names = ("tdu", "jax", "precision")
    words = dict.fromkeys(", ".join(f"{name} {one[name]}" for name in names if name in one) for one in made_with)
    return f" with {escaped('; '.join(words))}" if words else ""


def _returned(found: Headline, seeds: Sequence[StoredRun]) -> str:
    """The return of the trained policy, in large; of the last training episodes where there was no evaluation."""
    mean = found.mean
    label = f"evaluation return, {several(found.seeds, 'seed')}, {several(found.episodes, 'episode')}"
    if found.low is not None and found.high is not None:
        over = "seeds" if found.seeds > 1 else "episodes"
        label += f". 95 % interval over {over}: {rounded(found.low)} to {rounded(found.high)}"
    if found.success_rate is not None:
        label = f"success rate {rounded(100 * found.success_rate, 3)} %; {label}"
    if mean is None:
        means = [last for run in seeds if (last := run.last_return) is not None]
        mean = sum(means) / len(means) if means else None
        trained = f"training return of the last {RECENT} episodes, {several(len(means), 'seed')}"
        label = f"{trained}. There was no evaluation"
    return f'<p class="big">{"–" if mean is None else rounded(mean)}</p><p class="label">{label}.</p>'


def _values(seeds: Sequence[StoredRun]) -> list[str]:
    """Largest |Q| beside the return that rewards allow, of the seed with the largest |Q|."""
    found = [
        (run.result.largest_q, run.result.possible_return, run.log["largest_q"][0])
        for run in seeds
        if run.result is not None and run.result.largest_q is not None and run.result.possible_return is not None
        and len(run.log.get("largest_q", ()))
    ]  # fmt: skip
    if not found:
        return []
    largest, possible, first = max(found)
    if not any(allowed for _, allowed, _ in found):
        return [f"Largest |Q|: {rounded(largest, 3)}. No reward was found."]
    verdict = " The values have diverged." if largest > _DRIFT * max(possible, first) else ""
    return [f"Largest |Q|: {rounded(largest, 3)}; possible return: {rounded(possible, 3)}.{verdict}"]


_DRIFT = 10.0  # Values have diverged above this multiple of the possible return and of the first episode's largest |Q|


def _films(shown: Sequence[StoredRun]) -> str:
    filmed = [(escaped(page_data.title(run)), run.film) for run in shown if run.film is not None][:_MAX_FILMS]
    films = "".join(
        f'<figure><figcaption>{title}</figcaption><img class="film" alt="film of {title}" '
        f'src="data:image/gif;base64,{base64.b64encode(film).decode()}"></figure>'
        for title, film in filmed
    )
    return f'<div class="charts">{films}</div>' if films else ""


def _runs(shown: Sequence[StoredRun]) -> str:
    """A line for each run; columns that apply to no run are left out."""
    rows = []
    for run in shown:
        result, log, trained = run.result, run.log, run.trained_return
        row: page_data.Data = {"environment": run.config.env, "agent": run.agent, "seed": run.config.seed}
        row |= {"state": run.state, "episodes": int(log["episode"][-1]) if run.has_episodes else 0}
        row["steps"] = result.steps if result else int(log["steps"][-1]) if run.has_episodes and "steps" in log else 0
        row["evaluation return"] = trained and trained.mean
        row["best evaluation"] = run.best_return if run.evaluations else None
        row["success rate"] = trained and trained.success_rate
        row["evaluation length"] = trained and trained.mean_length
        for name, when in (("mastered at episode", mastered([run])), ("solved at episode", solved([run]))):
            row[name] = when and (when.by_seed[run.config.seed] or "no")
        row[f"last-{RECENT} return"] = run.last_return
        row |= {"largest |Q|": result and result.largest_q, "possible return": result and result.possible_return}
        rows.append(row | {"seconds": result and result.seconds, "folder": run.name})
    columns = [name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)]
    return table(columns, ([row[name] for name in columns] for row in rows), "runs") if rows else ""


def _not_recorded(shown: Sequence[StoredRun]) -> list[str]:
    """How many runs have no record, and why. An agent of the user's, whose code is not imported here, could have one."""
    without = [run.config.agent for run in shown if run.record is None and run.has_episodes]
    unable = sum(name in agents.AGENTS and not agents.AGENTS[name].can_be_recorded for name in without)
    reasons = {"trained without --record": len(without) - unable, "their agents cannot be recorded": unable}
    among = f"of {several(len(shown), 'run')} without maps and distributions"
    return [f"{count} {among}: {because}" for because, count in reasons.items() if count]


def _maps(maps: Sequence[page_data.Data]) -> str:
    layers = dict.fromkeys(layer["name"] for one in maps for layer in one["layers"])
    options = "".join(f"<option>{escaped(name)}</option>" for name in layers)
    pictures = "".join(
        f'<figure class="map" data-map="{i}"><figcaption>{escaped(one["name"])}</figcaption>'
        f'<canvas role="img" aria-label="map of {escaped(one["name"])}"></canvas>'
        '<p class="caption" aria-live="off"></p><p class="cell"></p></figure>'
        for i, one in enumerate(maps)
    )
    return (
        '<div class="controls"><button type="button" id="play" aria-pressed="false">▶ play</button>'
        '<label class="wide">episode <output id="episode"></output>'
        '<input type="range" id="moment" min="0" value="0" step="1"></label>'
        f'<label>layer <select id="layer">{options}</select></label></div>'
        '<div class="scale" aria-hidden="true"><span id="low"></span><canvas id="scale" height="12"></canvas>'
        '<span id="high"></span></div>'
        f'<div class="maps">{pictures}</div>'
        '<p class="note">Light cells have large values, dark cells small ones, hatched cells none. The scale is logarithmic '
        "and the same for all maps. The line is the greedy path of the exploiters' mean. ★ marks the reward.</p>"
    )


def _curves(environments: Sequence[page_data.Data], count: int) -> str:
    charts = "".join(
        f'<figure class="curves" data-environment="{number}"><figcaption>{escaped(env["name"])}</figcaption>'
        '<div class="controls"><label>y axis <select class="metric"></select></label>'
        '<label>x axis <select class="axis"></select></label>'
        '<label class="seeds"><input type="checkbox" class="every" checked> every seed</label></div>'
        '<div class="chart"></div><div class="legend"></div><p class="note"></p></figure>'
        for number, env in enumerate(environments)
    )
    more = count - _MAX_CHARTS
    note = (
        f'<p class="note">{more} more environments are only in the tables; make another page to see their curves.</p>'
    )
    return charts + (note if more > 0 else "")


def _heads(shown: Sequence[StoredRun], strips: Sequence[page_data.Data]) -> str:
    options = "".join(f'<option value="{i}">{escaped(s["name"])}</option>' for i, s in enumerate(strips))
    names = {"role": "role", "head": "head", "episodes": "episodes", "mean": "mean return", "last": "last-20 return"}
    names |= {"best": "best return"}
    rows = [
        (run.agent, run.config.seed, run.config.env, *(row[name] for name in names))
        for run in shown[:200] if (heads := page_data.heads(run)) is not None for row in heads["rows"]
    ][:_MAX_ROWS]  # fmt: skip
    columns = ("agent", "seed", "environment", *names.values())
    return (
        f'<div class="controls"><label>run <select id="strip">{options}</select></label></div>'
        '<figure><canvas id="who" role="img" aria-label="which head acted when"></canvas>'
        '<p class="caption" id="who-caption"></p>'
        '<div class="chart" id="earned"></div><div class="legend" id="earned-legend"></div></figure>'
        '<p class="note">One row per head: exploiters (●) above explorers (○). Lighter cells have a higher mean return. '
        "In empty cells the head did not act.</p><details><summary>table of all heads</summary>"
        f"{table(columns, rows, 'heads')}</details>"
    )


def _distributions(distributions: Sequence[page_data.Data]) -> str:
    charts = "".join(
        f'<figure class="distribution" data-run="{i}" data-kind="{escaped(kind)}">'
        f"<figcaption>{escaped(kind)}: {escaped(one['name'])}</figcaption>"
        '<div class="chart"></div></figure>'
        for i, one in enumerate(distributions)
        for kind in one["kinds"]
    )
    note = '<p class="note">Over transitions from the replay: the median, the middle 50 % and the middle 90 %.</p>'
    return f'<div class="charts">{charts}</div>{note}' if charts else ""


def _configs(grouped: Groups) -> str:
    """A table of the options in which groups differ, and one of all options, folded."""
    if len(grouped) > _MAX_CONFIGS:  # each agent on its first environment
        grouped = {key: seeds for key, seeds in grouped.items() if key == next(k for k in grouped if k[1] == key[1])}
    configs = {}
    for (env, agent), seeds in grouped.items():
        config = seeds[0].config
        limits = {"environment": env, "agent": config.agent, "episodes": config.episodes, "steps": config.steps}
        limits |= {"num_envs": config.num_envs, "until": config.until, "seeds": len(seeds)}
        configs[f"{agent} on {env}"] = limits | config.config
    names = dict.fromkeys(name for config in configs.values() for name in config)
    rows = [(name, *(_words(config.get(name, "")) for config in configs.values())) for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    columns = ("option", *configs)
    parts = [table(columns, differing, "differences")] if differing else []
    parts.append(f"<details><summary>all options</summary>{table(columns, rows, 'all options')}</details>")
    return "".join(parts)


def _words(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "no limit" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _results(name: str, its: Results) -> str:
    """An experiment: its README with figures, and its CSV files, folded where there is a README."""
    title, text = readme.render(its.text, its.figures, its.name)
    rows = [_rows(one) for one in its.tables]
    if its.text:
        names = (f"{one.name}: {several(len(one.rows), 'row')}" for one in its.tables)
        rows = [f"<details><summary>{escaped(n)}</summary>{r}</details>" for n, r in zip(names, rows, strict=True)]
    return section(name, title or f"Results: {its.name}", text + "".join(rows))


def _rows(its: CsvTable) -> str:
    rows = [[number_or_text(cell) for cell in row] for row in its.rows[:_MAX_ROWS]]
    more = len(its.rows) - len(rows)
    return table(its.columns, rows, its.name) + (f"<p>{more} more rows are in the file.</p>" if more else "")


def _missing(collected: Collected) -> str:
    items = [f"{name} is left out: {why}" for name, why in collected.left_out.items()]
    items += [f"{run.name}: {note}" for run in collected.runs for note in run.notes]
    items += [f"{one.name}: {note}" for one in collected.results for note in one.notes]
    items += _not_recorded(collected.runs)
    for state in ("running", "interrupted"):
        names = [run.name for run in collected.runs if run.state == state]
        if names:
            items.append(f"{state}, shown as of the last checkpoint: {', '.join(names)}")
    return "<ul>" + "".join(f"<li>{escaped(item)}</li>" for item in items) + "</ul>" if items else ""


def _script_safe(text: str) -> str:
    """JSON in which no name can end the script element."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _file(name: str) -> str:
    return (resources.files("tdu.report") / "page" / name).read_text("utf-8")
