"""Builds the control plane from Go modules, once per user.

Takes `controlplane/<minor>` (go.mod, go.sum); gives the folder of the binaries in the per-user cache. A binary
appears there only when it is whole (built under another name, then renamed); a lock keeps two runs from building the
same thing. Must not change go.mod or go.sum: their hash names the cache folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from e2e.cluster import steps, versions

MODULES = pathlib.Path(__file__).resolve().parent.parent / "controlplane"
LAUNCH = pathlib.Path(__file__).with_name("launch.py")
# programs that make certificates
CERTIFIERS = ("gencert", "frontproxy")
MEND = (
    "The local control plane is compiled with Go {go} or newer: install it and put `go` on PATH "
    "(with GOTOOLCHAIN=auto a Go of 1.21 or newer fetches the right one by itself), "
    "or set KUBECONFIG to a cluster that may be used for tests."
)


class BuildError(Exception):
    """The control plane could not be built; the text names what to do."""


@dataclasses.dataclass(frozen=True)
class Binaries:
    """Where the programs of one Kubernetes minor lie."""

    minor: str
    kubernetes: pathlib.Path
    tools: pathlib.Path

    def path(self, name: str) -> str:
        """The path of one program by name."""
        folder = self.tools if name in (*versions.ETCD_BINARIES, *CERTIFIERS) else self.kubernetes
        return str(folder / name)


@dataclasses.dataclass(frozen=True)
class Target:
    """One binary to build: package is a Go import path or, for those that make certificates, a source file."""

    name: str
    package: str
    module: pathlib.Path
    folder: pathlib.Path
    ldflags: str
    tags: str = ""


def cache_root() -> pathlib.Path:
    """The per-user cache folder, made if missing."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = pathlib.Path(base) / "muster"
    root.mkdir(parents=True, exist_ok=True)
    return root


def cache_folder(module: pathlib.Path, label: str) -> pathlib.Path:
    """The cache folder of one module: its label and the hash of what decides the build."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    return cache_root() / f"{label}-{digest.hexdigest()[:12]}"


def binaries(minor: str | None = None) -> Binaries:
    """The programs of `minor` (default: what K8S asks for), built now if they are not in the cache."""
    minor = minor or versions.chosen_minor()
    version = versions.KUBERNETES[minor]
    module, tools_module = MODULES / minor, MODULES / "etcd"
    kubernetes = cache_folder(module, version)
    tools = cache_folder(tools_module, f"etcd-{versions.ETCD}-kwok-{versions.KWOK}")
    targets = [
        Target(name, package, module, kubernetes, version_flags(version))
        for name, package in versions.KUBERNETES_BINARIES.items()
    ]
    targets += [Target(name, package, tools_module, tools, "-s -w") for name, package in versions.ETCD_BINARIES.items()]
    _build_missing(targets, tools_module, tools)
    return Binaries(minor, kubernetes, tools)


def version_flags(version: str) -> str:
    """The linker flags by which Kubernetes' programs know their version."""
    major, minor, _ = version.removeprefix("v").split(".")
    flags = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
    return " ".join(flags)


def _build_missing(targets: list[Target], tools_module: pathlib.Path, tools: pathlib.Path) -> None:
    wanted = {target.folder / target.name for target in targets} | {tools / name for name in CERTIFIERS}
    if all(path.exists() for path in wanted):
        return
    root = go_root(targets[0].module)
    # The key pair of the control plane is made by a program of Go's own source tree: nothing more to install.
    gencert = Target("gencert", f"{root}/src/crypto/tls/generate_cert.go", tools_module, tools, "-s -w")
    # That one signs nothing but itself.
    frontproxy = Target("frontproxy", str(MODULES / "frontproxy.go"), tools_module, tools, "-s -w")
    for target in [gencert, frontproxy, *targets]:
        make(target)


def go_root(module: pathlib.Path) -> str:
    """GOROOT of the Go that builds `module`; raises BuildError with the mend when there is none or it is too old."""
    mend = MEND.format(go=".".join(map(str, versions.GO_MINIMUM)))
    if shutil.which("go") is None:
        raise BuildError(f"There is no `go` on PATH. {mend}")
    asked = subprocess.run(
        ["go", "env", "GOVERSION", "GOROOT"],
        cwd=module,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise BuildError(f"`go env` failed: {asked.stderr.strip()}\n{mend}")
    version, _, root = asked.stdout.strip().partition("\n")
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < versions.GO_MINIMUM:
        raise BuildError(f"The `go` on PATH is {version or 'of unknown version'}. {mend}")
    return root


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOOS": "", "GOARCH": ""}


def make(target: Target) -> None:
    """Build one program, unless it is in its folder; raises BuildError with the end of Go's output."""
    target.folder.mkdir(parents=True, exist_ok=True)
    final = target.folder / target.name
    with lock(target.folder / ".lock"):
        if final.exists():
            return
        temporary = target.folder / f".{target.name}.{os.getpid()}"
        try:
            _compile(target, temporary)
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)


def _compile(target: Target, output: pathlib.Path) -> None:
    argv = ["go", "build", "-mod=readonly", "-buildvcs=false", "-tags", target.tags, "-ldflags", target.ldflags]
    started = time.monotonic()
    _say(f"building {target.name} into {target.folder.name} (the first build of all takes about 10 min)")
    # Through launch.py, so that it ends with this run, however that ends.
    guard = [sys.executable, "-I", "-S", str(LAUNCH), "--die-with", str(os.getpid()), "--"]
    tail = steps.run(
        [*guard, *argv, "-o", str(output), target.package],
        lambda seconds: _say(f"building {target.name}: {seconds:.0f} s"),
        cwd=str(target.module),
        env=_environment(),
    )
    if tail is not None:
        raise BuildError(f"go build of {target.name} failed:\n{tail}Mend what Go names above, then run again.")
    _say(f"built {target.name} in {time.monotonic() - started:.0f} s")


@contextlib.contextmanager
def lock(path: pathlib.Path) -> Iterator[None]:
    """Hold the lock file `path`; says so when another run holds it, and waits."""
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another run builds into {path.parent.name}: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"[control plane] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        print(binaries().kubernetes)
    except BuildError as error:
        raise SystemExit(str(error)) from None
