"""Pages for users; two of them are generated (generate.py)."""
