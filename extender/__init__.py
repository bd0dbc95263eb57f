"""Muster's extender: decides which pods may start, where, and says why."""

__version__ = "0.1.0"
