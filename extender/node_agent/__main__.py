"""`python -m extender.node_agent`."""

import sys

from extender.node_agent.console import main

sys.exit(main(sys.argv[1:]))
