"""Fixtures of the tests of live answers."""

from tests.web.asking import port, reader, world

__all__ = ["port", "reader", "world"]
