"""`python -m extender.jobs`."""

import sys

from extender.jobs.app import main

sys.exit(main(sys.argv[1:]))
