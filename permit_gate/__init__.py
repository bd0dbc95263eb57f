"""Muster's permit gate: holds bind calls until a whole group can be bound."""
