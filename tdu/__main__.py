"""`python -m tdu`."""

import sys

from tdu.cli import main

sys.exit(main())
