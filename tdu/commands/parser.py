"""What every command reads its arguments with: a mistake is a `UserError`, one sentence."""

import argparse
from typing import NoReturn

from tdu.errors import UserError


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help.")
