"""The page of an experiment: claims with verdicts, rule, figures, tables, command, every run. Made from rows alone.

A page has the number of rows of each file that it was made from. Rows are only added to files, so a later state of the files
can make the same page again, bit for bit.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from reproduction import catalogue, drawing, reproduce
from reproduction import rows as tables
from reproduction.arguments import PRESETS
from reproduction.experiment import Findings, Verdict, select
from reproduction.reproduce import RowsByExperiment
from reproduction.rows import RunRow
from tdu import files
from tdu.environments import TWIN, parse
from tdu.errors import UserError, writing
from tdu.run import folder as run_folder
from tdu.run.sweeps import Cell

PAGE = "README.md"
_MADE_FROM = re.compile(r"<!-- (laptop|paper), rows: (\{.*\}) -->")


def write(name: str, preset: str, every: RowsByExperiment, folder: Path) -> Mapping[str, Verdict]:
    """Writes an experiment's page and figures into its folder; returns the verdicts."""
    grid = catalogue.grids()[name]
    findings = grid.report(reproduce.all_rows(every))
    text = _page(name, preset, every, findings)
    run_folder.make_folder(folder)
    drawing.save(findings.figures, folder)
    with writing(folder / PAGE):
        files.write_atomically(folder / PAGE, text.encode())
    return findings.verdicts


def made_from(page: Path) -> tuple[str, dict[str, int]]:
    """The preset of a page and how many rows of each experiment it was made from."""
    found = _MADE_FROM.search(page.read_text())
    if found is None:
        raise UserError(f"{page} is not a page of tdu reproduce.")
    return found.group(1), json.loads(found.group(2))


def _page(name: str, preset: str, every: RowsByExperiment, findings: Findings) -> str:
    grid, verdicts = catalogue.grids()[name], findings.verdicts
    rows = reproduce.all_rows(every)
    cells = grid.all_cells(preset, rows)
    used = select(rows, cells)
    claims = [
        f"- **{claim}: {verdicts[claim].word}.**\n    - *Claim:* {_sentence(words)}\n    - *Result:* "
        + _sentence(verdicts[claim].because)
        for claim, words in grid.claims.items()
    ]
    counts = {other: len(those) for other, those in every.items() if those}
    parts = [
        f"<!-- {preset}, rows: {json.dumps(counts, sort_keys=True)} -->",
        f"# {name}",
        _sentence(grid.summary),
        "\n".join(claims),
        f"*Rule:* {_sentence(grid.rules)} [All rules](../RULES.md).",
        findings.body,
        _commands(name, preset),
        _folded("Every run", findings.details),
        _folded("The grid and the missing runs", _grid_words(name, preset, cells, used)),
        _folded("Where the rows come from", _rows_words(name, used, findings.shown, every)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commands(name: str, preset: str) -> str:
    """How the missing runs and the page are made."""
    command = f"tdu reproduce {name}" + (f" --preset {preset}" if preset != "laptop" else "")
    lines = [
        f"{command}            # makes the missing runs",
        f"{command} --pages    # makes this page again from the rows",
    ]
    return "\n".join(["```", *lines, "```"])


def _grid_words(name: str, preset: str, cells: Sequence[Cell], used: Sequence[RunRow]) -> str:
    total = len(dict.fromkeys(map(tables.identity, cells)))
    words = [f"Preset `{preset}`, {PRESETS[preset]}: {len(used)} of {total} runs are done."]
    if preset == "laptop":
        words.append(f"The preset `paper` has more runs. This one leaves out {catalogue.grids()[name].left_out}")
    there = {row.identity for row in used}
    lacking = [cell for cell in cells if tables.identity(cell) not in there]
    if lacking:
        words.append("Missing runs:\n\n" + "\n".join(_lines(lacking)))
    return " ".join(words)


def _lines(cells: Sequence[Cell]) -> list[str]:
    """The missing runs, one line for all settings of an agent that lack the same runs."""
    groups: dict[tuple[str, str], dict[str, list[int]]] = {}
    for cell in dict.fromkeys(cells):
        kind, size = reproduce.kind(cell.env)
        preset = "" if cell.preset == "paper" else cell.preset
        agent = " ".join(filter(None, (cell.agent, preset, cell.options_text)))
        env_id = parse(cell.env)
        place = env_id.name.rpartition("/")[2] if env_id.source in (TWIN, "atari") else f"{size:g}"
        groups.setdefault((agent, kind), {}).setdefault(place, []).append(cell.seed)
    agents: dict[tuple[str, str, str], list[str]] = {}
    for (agent, kind), places in groups.items():
        by_seeds: dict[str, list[str]] = {}
        for place, seeds in places.items():
            by_seeds.setdefault(_span(seeds), []).append(place)
        words = "; ".join(f"{', '.join(where)} (seed {seeds})" for seeds, where in by_seeds.items())
        name, _, changed = agent.partition(" ")
        agents.setdefault((name, kind, words), []).append(changed or "defaults")
    return [
        f"- {name} ({'; '.join(changed) if len(changed) <= 4 else f'{len(changed)} settings'}) on `{kind}`: {words}"
        for (name, kind, words), changed in agents.items()
    ]


def _span(seeds: Sequence[int]) -> str:
    ordered = sorted(set(seeds))
    whole = len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{ordered[0]}–{ordered[-1]}" if whole else ", ".join(map(str, ordered))


def _rows_words(name: str, used: Sequence[RunRow], shown: Sequence[RunRow], every: RowsByExperiment) -> str:
    """Files, machines and commits of the rows, and the runs that two machines have made."""
    in_grid = {row.identity for row in used}
    more = [row for row in shown if row.identity not in in_grid]
    used = [*used, *more]
    if not used:
        return f"There are no runs yet; `results/{name}/runs.csv` will have a line per run."
    own = {row.identity for row in every.get(name, ())}
    file_of = {id(row): other for other, those in every.items() for row in those}
    shared = Counter(file_of[id(row)] for row in used if row.identity not in own)
    words = [f"`results/{name}/runs.csv` has a line per run." if own else "All runs are rows of other experiments."]
    if more:
        words.append(f"Tables and figures also show {len(more)} runs with seeds outside the grid.")
    if shared:
        words.append("Shared: " + ", ".join(f"{n} of `results/{o}/runs.csv`" for o, n in sorted(shared.items())) + ".")
    machines = Counter(row.processor or "unknown" for row in used)
    words.append("Processors: " + ", ".join(f"{m} ({n})" for m, n in sorted(machines.items())) + ".")
    words.append(f"Commits: {', '.join(sorted({row.commit or 'unknown' for row in used}))}.")
    identities = {row.identity for row in used}
    twice = sum(row.identity in identities for those in every.values() for row in those) - len(identities)
    if twice:
        words.append(
            f"{twice} of these runs were made again on another kind of machine, where the same seed gives another run. The "
            "row that was added first counts."
        )
    return " ".join(words)


def _folded(title: str, words: str) -> str:
    """A part of the page that a click opens."""
    return f"<details>\n<summary>{title}</summary>\n\n{words}\n\n</details>" if words else ""


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?")) else ".")
