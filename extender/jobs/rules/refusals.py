"""Why a Job cannot be run: the closed set of reasons, each the word that stands in `status.state.reason`."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """What is wrong with a Job, as Volcano's webhook would have refused it."""

    INVALID_NAME = "InvalidName"
    NO_TASKS = "NoTasks"
    TOO_MANY_PODS = "TooManyPods"
    INVALID_FIELD = "InvalidField"
    INVALID_TASK_NAME = "InvalidTaskName"
    DUPLICATE_TASK_NAME = "DuplicateTaskName"
    INVALID_MIN_AVAILABLE = "InvalidMinAvailable"
    INVALID_POLICY = "InvalidPolicy"
    DUPLICATE_POLICY = "DuplicatePolicy"
    INVALID_DEPENDENCY = "InvalidDependency"
    INVALID_PLUGIN = "InvalidPlugin"
    INVALID_VOLUME = "InvalidVolume"
    INVALID_TEMPLATE = "InvalidTemplate"


class Refused(ValueError):
    """A Job that cannot be run as it is; raised while it is read, and turned into a value at the door."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
