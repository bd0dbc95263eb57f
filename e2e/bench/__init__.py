"""The side-by-side benchmark: `python -m e2e.bench` (make bench)."""
