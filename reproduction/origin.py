"""Where a row was made: the commit and the processor."""

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path


@functools.cache
def commit() -> str:
    """The commit of the code, with a + if it was changed since; without git, the version."""
    root = Path(__file__).resolve().parents[1]
    try:
        head = _git(root, "rev-parse", "--short=7", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--", "tdu") else "")
    except (OSError, subprocess.CalledProcessError):
        return f"v{metadata.version('tdu')}"


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@functools.cache
def processor() -> str:
    """The processor with its family and model. On another kind of processor the same seed gives another run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in fields:
        return platform.processor() or "unknown"
    kind = [f"{name.removeprefix('cpu ')} {fields[name]}" for name in ("cpu family", "model") if name in fields]
    return fields["model name"] + (f" ({', '.join(kind)})" if kind else "")
