"""`python -m extender.cli`."""

import sys

from extender.cli.console import main

sys.exit(main())
