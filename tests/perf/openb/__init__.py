"""How much of a cluster's GPUs get work, by policy of placement: `python -m tests.perf.openb`."""
