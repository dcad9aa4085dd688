"""Writes docs/reference.md from the docstrings of everything in `tdu.__all__`, and from the agents' options.

    python docs/reference.py

A test compares the page with the output of this script.
"""

import inspect
import re
from pathlib import Path

import tdu
from tdu import agents
from tdu.options import describe

PAGE = Path(__file__).parent / "reference.md"


def page() -> str:
    """The page as it should be."""
    task = "After this page you know every public function of `import tdu` and every option."
    parts = ["# Reference", f"{task} `python docs/reference.py` makes it from the docstrings."]
    for name in sorted(tdu.__all__, key=str.lower):
        parts += _described(name, getattr(tdu, name))
    parts.append("## Options of the agents")
    parts.append("Defaults are the paper's; a preset changes some of them.")
    for words, presets in (("Preset", agents.PRESETS), ("Preset of agents with a memory", agents.RECURRENT_PRESETS)):
        for preset, options in presets.items():
            if options:
                changed = ", ".join(f"{name} {_text(value)}" for name, value in options.items())
                parts.append(f"{words} `{preset}`: {changed}.")
    for name, entry in agents.AGENTS.items():
        parts.append(f"### {name}")
        parts.append(entry.summary)
        lines = ["| option | kind | default | |", "|---|---|---|---|"]
        for option, kind, default, sentence in describe(entry.config):
            lines.append(f"| `{option}` | {kind.replace('|', ', ')} | {_text(default)} | {sentence} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _described(name: str, thing: object) -> list[str]:
    if not callable(thing):
        return []
    heading = f"## tdu.{name}"
    text = inspect.cleandoc(thing.__doc__ or "")
    if inspect.isclass(thing):
        methods = [m for m in vars(thing).values() if inspect.isfunction(m) and not m.__name__.startswith("_")]
        lines = [
            f"- `{m.__name__}{_signature(m)}`: {' '.join(inspect.cleandoc(m.__doc__ or '').split())}" for m in methods
        ]
        return [heading, text, *(["\n".join(lines)] if lines else [])]
    return [heading, f"```python\n{name}{_signature(thing)}\n```", f"```text\n{text}\n```"]


def _signature(function: object) -> str:
    """Its parameters and their defaults; types are in the code."""
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function (\w+) at [^>]*>", r"\1", text)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
