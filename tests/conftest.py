"""One core per process, as the command line sets it, so that tests and command line compute the same numbers."""

from tdu.runners.parallel import use_one_core

use_one_core()
