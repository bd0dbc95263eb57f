"""`python -m extender`."""

import sys

from extender.app import main

sys.exit(main(sys.argv[1:]))
