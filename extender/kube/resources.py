"""Which kinds of objects are watched, and in which version the API server serves them.

Takes: an Api. Gives: the table, and for each row the version to use or the fact that none is served. Must
not: remember what was served; custom resources come and go, so `watch` asks again.
"""

import dataclasses
import urllib.parse
import zlib

from extender.kube import client, errors


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One kind of objects.

    `versions` are in order of preference; an `optional` kind may be missing from a cluster. `namespace`,
    `field_selector` and `label_selector` narrow what is listed and watched, empty for all.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    namespaced: bool
    optional: bool = False
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""
    #: where two parts of a resource are watched: a word for this one
    part: str = ""

    @property
    def label(self) -> str:
        """`podgroups.scheduling.k8s.io`: unique where plurals are not, and bounded."""
        whole = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{whole}:{self.part}" if self.part else whole

    @property
    def stagger(self) -> int:
        """Seconds below 30, this resource's own, so that not all watches are renewed at the same time."""
        return zlib.crc32(self.label.encode()) % 30


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """A resource with the version that the API server has of it."""

    resource: Resource
    version: str

    @property
    def api_version(self) -> str:
        """As in the `apiVersion` of objects."""
        return f"{self.resource.group}/{self.version}" if self.resource.group else self.version

    @property
    def collection(self) -> str:
        """The path of the list that is watched."""
        return self._path(self.resource.namespace)

    def path(self, namespace: str, name: str) -> str:
        """The path of one object; `namespace` is ignored for cluster-scoped ones."""
        return f"{self._path(namespace)}/{quote(name)}"

    def _path(self, namespace: str) -> str:
        inside = f"/namespaces/{quote(namespace)}" if self.resource.namespaced and namespace else ""
        return f"{_root(self.resource.group, self.version)}{inside}/{self.resource.plural}"


PODS = Resource("", ("v1",), "pods", namespaced=True)
NODES = Resource("", ("v1",), "nodes", namespaced=False)
NAMESPACES = Resource("", ("v1",), "namespaces", namespaced=False)
NATIVE_POD_GROUPS = Resource("scheduling.k8s.io", ("v1", "v1beta1"), "podgroups", namespaced=True, optional=True)
PLUGIN_POD_GROUPS = Resource("scheduling.x-k8s.io", ("v1alpha1",), "podgroups", namespaced=True, optional=True)
VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", ("v1beta1",), "podgroups", namespaced=True, optional=True)
QUEUES = Resource("muster.dev", ("v1alpha1",), "queues", namespaced=False, optional=True)
VOLCANO_QUEUES = Resource("scheduling.volcano.sh", ("v1beta1",), "queues", namespaced=False, optional=True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", ("v1",), "priorityclasses", namespaced=False)
BUDGETS = Resource("policy", ("v1",), "poddisruptionbudgets", namespaced=True)
POD_GROUPS = Resource("muster.dev", ("v1alpha1",), "podgroups", namespaced=True, optional=True)
TOPOLOGIES = Resource("muster.dev", ("v1alpha1",), "topologies", namespaced=False, optional=True)
KUEUE_TOPOLOGIES = Resource("kueue.x-k8s.io", ("v1beta2", "v1beta1"), "topologies", namespaced=False, optional=True)
HYPERNODES = Resource("topology.volcano.sh", ("v1alpha1",), "hypernodes", namespaced=False, optional=True)

DEPLOYMENTS = Resource("apps", ("v1",), "deployments", namespaced=True)
LEASES = Resource("coordination.k8s.io", ("v1",), "leases", namespaced=True)
VOLCANO_JOBS = Resource("batch.volcano.sh", ("v1alpha1",), "jobs", namespaced=True, optional=True)
VOLCANO_CRON_JOBS = Resource("batch.volcano.sh", ("v1alpha1",), "cronjobs", namespaced=True, optional=True)
VOLCANO_COMMANDS = Resource("bus.volcano.sh", ("v1alpha1",), "commands", namespaced=True, optional=True)


def config_map(namespace: str, name: str) -> Resource:
    """The one ConfigMap of that name."""
    return _single("", "configmaps", namespace, name)


def lease(namespace: str, name: str) -> Resource:
    """The one Lease of that name."""
    return _single("coordination.k8s.io", "leases", namespace, name)


def named(resource: Resource, name: str) -> Resource:
    """The objects of that name, in all namespaces."""
    return dataclasses.replace(resource, field_selector=f"metadata.name={name}")


def _single(group: str, plural: str, namespace: str, name: str) -> Resource:
    return Resource(
        group, ("v1",), plural, namespaced=True, namespace=namespace, field_selector=f"metadata.name={name}"
    )


async def probe(api: client.Api, resource: Resource) -> Served | None:
    """The preferred version of `resource` among those that are served, or None.

    A resource that must be there and has one version only is taken as served: its list will tell.
    """
    if not resource.optional and len(resource.versions) == 1:
        return Served(resource, resource.versions[0])
    for version in resource.versions:
        if await _serves(api, resource, version):
            return Served(resource, version)
    return None


def quote(segment: str) -> str:
    """A name as one segment of a path, whatever it holds: `.` and `..` too would change the path."""
    return urllib.parse.quote(segment, safe="") if segment.strip(".") else segment.replace(".", "%2E")


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


async def _serves(api: client.Api, resource: Resource, version: str) -> bool:
    try:
        answer = await api.read(_root(resource.group, version))
    except errors.NotFound:
        return False
    rows = answer.get("resources")
    return isinstance(rows, list) and any(isinstance(row, dict) and row.get("name") == resource.plural for row in rows)
