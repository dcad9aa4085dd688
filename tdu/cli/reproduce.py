"""`tdu reproduce`: the paper's figures. The experiments are in the repository, not in the installed package."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from tdu.errors import UserError

PACKAGE = "reproduction"


def run(words: Sequence[str]) -> int:
    """Runs the command of the experiments, which are beside the package or in the current folder."""
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (root / PACKAGE / "__init__.py").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            parsed = importlib.import_module(f"{PACKAGE}.arguments").parse(words)
            return int(importlib.import_module(f"{PACKAGE}.command").run(parsed))  # imports JAX
    raise UserError(
        "the experiments are in tdu's repository, not in the installed package; clone it and run this command there."
    )
