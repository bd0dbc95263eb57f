"""Traces replayed: the same jobs on the same hosts under our engine and gate, and under models of others. Simulated."""
