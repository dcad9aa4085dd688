"""Ways to damage a run folder: change, remove, add or swap one file, or a whole checkpoint.

A mutation of bytes, of a JSON value or of a table cell takes the content and random numbers. It returns the new content and
a description.
"""

import contextlib
import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Files = dict[str, bytes]
"""A run's folder: path to content."""
Sweep = dict[str, Files]
"""Runs by name. Run "a" is damaged; "b" is another of the same kind, to swap with."""

WEIGHTS = {"config": 2, "log": 4, "learner log": 1, "manifest": 4, "tensors": 4, "result": 4, "checkpoint": 2}
"""How often a file of each class is damaged, as weights."""


class Damage(NamedTuple):
    """A mutation: the sweep after it, and its description."""

    sweep: Sweep
    file: str
    kind: str
    detail: str


def mutate(sweep: Sweep, finished: Sweep, rng: random.Random) -> Damage:
    """Damages one file of run a, swaps two, or damages a checkpoint. `finished` has results to add to runs without one."""
    sweep = {run: dict(files) for run, files in sweep.items()}
    classes: dict[str, list[str]] = {"checkpoint": [""], "result": ["result.json"]}
    for name in sweep["a"]:
        classes.setdefault(class_of(name), []).append(name)
    weights = {c: w for c, w in WEIGHTS.items() if c in classes}
    if "result.json" not in sweep["a"]:
        weights["result"] = 1
    chosen = rng.choices([*weights], [*weights.values()])[0]
    name = rng.choice(classes[chosen])
    if chosen == "checkpoint":
        kind = rng.choice([*CHECKPOINTS])
        return Damage(sweep, "checkpoint", kind, CHECKPOINTS[kind](sweep, rng))
    label = name
    if name.startswith("checkpoints/"):
        age = "newest" if Path(name).parts[1] == checkpoints(sweep["a"])[-1] else "older"
        label = f"{Path(name).name} ({age})"
    if name not in sweep["a"]:
        return Damage(sweep, label, "planted", planted(sweep, name, finished, rng))
    of_its_class = {"log": ["cell"] * 4, "learner log": ["cell"], "tensors": []}.get(chosen, [*JSON, *JSON])
    kinds = [*BYTES, *FILES, *of_its_class]
    kind, data = rng.choice(kinds), sweep["a"][name]
    if kind in FILES:
        return Damage(sweep, label, kind, FILES[kind](sweep, name, rng))
    if kind in JSON:
        value = json.loads(data)
        detail = JSON[kind](value, rng)
        sweep["a"][name] = (json.dumps(value, indent=2) + "\n").encode()
    else:
        sweep["a"][name], detail = (cell if kind == "cell" else BYTES[kind])(data, rng)
    assert sweep["a"][name] != data
    return Damage(sweep, label, kind, f"{name}: {detail}")


def class_of(name: str) -> str:
    """The class of a file of a run."""
    if name.startswith("checkpoints/"):
        return "manifest" if name.endswith(".json") else "tensors"
    known = {"config.json": "config", "log.csv": "log", "learner.csv": "learner log", "result.json": "result"}
    return known.get(name, "other")


def checkpoints(files: Files) -> list[str]:
    """The names of a run's checkpoints, oldest first."""
    names = {Path(name).parts[1] for name in files if name.startswith("checkpoints/")}
    return sorted(name for name in names if name.isdigit())


# Bytes.


def flipped(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Changes one to three bytes."""
    changed, words = bytearray(data), []
    for at in sorted(rng.sample(range(len(data)), min(rng.randint(1, 3), len(data)))):
        changed[at] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        words.append(f"byte {at} from {data[at]} to {changed[at]}")
    return bytes(changed), ", ".join(words)


def cut(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Cuts the end, often only a few bytes."""
    least = rng.choice((1, len(data) * 9 // 10, len(data) - 3))
    size = rng.randrange(max(least, 1), len(data))
    return data[:size], f"{size} of {len(data)} bytes"


def emptied(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Empties the file."""
    return b"", f"of {len(data)} bytes"


def extended(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Appends random bytes, white space, or the last line again."""
    kind = rng.choice(("rubbish", "zeros", "space", "again"))
    more = {
        "rubbish": rng.randbytes(rng.randint(1, 200)),
        "zeros": bytes(rng.randint(1, 4096)),
        "space": b"\n" * rng.randint(1, 3),
        "again": data.rstrip(b"\n").rpartition(b"\n")[2] + b"\n",
    }[kind]
    return data + more, f"{len(more)} bytes of {kind}"


def cell(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Changes a cell of a CSV file, rarely in its header."""
    rows = list(csv.reader(io.StringIO(data.decode())))
    line = 0 if rng.random() < 0.1 else rng.randrange(1, len(rows))
    at = rng.randrange(len(rows[line]))
    old = rows[line][at]
    news = ["", "nan", "inf", "-1", "1e400", "word", "0x1", "1_0", f"{old}1", f"-{old}", f"{old},{old}", f" {old}", '"']
    with contextlib.suppress(ValueError):
        news += [str(float(old) + 1), str(int(float(old)) + 1)] * 3
    rows[line][at] = rng.choice([new for new in news if new != old])
    end = "\n" if data.endswith(b"\n") else ""
    text = "\n".join(",".join(row) for row in rows) + end
    return text.encode(), f"row {line}, column {rows[0][at] if line else at}, from {old!r} to {rows[line][at]!r}"


BYTES = {"flipped": flipped, "cut": cut, "emptied": emptied, "extended": extended}


# JSON values.


def nodes(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any, Any]]:
    """Every place in a JSON value: its path, its container, and its key in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key), value, key
        yield from nodes(value[key], (*path, key))


def _one_of(places: list[tuple[tuple, Any, Any]], rng: random.Random) -> tuple[tuple, Any, Any]:
    """One of the places; half of the time one at the top level, where the run's own numbers are."""
    top = [place for place in places if len(place[0]) == 1]
    return rng.choice(top if top and rng.random() < 0.5 else places)


def _change(value: Any, rng: random.Random, fits: Callable[[Any], bool], new: Callable[[Any], Any]) -> str:
    places = [(path, holder, key) for path, holder, key in nodes(value) if fits(holder[key])]
    if not places:  # no value of that type
        return key_removed(value, rng)
    path, holder, key = _one_of(places, rng)
    old = holder[key]
    holder[key] = new(old)
    return f"{'.'.join(map(str, path))} from {json.dumps(old)[:80]} to {json.dumps(holder[key])[:80]}"


def number(value: Any, rng: random.Random) -> str:
    """Changes a number, a truth value or null."""

    def new(old: Any) -> Any:
        if isinstance(old, bool):
            return not old
        if old is None:
            return 1
        near = [old + 1, old - 1, old * 2 or 5, -old or 7, old + 0.5, 10**18, float("nan"), float("inf")]
        return rng.choice([x for x in near if x != old])

    return _change(value, rng, lambda x: x is None or isinstance(x, int | float), new)


def string(value: Any, rng: random.Random) -> str:
    """Changes a string."""

    def new(old: str) -> str:
        at = rng.randrange(len(old) or 1)
        letter = rng.choice([c for c in "0aZ:/=é" if c != old[at : at + 1]])
        return rng.choice((old + letter, old[:at] + letter + old[at + 1 :], "" if old else letter, f"{letter}{old}"))

    return _change(value, rng, lambda x: isinstance(x, str), new)


def other_type(value: Any, rng: random.Random) -> str:
    """Changes a value's type."""
    others = [None, True, "text", 7, 7.5, [], {}, [1], {"a": 1}]

    def new(old: Any) -> Any:
        return rng.choice([x for x in (str(old), *others) if type(x) is not type(old)])

    return _change(value, rng, lambda x: True, new)


def key_removed(value: Any, rng: random.Random) -> str:
    """Removes a key or an element."""
    path, holder, key = _one_of(list(nodes(value)), rng)
    del holder[key]
    return f"{'.'.join(map(str, path))} removed"


JSON = {"number": number, "string": string, "type": other_type, "key removed": key_removed}


# Whole files, in place.


def removed(sweep: Sweep, name: str, rng: random.Random) -> str:
    """Removes one file."""
    del sweep["a"][name]
    return name


def swapped_within(sweep: Sweep, name: str, rng: random.Random) -> str:
    """Swaps two files of the run."""
    files = sweep["a"]
    other = rng.choice([n for n in files if n != name and class_of(n) in WEIGHTS])
    files[name], files[other] = files[other], files[name]
    return f"{name} with {other}"


def swapped_between(sweep: Sweep, name: str, rng: random.Random) -> str:
    """Swaps two files of the same class between the runs."""
    a, b = sweep["a"], sweep["b"]
    same = [n for n in b if class_of(n) == class_of(name)]
    other = name if name in same else rng.choice(same)
    a[name], b[other] = b[other], a[name]
    return f"{name} with {other} of the other run"


def planted(sweep: Sweep, name: str, finished: Sweep, rng: random.Random) -> str:
    """Adds a file that only a finished run has."""
    run = rng.choice(("a", "b"))
    sweep["a"][name] = finished[run][name]
    return f"that of run {run} when it was over"


FILES = {"removed": removed, "swapped within": swapped_within, "swapped between": swapped_between}


# Whole checkpoints, in place.


def checkpoint_removed(sweep: Sweep, rng: random.Random) -> str:
    """Removes the newest checkpoint or the one before it."""
    checkpoint = rng.choice(checkpoints(sweep["a"])[-2:])
    for name in [name for name in sweep["a"] if f"/{checkpoint}/" in name]:
        del sweep["a"][name]
    return checkpoint


def checkpoints_renamed(sweep: Sweep, rng: random.Random) -> str:
    """Swaps the names of the last two checkpoints."""
    older, newest = checkpoints(sweep["a"])[-2:]
    exchange = {older: newest, newest: older}
    sweep["a"] = {
        re.sub(r"^checkpoints/(\d+)", lambda m: f"checkpoints/{exchange.get(m[1], m[1])}", name): data
        for name, data in sweep["a"].items()
    }
    return f"{older} with {newest}"


def checkpoint_swapped(sweep: Sweep, rng: random.Random) -> str:
    """Swaps a checkpoint with one of the other run."""
    ours, theirs = (rng.choice(checkpoints(sweep[run])[-2:]) for run in ("a", "b"))
    moved = {name: sweep["a"].pop(name) for name in [*sweep["a"]] if f"/{ours}/" in name}
    others = {name: sweep["b"].pop(name) for name in [*sweep["b"]] if f"/{theirs}/" in name}
    sweep["a"] |= {name.replace(theirs, ours): data for name, data in others.items()}
    sweep["b"] |= {name.replace(ours, theirs): data for name, data in moved.items()}
    return f"{ours} with {theirs} of the other run"


CHECKPOINTS = {"removed": checkpoint_removed, "renamed": checkpoints_renamed, "swapped between": checkpoint_swapped}
