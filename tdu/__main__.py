"""`python -m tdu`."""

from tdu.cli import run_and_exit

run_and_exit()
