"""What `make kind` made, so that `make kind-down` removes that and nothing else.

Takes and gives a Made, kept as JSON in the per-user cache. Each thing is written down before it is made (an engine
right after it has a process id): what a broken run leaves is removed too. Must not touch what it names.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from e2e.cluster import identity
from e2e.kind import store


@dataclasses.dataclass
class Made:
    """What we made: engine is the id and start time of our dockerd, host how it is reached ("" is the user's own)."""

    engine: dict[str, Any] | None = None
    host: str = ""
    cluster: str = ""
    network: bool = False
    images: list[str] = dataclasses.field(default_factory=list)
    #: what the cluster's nodes hold: image ids by name
    loaded: dict[str, str] = dataclasses.field(default_factory=dict)

    def engine_runs(self) -> bool:
        """Whether our own engine is there still, the very same process."""
        return self.engine is not None and identity.same_process(self.engine)

    def save(self) -> None:
        """Write it down, in one step."""
        temporary = _path().with_suffix(".new")
        temporary.write_text(json.dumps(dataclasses.asdict(self)))
        temporary.replace(_path())


def read() -> Made:
    """What is written down; nothing, when there is no such file."""
    try:
        return Made(**json.loads(_path().read_text()))
    except FileNotFoundError:
        return Made()
    except (ValueError, TypeError) as error:
        raise store.KindError(
            f"{_path()} is not a record of ours ({error}): look with `docker ps` and `kind get clusters` what is left, "
            "remove it by hand, then remove the file"
        ) from error


def forget() -> None:
    """Nothing of ours is left."""
    _path().unlink(missing_ok=True)


def _path() -> pathlib.Path:
    return store.root() / "made.json"
