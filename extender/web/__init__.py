"""Serves HTTP. `serve` and what it needs is shared with the permit gate; the rest is the extender's."""
