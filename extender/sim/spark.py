"""The pods of a SparkApplication, whose templates Spark's operator writes.

Takes the application and its part (driver or executor), gives a pod template; must not group pods.
"""

from __future__ import annotations

import re

from extender.sim.api import Json
from extender.sim.gathering import mapping
from extender.wire import kinds
from extender.wire.fields import Object, Reader

#: so much is added to what is asked of memory, of programs for the JVM and of others, and at least so many MiB
_JVM_OVERHEAD, _OTHER_OVERHEAD, _LEAST_OVERHEAD_MIB = 0.1, 0.4, 384
_SHIFT = {"": 20, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"([0-9]{1,12})([kmgt]?)b?", re.IGNORECASE | re.ASCII)
_DEFAULT_MEMORY = "1g"


def template(reader: Reader, app: Object, part: Object) -> Json:
    """The pod template of the driver or of the executors."""
    memory = _bytes(reader, part.get("memory", _DEFAULT_MEMORY), "memory")
    requests = {
        "cpu": str(part.get("coreRequest") or part.get("cores") or 1),
        "memory": str(memory + _overhead(reader, app, part, memory)),
    }
    gpu = mapping(part, "gpu")
    if isinstance(gpu.get("name"), str):
        requests[gpu["name"]] = str(gpu.get("quantity", 0))
    inside = mapping(part, "template")
    meta, spec = dict(mapping(inside, "metadata")), dict(mapping(inside, "spec"))
    for key in ("labels", "annotations"):
        meta[key] = {**mapping(meta, key), **mapping(part, key)}
    for key in ("nodeSelector", "tolerations", "affinity", "initContainers", "priorityClassName"):
        if key in part:
            spec[key] = part[key]
    others = part.get("sidecars")
    own = {"name": "spark", "resources": {"requests": requests}}
    return {"metadata": meta, "spec": {**spec, "containers": [own, *(others if isinstance(others, list) else ())]}}


def _overhead(reader: Reader, app: Object, part: Object, memory: int) -> int:
    if "memoryOverhead" in part:
        return _bytes(reader, part["memoryOverhead"], "memoryOverhead")
    least = _LEAST_OVERHEAD_MIB << 20
    stated = kinds.find(app, "spec.memoryOverheadFactor")
    if stated is None:
        jvm = kinds.find(app, "spec.type") in ("Scala", "Java", None)
        return max(least, int(memory * (_JVM_OVERHEAD if jvm else _OTHER_OVERHEAD)))
    try:
        return max(least, int(memory * float(str(stated))))
    except (ValueError, OverflowError):
        reader.note("spec.memoryOverheadFactor", stated, "a number")
        return least


def _bytes(reader: Reader, value: object, name: str) -> int:
    """A size as Java writes it; without a unit it is of MiB."""
    size = _SIZE.fullmatch(str(value))
    if size is None:
        reader.note(name, value, "a size as Java writes it")
        return 0
    return int(size[1]) << _SHIFT[size[2].lower()]
