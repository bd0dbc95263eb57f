"""The pure core: synchronous functions of (state, event, time).

No clock, no randomness, no I/O, no logging. Imports inside point one way (see pyproject.toml).
"""
