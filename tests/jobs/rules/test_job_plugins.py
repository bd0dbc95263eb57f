"""What plugins add to pods: names, values, files and objects as the authors of jobs rely on them."""

from __future__ import annotations

import base64
import copy
from typing import Any

import orjson
import pytest
from job_world import JobWorld, a_job, a_task, a_template

from extender.jobs.rules import reading
from extender.jobs.rules.refusals import Reason

HOME_OF_ROOT = "/root"


def pods_of(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    world = JobWorld(job)
    before = copy.deepcopy(job)
    world.turn()
    assert job == before, "a template was changed"
    return world.pods


def objects_of(job: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    step = JobWorld(job).turn()
    return {(one.kind, one.name): orjson.loads(orjson.dumps(one.body)) for one in step.objects}


def env_of(pod: dict[str, Any], inits: bool = False) -> dict[str, Any]:
    container = pod["spec"]["initContainers" if inits else "containers"][0]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", [])}


def test_env_gives_the_index_to_every_container() -> None:
    task = a_task("worker", 2)
    task["template"]["spec"]["initContainers"] = [{"name": "prepare", "image": "busybox"}]
    task["template"]["spec"]["containers"][0]["env"] = [{"name": "MINE", "value": "1"}]
    pod = pods_of(a_job(task, plugins={"env": []}))["train-worker-1"]
    assert env_of(pod) == {"MINE": "1", "VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}
    assert env_of(pod, inits=True) == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}


def test_svc_names_hosts_in_files_and_variables() -> None:
    job = a_job(a_task("ps", 1), a_task("data-loader", 2), plugins={"svc": []})
    pod = pods_of(job)["train-data-loader-1"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("train-data-loader-1", "train")
    assert pod["spec"]["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    assert pod["spec"]["containers"][0]["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]
    keys = ("VC_PS_HOSTS", "VC_PS_NUM", "VC_DATA_LOADER_HOSTS", "VC_DATA_LOADER_NUM")
    assert env_of(pod) == {key: {"configMapKeyRef": {"name": "train-svc", "key": key}} for key in keys}
    objects = objects_of(job)
    assert objects["ConfigMap", "train-svc"]["data"] == {
        "ps.host": "train-ps-0.train",
        "VC_PS_HOSTS": "train-ps-0.train",
        "VC_PS_NUM": "1",
        "data_loader.host": "train-data-loader-0.train\ntrain-data-loader-1.train",
        "VC_DATA_LOADER_HOSTS": "train-data-loader-0.train,train-data-loader-1.train",
        "VC_DATA_LOADER_NUM": "2",
    }
    selector = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "team"}
    service = objects["Service", "train"]["spec"]
    assert (service["clusterIP"], service["selector"]) == ("None", selector)
    assert service["publishNotReadyAddresses"] is False
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert objects["NetworkPolicy", "train"]["spec"]["podSelector"] == {"matchLabels": selector}


def test_arguments_of_svc() -> None:
    flags = ["--publish-not-ready-addresses=true", "--disable-network-policy=true", "--inject-hosts-env=false"]
    job = a_job(plugins={"svc": flags})
    objects = objects_of(job)
    assert objects["Service", "train"]["spec"]["publishNotReadyAddresses"] is True
    assert ("NetworkPolicy", "train") not in objects
    assert env_of(pods_of(job)["train-worker-0"]) == {}


def test_a_host_name_in_the_template_is_kept_and_stands_once() -> None:
    task = a_task("worker", 3, template=a_template(hostname="boss", subdomain="ring"))
    job = a_job(task, plugins={"svc": []})
    assert pods_of(job)["train-worker-2"]["spec"]["hostname"] == "boss"
    assert objects_of(job)["ConfigMap", "train-svc"]["data"]["worker.host"] == "boss.ring"


def test_ssh_mounts_one_key_pair_everywhere() -> None:
    job = a_job(a_task("master", 1), a_task("worker", 1), plugins={"ssh": []})
    pod = pods_of(job)["train-worker-0"]
    volume = pod["spec"]["volumes"][0]
    assert (volume["name"], volume["secret"]["defaultMode"]) == ("train-ssh", 0o600)
    assert volume["secret"]["secretName"] == "train-ssh-0f1e2d3c"
    assert [(one["key"], one["path"]) for one in volume["secret"]["items"]] == [
        ("id_rsa", ".ssh/id_rsa"),
        ("id_rsa.pub", ".ssh/id_rsa.pub"),
        ("id_rsa.pub", ".ssh/authorized_keys"),
        ("config", ".ssh/config"),
    ]
    mount = {"name": "train-ssh", "mountPath": HOME_OF_ROOT + "/.ssh", "subPath": ".ssh"}
    assert pod["spec"]["containers"][0]["volumeMounts"] == [mount]
    secret = next(one for one in JobWorld(job).turn().objects if one.kind == "Secret")
    assert (secret.name, secret.key_pair, secret.upkeep) == ("train-ssh-0f1e2d3c", True, "create")
    assert base64.b64decode(secret.body["data"]["config"]).decode() == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host train-master-0\n  HostName train-master-0.train\n"
        "Host train-worker-0\n  HostName train-worker-0.train\n"
    )


@pytest.mark.parametrize(
    ("argument", "path"),
    [("--ssh-key-file-path=/opt/user/.ssh", "/opt/user/.ssh"), ("--no-root", "/etc/volcano/.ssh")],
)
def test_who_is_not_root_can_read_the_keys(argument: str, path: str) -> None:
    pod = pods_of(a_job(plugins={"ssh": [argument]}))["train-worker-0"]
    assert pod["spec"]["volumes"][0]["secret"]["defaultMode"] == 0o755
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == path


def test_pytorch_gives_rank_and_size() -> None:
    job = a_job(a_task("master", 1), a_task("worker", 2), a_task("logger", 1), plugins={"pytorch": []})
    pods = pods_of(job)
    shared = {"MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    ranks = {name: {key: env_of(pod).get(key) for key in (*shared, "RANK")} for name, pod in pods.items()}
    assert ranks == {
        "train-master-0": {**shared, "RANK": "0"},
        "train-worker-0": {**shared, "RANK": "1"},
        "train-worker-1": {**shared, "RANK": "2"},
        "train-logger-0": {**shared, "RANK": None},
    }
    assert pods["train-worker-1"]["spec"]["subdomain"] == "train"  # svc comes with it
    port = {"name": "pytorchjob-port", "containerPort": 23456}
    assert pods["train-worker-1"]["spec"]["containers"][0]["ports"] == [port]


def test_arguments_of_pytorch() -> None:
    arguments = ["--master=boss", "-worker", "hand", "--port=29500"]
    template = a_template()
    template["spec"]["containers"][0]["ports"] = [{"containerPort": 29500}]
    pods = pods_of(a_job(a_task("boss", 1), a_task("hand", 1, template=template), plugins={"pytorch": arguments}))
    env = env_of(pods["train-hand-0"])
    assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["RANK"]) == ("train-boss-0.train", "29500", "1")
    assert pods["train-hand-0"]["spec"]["containers"][0]["ports"] == [{"containerPort": 29500}]


def test_tensorflow_gives_the_cluster() -> None:
    tasks = [a_task("ps", 1), a_task("worker", 2), a_task("head", 1), a_task("evaluator", 1)]
    pods = pods_of(a_job(*tasks, plugins={"tensorflow": ["--chief=head", "--port=3333"]}))
    assert env_of(pods["train-head-0"])["TF_CONFIG"] == (
        '{"cluster":{"ps":["train-ps-0.train:3333"],"worker":["train-worker-0.train:3333","train-worker-1.train:3333"],'
        '"chief":["train-head-0.train:3333"],"evaluator":["train-evaluator-0.train:3333"]},'
        '"task":{"type":"chief","index":0}}'
    )
    assert orjson.loads(env_of(pods["train-worker-1"])["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}


def test_one_pod_of_tensorflow_is_no_cluster() -> None:
    assert "TF_CONFIG" not in env_of(pods_of(a_job(a_task("worker", 1), plugins={"tensorflow": []}))["train-worker-0"])


def test_mpi_tells_the_master_of_its_workers() -> None:
    job = a_job(a_task("master", 1), a_task("worker", 2), plugins={"mpi": []})
    pods = pods_of(job)
    assert env_of(pods["train-master-0"])["MPI_HOST"] == "train-worker-0.train,train-worker-1.train"
    assert "MPI_HOST" not in env_of(pods["train-worker-0"])
    port = {"name": "mpijob-port", "containerPort": 22}
    assert all(pod["spec"]["containers"][0]["ports"] == [port] for pod in pods.values())
    assert {kind for kind, _ in objects_of(job)} == {"PodGroup", "Service", "ConfigMap", "Secret", "NetworkPolicy"}


def test_ray_starts_head_and_workers() -> None:
    head = a_task("head", 1, template={"spec": {"containers": [{"name": "head"}, {"name": "side"}]}})
    worker = a_task("worker", 1, template={"spec": {"containers": [{"name": "worker"}]}})
    job = a_job(head, worker, plugins={"ray": ["--port=6380"]})
    pods = pods_of(job)
    start = "ray start --head --block --dashboard-host=0.0.0.0 --port=6380 --dashboard-port=8265"
    first, second = pods["train-head-0"]["spec"]["containers"]
    assert first["command"] == ["sh", "-c", f"{start} --ray-client-server-port=10001"]
    assert "command" not in second
    assert [one["containerPort"] for one in first["ports"]] == [6380, 8265, 10001]
    command = pods["train-worker-0"]["spec"]["containers"][0]["command"]
    assert command == ["sh", "-c", "ray start --block --address=train-head-0.train:6380"]
    selector = objects_of(job)["Service", "train-head-svc"]["spec"]["selector"]
    assert selector["volcano.sh/task-spec"] == "head"


#: what cannot be: plugins of a job of workers -> a word of the message
WRONG: list[tuple[Any, str]] = [
    ({"teleport": []}, "teleport"),
    ({"env": "x"}, "env"),
    ({"env": [1]}, "env"),
    (["env"], "object"),
    ({"svc": ["--disable-network-policy=perhaps"]}, "disable-network-policy"),
    ({"ssh": ["--ssh-key-file-path=home"]}, "home"),
    ({"pytorch": ["--port=0"]}, "port"),
    ({"pytorch": ["--port=70000"]}, "port"),
    ({"tensorflow": ["--port=-1"]}, "port"),
    ({"mpi": []}, "master"),
    ({"mpi": ["--master=worker", "--worker=none"]}, "none"),
    ({"ray": []}, "head"),
]


@pytest.mark.parametrize(("plugins", "word"), WRONG)
def test_plugins_that_are_refused(plugins: Any, word: str) -> None:
    found = reading.decode_job(a_job(plugins=plugins))
    assert isinstance(found, reading.Refusal)
    assert found.reason is Reason.INVALID_PLUGIN
    assert word in found.message


def test_arguments_of_newer_plugins_are_passed_over() -> None:
    pods = pods_of(a_job(a_task("master", 1), plugins={"pytorch": ["--wait-master-enabled=true", "stray"]}))
    assert env_of(pods["train-master-0"])["RANK"] == "0"
