"""The systems under test: further profiles of Muster's scheduler, and which process bears which role."""

import pathlib
from types import SimpleNamespace
from unittest import mock

from e2e.bench import systems
from e2e.cluster import manifests, muster

CONFIG = {"profiles": [{"schedulerName": "muster"}], "extenders": []}


def rewritten(**options):
    return manifests.rewritten(CONFIG, kubeconfig=pathlib.Path("k"), extender="http://e", gate="http://g", **options)


def test_stock_profiles_stand_beside_ours_only_when_asked_for():
    assert rewritten()["profiles"] == [{"schedulerName": "muster"}]
    wanted = [{"schedulerName": "muster"}, {"schedulerName": "default-scheduler"}]
    assert rewritten(profiles=("default-scheduler",))["profiles"] == wanted
    assert CONFIG["profiles"] == [{"schedulerName": "muster"}]


def pid(number: int) -> SimpleNamespace:
    return SimpleNamespace(pid=number)


CLUSTER = SimpleNamespace(apiserver=pid(1), etcd=pid(2))


def a_replica() -> muster.Replica:
    replica = mock.create_autospec(muster.Replica, instance=True)
    replica.scheduler, replica.extender, replica.gate = pid(3), pid(4), pid(5)
    return replica


def test_a_scheduler_alone_has_no_extender_to_ask():
    watched = systems.watched(CLUSTER, pid(6))
    assert watched.pids == {"scheduler": 6, "apiserver": 1, "etcd": 2}
    assert watched.extender_metrics is None


def test_the_scheduler_of_muster_is_the_one_that_works_when_there_is_no_other():
    replica = a_replica()
    watched = systems.watched(CLUSTER, replica)
    assert watched.pids == {"scheduler": 3, "extender": 4, "gate": 5, "apiserver": 1, "etcd": 2}
    watched.extender_metrics()
    replica.metrics.assert_called_once_with("extender")


def test_beside_another_scheduler_that_of_muster_has_a_role_of_its_own():
    pids = systems.watched(CLUSTER, pid(6), a_replica()).pids
    assert (pids["scheduler"], pids["muster-scheduler"]) == (6, 3)
