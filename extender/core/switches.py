"""The field of an object that stops its pods from being made: whose it is, and of which state of the object we speak.

Takes nothing, gives frozen values; must not know what an object is good for, nor decide.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switch:
    """One object's field `suspend`, at its path. `versions` of the API group, the preferred one first."""

    group: str
    versions: tuple[str, ...]
    plural: str
    field: str
    namespace: str
    name: str
    uid: str
    #: of the object on which a decision rests: this one, unless it makes that one (`own` False)
    generation: int = 0
    own: bool = True

    def __str__(self) -> str:
        return f"{self.plural}.{self.group} {self.namespace}/{self.name}"
