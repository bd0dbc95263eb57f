"""`python -m permit_gate`."""

import sys

from permit_gate.app import main

sys.exit(main(sys.argv[1:]))
