"""`tdu report`: one HTML page of runs, sweeps and results that opens from the disk and asks nothing of the network.

Its tables are written here, so that they can be read without a script; its charts are uPlot's, which is in the page, and its
maps are drawn by page/page.js. Every name is escaped.
"""

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from tdu import agents, files
from tdu.errors import UserError, writing
from tdu.report import page_data
from tdu.report.collect import Collected, Evidence, Shown, Table, collect
from tdu.report.page_parts import number_or_text, prose, section, table, title_of

_MOST_ROWS = 2000
_MOST_CONFIGS = 12
_MOST_CHARTS = 40
"""Environments with learning curves; others are in the tables."""


def save(folders: Sequence[Path], out: Path, title: str | None = None) -> dict[str, str]:
    """Writes the page of these folders; what is left out of it and why."""
    if out.is_dir():
        raise UserError(f"{out} is a folder; name a file, for example {out / 'report.html'}.")
    if out.exists() and b'id="data"' not in out.read_bytes():
        raise UserError(f"{out} is there already and is no page of tdu's; choose another --out.")
    collected = collect(folders)
    names = ", ".join(dict.fromkeys(path.resolve().name for path in folders))
    text = write(collected, title or f"tdu: {names}")
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(out, text.encode())
    return collected.left_out


def write(collected: Collected, title: str) -> str:
    """The page as a text."""
    grouped = page_data.groups(collected.runs)
    environments = dict.fromkeys(env for env, _ in grouped)
    sections, data = [_runs(collected.runs)], dict[str, Any](environments=[])
    begun = [run for run in collected.runs if len(run.log.get("episode", ()))]
    drawn = [run for run in begun if run.config.env in list(environments)[:_MOST_CHARTS]]
    places = page_data.points(drawn)
    for env in dict.fromkeys(run.config.env for run in drawn):
        mine = {agent: seeds for (other, agent), seeds in page_data.groups(drawn).items() if other == env}
        data["environments"].append({"name": env, **page_data.environment(mine, places)})
    data["maps"], data["strips"] = page_data.maps(collected.runs), page_data.strips(collected.runs)
    data["distributions"] = page_data.distributions(collected.runs)
    sections.insert(0, section("maps", "The frontier", _maps(collected.runs, data["maps"])))
    curves = "".join(_curves(i, env["name"]) for i, env in enumerate(data["environments"]))
    if len(environments) > _MOST_CHARTS:
        more = len(environments) - _MOST_CHARTS
        curves += (
            f'<p class="note">{more} more environments are in the tables alone; give them a page of their own.</p>'
        )
    sections.insert(1, section("curves", "Learning curves", curves))
    sections.append(section("heads", "Who acted when, and what it earned", _heads(collected.runs, data["strips"])))
    sections.append(section("distributions", "Bonus and TD error", _distributions(collected.runs, data)))
    sections.append(section("config", "Configurations", _configs(grouped)))
    sections += [_evidence(f"evidence-{i}", one) for i, one in enumerate(collected.evidence)]
    sections.append(section("missing", "What is missing", _missing(collected)))
    return _TEMPLATE.format(
        title=html.escape(title),
        chart_style=_file("uPlot.min.css"),
        style=_file("page.css"),
        content="\n".join(filter(None, sections)),
        data=_script_safe(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        library=_file("uPlot.iife.min.js"),
        licence=_file("LICENSE-uPlot.txt").replace("*/", ""),
        script=_file("page.js"),
    )


def _runs(shown: Sequence[Shown]) -> str:
    columns = ("environment", "agent", "seed", "state", "episodes", "steps", "solved at episode", "last return",
               "mean of the last returns", "greedy return", "seconds", "folder")  # fmt: skip
    rows = []
    for run in shown:
        result, log = run.result, run.log
        has_episodes = len(log.get("episode", ())) > 0
        last = float(log["episode_return"][-1]) if has_episodes and "episode_return" in log else None
        rows.append((
            run.config.env, run.agent, run.config.seed, run.state,
            int(log["episode"][-1]) if has_episodes else 0,
            result.steps if result else int(log["steps"][-1]) if has_episodes and "steps" in log else 0,
            _solved(run), last,
            result.mean_return if result else None,
            result.greedy_return.mean if result and result.greedy_return else None,
            result.seconds if result else None, run.name,
        ))  # fmt: skip
    return section("runs", "Runs", table(columns, rows, "runs")) if rows else ""


def _solved(run: Shown) -> int | str | None:
    if run.result is None or not run.result.has_solved_rule:
        return None
    return run.result.solved_episode or f"not within {run.result.episodes}"


def _lacking(shown: Sequence[Shown], what: str, *, only: tuple[str, ...] = ("",)) -> str:
    """Which runs were not recorded, on the environments that begin so, and why; but for runs that have not begun."""
    without = [
        run for run in shown if run.record is None and run.config.env.startswith(only) and len(run.log.get("episode", ()))
    ]  # fmt: skip
    words = ""
    for could, because in (
        (True, "trained without <code>--record</code>"),
        (False, "agents of this kind do not tell their heads' values"),
    ):
        count = sum(agents.find(run.config.agent).can_be_recorded is could for run in without)
        if count:
            have = "has" if count == 1 else "have"
            whose = "This run has" if len(shown) == 1 else f"{count} of {len(shown)} runs {have}"
            words += f'<p class="note">{whose} no {what}: {because}.</p>'
    return words


def _maps(shown: Sequence[Shown], maps: Sequence[dict[str, Any]]) -> str:
    words = _lacking(shown, "map", only=("deep_sea", "binary_tree"))
    if not maps:
        return words
    layers = dict.fromkeys(layer["name"] for one in maps for layer in one["layers"])
    options = "".join(f"<option>{html.escape(name)}</option>" for name in layers)
    pictures = "".join(
        f'<figure class="map" data-map="{i}"><figcaption>{html.escape(one["name"])}</figcaption>'
        f'<canvas role="img" aria-label="map of {html.escape(one["name"])}"></canvas>'
        '<p class="told" aria-live="off"></p><p class="cell"></p></figure>'
        for i, one in enumerate(maps)
    )
    return (
        '<div class="controls"><button type="button" id="play" aria-pressed="false">▶ play</button>'
        '<label class="wide">episode <output id="episode"></output>'
        '<input type="range" id="moment" min="0" value="0" step="1"></label>'
        f'<label>what <select id="layer">{options}</select></label></div>'
        '<div class="scale" aria-hidden="true"><span id="low"></span><canvas id="scale" height="12"></canvas>'
        '<span id="high"></span></div>'
        f'<div class="maps">{pictures}</div>'
        '<p class="note">Light cells are large, dark ones small, hatched ones nothing; the scale is logarithmic and the same '
        "for all maps. The line is the greedy path of the exploiters' mean, ★ the reward.</p>"
        f"{words}"
    )


def _curves(number: int, env: str) -> str:
    return (
        f'<figure class="curves" data-environment="{number}"><figcaption>{html.escape(env)}</figcaption>'
        '<div class="controls"><label>what <select class="metric"></select></label>'
        '<label>over <select class="axis"></select></label>'
        '<label><input type="checkbox" class="every" checked> every seed</label></div>'
        '<div class="chart"></div><div class="legend"></div><p class="note"></p></figure>'
    )


def _heads(shown: Sequence[Shown], strips: Sequence[dict[str, Any]]) -> str:
    if not strips:
        return ""
    options = "".join(f'<option value="{i}">{html.escape(s["name"])}</option>' for i, s in enumerate(strips))
    rows = [
        (run.agent, run.config.seed, run.config.env, row["role"], row["head"], row["episodes"], row["mean"], row["last"],
         row["best"])
        for run in shown[:200] if (told := page_data.heads(run)) is not None for row in told["rows"]
    ][:_MOST_ROWS]  # fmt: skip
    columns = ("agent", "seed", "environment", "role", "head", "episodes", "mean return", "mean of its last 20", "best")
    return (
        f'<div class="controls"><label>run <select id="strip">{options}</select></label></div>'
        '<figure><canvas id="who" role="img" aria-label="who acted when"></canvas><p class="told" id="who-told"></p>'
        '<div class="chart" id="earned"></div><div class="legend" id="earned-legend"></div></figure>'
        '<p class="note">A line for each head, exploiters (●) above explorers (○). A cell is as light as the mean return '
        "of the head's episodes in that time is large; an empty one had none.</p>" + table(columns, rows, "heads")
    )


def _distributions(shown: Sequence[Shown], data: dict[str, Any]) -> str:
    words = _lacking(shown, "distributions")
    if not data["distributions"]:
        return words
    charts = "".join(
        f'<figure class="distribution" data-run="{i}" data-kind="{html.escape(kind)}">'
        f"<figcaption>{html.escape(kind)}: {html.escape(one['name'])}</figcaption>"
        '<div class="chart"></div></figure>'
        for i, one in enumerate(data["distributions"])
        for kind in one["kinds"]
    )
    return (
        f'<div class="charts">{charts}</div><p class="note">Of transitions the agent remembers: the median, '
        f"the middle half, and nine tenths of them.</p>{words}"
    )


def _configs(grouped: dict[tuple[str, str], list[Shown]]) -> str:
    """Options in which groups differ, and folded away, all of them."""
    if not grouped:
        return ""
    if len(grouped) > _MOST_CONFIGS:  # then the agents, each on its first environment
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
    parts.append(f"<details><summary>every option</summary>{table(columns, rows, 'every option')}</details>")
    return "".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "no limit" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _evidence(name: str, its: Evidence) -> str:
    """An experiment: what its README says, with its figures, and its rows, folded away where there is a text."""
    title, text = title_of(its.text, f"Results: {its.name}")
    rows = [_rows(one) for one in its.tables]
    if its.text:
        names = (f"{one.name}: {len(one.rows)} rows" for one in its.tables)
        rows = [f"<details><summary>{html.escape(n)}</summary>{r}</details>" for n, r in zip(names, rows, strict=True)]
    return section(name, title, prose(text, its.figures, its.name) + "".join(rows))


def _rows(its: Table) -> str:
    rows = [[number_or_text(cell) for cell in row] for row in its.rows[:_MOST_ROWS]]
    more = len(its.rows) - len(rows)
    return table(its.columns, rows, its.name) + (f"<p>{more} more rows are in its file.</p>" if more else "")


def _missing(collected: Collected) -> str:
    items = [f"{name} is left out: {why}" for name, why in collected.left_out.items()]
    items += [f"{run.name}: {note}" for run in collected.runs for note in run.notes]
    items += [f"{one.name}: {note}" for one in collected.evidence for note in one.notes]
    for state in ("running", "cut off"):
        names = [run.name for run in collected.runs if run.state == state]
        if names:
            items.append(f"{state}, shown as of the last checkpoint: {', '.join(names)}")
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>" if items else ""


def _script_safe(text: str) -> str:
    """JSON that no name in it can end the script with."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _file(name: str) -> str:
    return (resources.files("tdu.report") / "page" / name).read_text()


_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{chart_style}</style>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1></header>
<main>
{content}
</main>
<script type="application/json" id="data">{data}</script>
<script>/* {licence} */
{library}</script>
<script>{script}</script>
</body>
</html>
"""
