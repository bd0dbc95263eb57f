"""The component that puts decisions on record fits the Deployment that it changes, and the settings that it gives."""

from __future__ import annotations

import yaml

from extender import settings
from tests.manifests.test_static_manifests import MANIFESTS, documents, pod_spec


def test_the_component_of_the_decision_log_gives_the_extender_a_place_that_is_large_enough() -> None:
    (patch,) = documents(MANIFESTS / "components" / "decision-log" / "kustomization.yaml")[0]["patches"]
    test, *changes = yaml.safe_load(patch["patch"])
    extender = f"/spec/template/spec/containers/{[one['name'] for one in pod_spec()['containers']].index('extender')}"
    assert (test["path"], test["value"]) == (f"{extender}/name", "extender")
    added = [one["value"] for one in changes if one["path"] == f"{extender}/args/-"]
    told = settings.read_extender(added, "host").decision_log
    assert told is not None
    (mount,) = [one["value"] for one in changes if one["path"] == f"{extender}/volumeMounts/-"]
    (volume,) = [one["value"] for one in changes if one["path"] == "/spec/template/spec/volumes/-"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], told.folder)
    assert volume["emptyDir"] == {"sizeLimit": "1Gi"}
    assert told.files * told.file_mebibytes * 2 <= 1024  # a file and the state that it begins with
