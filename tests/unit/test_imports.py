"""Modules import only from lower floors, and no private names of other modules."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "tdu"

FLOORS = (
    ("errors", "interrupts", "options", "types", "files", "memory", "random", "adam", "td", "metrics", "user_code"),
    ("networks", "theory", "replay"),
    ("values", "bonus", "behaviour"),
    ("agents",),
    ("environments",),
    ("run.runners", "run.trained", "run.agent_file"),
    ("run.folder",),
    ("run", "cluster"),
    ("report", "demo"),
    ("", "cli", "__main__"),
)
"""Floors of the package, lowest first. A module is on the floor of the longest of these names that is its prefix."""

FORBIDDEN = {"environments": ("agents",), "agents": ("environments",)}
"""In addition to the order, these two do not import each other."""

ALLOWED = {("cluster.sweep", "cli")}
"""Exception: a sweep's worker on another machine runs the command line."""

FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}


def room(module):
    """The name in `FLOORS` that a module belongs to."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in FLOOR:
            return name
    assert module == "", f"{module} is on no floor: add it to FLOORS"
    return ""


def source_of(module):
    path = ROOT.joinpath(*module.split(".")) if module else ROOT
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text())


def imported(tree):
    """(module, name in it or None, local name) of everything that a file imports from tdu."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tdu":
                    yield alias.name.removeprefix("tdu").removeprefix("."), None, alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written out in full"
            if node.module is not None and node.module.split(".")[0] == "tdu":
                module = node.module.removeprefix("tdu").removeprefix(".")
                for alias in node.names:
                    inner = f"{module}.{alias.name}".removeprefix(".")
                    called = alias.asname or alias.name
                    yield (inner, None, called) if source_of(inner) else (module, alias.name, called)


MODULES = dict(modules())


def upward(module, tree):
    own = room(module)
    for other, _, _ in imported(tree):
        theirs = room(other)
        up = FLOOR[theirs] > FLOOR[own] or theirs in FORBIDDEN.get(own, ())
        if up and (module, other) not in ALLOWED:
            yield other


def private(module, tree):
    """Names with a leading underscore that are used from another module."""
    here = {}
    for other, name, called in imported(tree):
        if name is None:
            here[called] = other
        elif name.startswith("_") and other != module:
            yield f"{other}.{name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in here:
            name = node.attr
            if name.startswith("_") and not name.startswith("__"):
                yield f"{here[node.value.id]}.{name}"


@pytest.mark.parametrize("module", MODULES, ids=[name or "tdu" for name in MODULES])
def test_a_module_takes_from_below_and_nothing_private(module):
    assert not list(upward(module, MODULES[module]))
    assert not list(private(module, MODULES[module]))


def test_what_points_upward_is_found():
    assert list(upward("values.dense", ast.parse("from tdu.agents import config"))) == ["agents.config"]
    assert list(upward("td", ast.parse("def f():\n    import tdu.run.runners.compiled"))) == ["run.runners.compiled"]
    assert list(upward("environments.python", ast.parse("from tdu import agents, options"))) == ["agents"]
    assert list(upward("agents.dqn", ast.parse("from tdu.environments.python import Seed"))) == ["environments.python"]
    assert list(upward("run.runners.rows", ast.parse("from tdu.run import train"))) == ["run.train"]
    assert not list(upward("run.runners.rows", ast.parse("from tdu.types import EnvSpec")))


def test_private_names_are_found():
    assert list(private("td", ast.parse("from tdu.random import _seed"))) == ["random._seed"]
    assert list(private("td", ast.parse("from tdu import random as r\nr._seed(r.key, r.__doc__)"))) == ["random._seed"]


def test_every_name_of_the_table_is_used_once():
    names = [name for names in FLOORS for name in names]
    assert len(names) == len(set(names))
    assert len(MODULES) > 60
