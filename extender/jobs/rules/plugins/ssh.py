"""`ssh`: members log in at each other without a password: one key pair of the job, mounted in all of them.

Arguments: --ssh-key-file-path (.ssh in the home of root), --no-root (then /etc/volcano/.ssh is the default).
The key pair is made by who creates the Secret, and lives as long as it. Nobody may look whose Secret it is, so that its
name is this Job object's alone: one that an earlier Job of the name left behind, about to go, is never taken for it.
"""

from __future__ import annotations

import base64

from extender.jobs.rules.model import Job, JobSpec, Upkeep, Wanted
from extender.jobs.rules.owning import owned
from extender.jobs.rules.plugins.arguments import flag_of, text_of
from extender.jobs.rules.plugins.container import Pod
from extender.jobs.rules.plugins.hosts import host_of

_FOLDER = ".ssh"
_ROOT, _OTHER = (f"{home}/{_FOLDER}" for home in ("/root", "/etc/volcano"))
_FILES = (
    ("id_rsa", "id_rsa"),
    ("id_rsa.pub", "id_rsa.pub"),
    ("id_rsa.pub", "authorized_keys"),
    ("config", "config"),
)


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """The path is absolute."""
    path = _path(arguments)
    return "" if path.startswith("/") and ":" not in path else f"ssh-key-file-path {path[:80]!r} is no absolute path"


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Mount keys and configuration; ssh wants them closed to others, but who is not root must be able to read them."""
    # Volcano's name of the Secret: see `adoption`
    name, path = f"{job.name}-ssh", _path(arguments)
    secret = {
        "secretName": _secret(job),
        "items": [{"key": key, "path": f"{_FOLDER}/{file}"} for key, file in _FILES],
        "defaultMode": 0o600 if path == _ROOT else 0o755,
    }
    pod.mount({"name": name, "secret": secret}, {"name": name, "mountPath": path, "subPath": _FOLDER})


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """The Secret, without the keys."""
    text = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
    for task in job.spec.tasks:
        hosts = dict.fromkeys(host_of(job, task, index) for index in range(task.replicas))
        text += "".join(f"Host {host}\n  HostName {host}.{domain}\n" for host, domain in hosts)
    data = {"config": base64.b64encode(text.encode()).decode()}
    return (owned(job, "v1", "Secret", _secret(job), {"data": data}, Upkeep.CREATE, key_pair=True),)


def _secret(job: Job) -> str:
    return f"{job.name}-ssh-{job.uid[:8].lower()}"


def _path(arguments: tuple[str, ...]) -> str:
    return text_of(arguments, "ssh-key-file-path", _OTHER if flag_of(arguments, "no-root", False) else _ROOT)
