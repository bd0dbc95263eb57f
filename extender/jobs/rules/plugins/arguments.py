"""Arguments of plugins: `--name=value`, `--name value` and `--flag`, with one dash or two.

Takes the texts, gives the value of a name; must not refuse names that it does not know: they are of newer plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

_TRUE = ("true", "t", "1")
_FALSE = ("false", "f", "0")


def text_of(arguments: Sequence[str], name: str, otherwise: str) -> str:
    """The last value given for a name."""
    found = otherwise
    for place, argument in enumerate(arguments):
        key, equals, value = argument.strip().lstrip("-").partition("=")
        if key != name or not argument.lstrip().startswith("-"):
            continue
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        found = value if equals else following
    return found.strip("\"'")


def flag_of(arguments: Sequence[str], name: str, otherwise: bool) -> bool | None:
    """Whether a flag is set; alone it means true. None when its value is neither true nor false."""
    found: bool | None = otherwise
    for argument in arguments:
        key, equals, value = argument.strip().lstrip("-").partition("=")
        if key == name and argument.lstrip().startswith("-"):
            word = value.strip("\"'").lower() if equals else "true"
            found = True if word in _TRUE else False if word in _FALSE else None
    return found
