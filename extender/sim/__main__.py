"""`python -m extender.sim`."""

import sys

from extender.sim.console import main

sys.exit(main(sys.argv[1:]))
