"""Hooks of mkdocs for the documentation site (`make docs`, mkdocs.yml).

Pages keep their place in the repository, so a link works both there and on the site. The notebook, linked Python files and
the pages under reference/ become Markdown while the site is built. The reference comes from docstrings and options alone.
"""

import inspect
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

import tdu
from tdu import agents, theory
from tdu.options import describe

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
MODULES = ("td", "bonus", "behaviour", "types", "environments")


def on_config(config: MkDocsConfig) -> None:
    """Headings get the anchors that GitHub gives them."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> None:
    """The pages of the navigation, and every file of the repository that they link to."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    waiting, seen = [*_paths(config.nav), *(css for css in map(str, config.extra_css) if (ROOT / css).exists())], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text = _generated(path)
        if text is None:
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        else:
            files.append(File.generated(config, path, content=text))
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8") if text is None else text
            targets = {
                posixpath.normpath(posixpath.join(posixpath.dirname(path), _target(t))) for t in LINK.findall(text)
            }
            waiting += [t for t in targets if (ROOT / t).is_file() or _generated(t) is not None]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to Python files and to the notebook lead to their pages."""
    return LINK.sub(lambda link: _target(link[0]), markdown)


def _target(link: str) -> str:
    return re.sub(r"\.(py|ipynb)$", ".md", link)


def _paths(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _paths(part)


def _generated(path: str) -> str | None:
    """The text of a page that is no Markdown file of the repository."""
    if path.startswith("reference/"):
        return reference(Path(path).stem)
    stem = (ROOT / path).with_suffix("")
    if path.endswith(".md") and not (ROOT / path).exists():
        if stem.with_suffix(".ipynb").exists():
            return notebook(stem.with_suffix(".ipynb"))
        if stem.with_suffix(".py").exists():
            return f"# {path[:-3]}.py\n\n```python\n{stem.with_suffix('.py').read_text(encoding='utf-8')}```\n"
    return None


def notebook(path: Path) -> str:
    """A notebook as Markdown: its text and its code, without outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = (("".join(cell["source"]), cell["cell_type"]) for cell in cells)
    return "\n\n".join(f"```python\n{text}\n```" if kind == "code" else text for text, kind in texts)


def reference(name: str) -> str:
    """A page of the reference: `tdu`, `options`, `theory` or one of `MODULES`."""
    if name == "options":
        return options()
    if name == "tdu":
        names = [f"tdu.{n}" for n in sorted(tdu.__all__, key=str.lower) if not inspect.ismodule(getattr(tdu, n))]
        return "# import tdu\n\n" + "".join(f"::: {n}\n\n" for n in names)
    if name == "theory":
        modules = {n for n in theory.__all__ if inspect.ismodule(getattr(theory, n))}
        names = [f"tdu.theory.{n}" for n in theory.__all__ if n not in modules]
        return "# tdu.theory\n\n" + "".join(
            f"::: {n}\n\n" for n in [*names, *(f"tdu.theory.{m}" for m in sorted(modules))]
        )
    assert name in MODULES, f"mkdocs.yml names reference/{name}.md, and docs/site.py makes no such page"
    shown = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    return f"# tdu.{name}\n\n::: tdu.{name}\n{shown}"


def options() -> str:
    """Every option of every agent, and what the presets change."""
    parts = ["# Options of the agents", "`tdu train --agent NAME --help` prints the same. Defaults are the paper's."]
    for words, presets in (("Preset", agents.PRESETS), ("Preset of agents with memory", agents.RECURRENT_PRESETS)):
        for preset, changed in presets.items():
            if changed:
                values = ", ".join(f"`{name}` {_text(value)}" for name, value in changed.items())
                parts.append(f"{words} **{preset}**: {values}.")
    for name, entry in agents.AGENTS.items():
        lines = ["| option | kind | default | |", "|---|---|---|---|"]
        for option, kind, default, sentence in describe(entry.config):
            lines.append(f"| `{option}` | {kind.replace('|', ', ')} | {_text(default)} | {sentence} |")
        parts += [f"## {name}", entry.summary, "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
