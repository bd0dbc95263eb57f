"""The node image's pins, and what its cache is named by."""

import re

import pytest

from e2e.kind import pins, programs, store

PINS = {
    ("kind", "sigs.k8s.io/kind"): pins.KIND,
    ("containerd", "github.com/containerd/containerd/v2"): pins.CONTAINERD,
    ("cni", "github.com/containernetworking/plugins"): pins.CNI_PLUGINS,
    ("crictl", "sigs.k8s.io/cri-tools"): pins.CRICTL,
    ("coredns", "github.com/coredns/coredns"): pins.COREDNS,
    ("node", "k8s.io/kubernetes"): pins.KUBERNETES,
    ("fakegpus", "k8s.io/kubelet"): pins.KUBERNETES.replace("v1.", "v0."),
}


@pytest.mark.parametrize(("module", "package"), PINS, ids="-".join)
def test_the_go_modules_repeat_the_pins(module, package):
    text = (programs.MODULES / module / "go.mod").read_text()
    assert re.findall(rf"^\s*(?:require )?{re.escape(package)} (v\S+)", text, re.MULTILINE) == [PINS[module, package]]


def test_every_module_has_a_pin_and_a_program():
    modules = {path.name for path in programs.MODULES.iterdir()}
    assert modules == {module for module, _ in PINS} == {module for module, *_ in programs.PROGRAMS.values()}


def test_a_digest_changes_with_each_thing_that_decides(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    seen = {store.digest([one]), store.digest([two]), store.digest([one, two]), store.digest([one], "x")}
    one.write_text("b")
    seen |= {store.digest([one]), store.digest([], "x", "y"), store.digest([], "xy")}
    assert len(seen) == 7
    assert store.digest([one, two]) == store.digest([two, one])


def test_a_result_is_made_once_and_a_broken_one_never_seen(tmp_path):
    place = tmp_path / "result"

    def fails(path):
        path.write_text("half")
        raise store.KindError("no")

    with pytest.raises(store.KindError):
        store.once(place, fails)
    assert not place.exists()
    assert store.once(place, lambda path: path.write_text("whole")).read_text() == "whole"
    assert store.once(place, fails).read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir() if "lock" not in path.name] == ["result"]
