"""What every command reads its arguments with: a mistake is a `UserError`, one sentence."""

import argparse
from pathlib import Path
from typing import NoReturn

from tdu.errors import UserError


def folder(text: str) -> Path:
    """The type of an argument that names a folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty name is no folder")
    return Path(text)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help.")
