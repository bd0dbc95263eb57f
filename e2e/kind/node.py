"""Our own node image: Debian packages and Go modules, no image pulled.

Takes an engine; gives the image, and keeps it in the cache as `docker save` writes it. Each step that is done stays
done: a run after a failure goes on from there.
"""

from __future__ import annotations

import functools
import io
import pathlib
import shutil
import subprocess
import tarfile

from e2e.kind import engine, pins, programs, state, store

IMAGES = pathlib.Path(__file__).with_name("images")
LIBRARY = ("containerd", "ctr", "containerd-shim-runc-v2", "crictl")
PLUGINS = ("host-local", "loopback", "ptp", "portmap")
KUBERNETES = ("kubeadm", "kubelet", "kubectl")


@functools.cache
def key() -> str:
    """Names the image by all that decides it."""
    files = [path for path in IMAGES.rglob("*") if path.is_file()]
    words = [
        programs.digest(),
        _rootfs_key(pins.NODE_PACKAGES),
        repr((pins.IMAGES, pins.PROXY_IMAGE, LIBRARY, PLUGINS, KUBERNETES)),
    ]
    return f"{pins.KUBERNETES}-{store.digest(files, *words)}"


def tag() -> str:
    """The image's name."""
    return f"muster/node:{key()}"


def archive() -> pathlib.Path:
    """Where the image lies in the cache, when it is built."""
    return store.root() / f"node-{key()}.tar"


def provide(made: state.Made) -> None:
    """Have the image in the engine, from the cache if it is there, else built."""
    if engine.docker(made, "images", "-q", tag()):
        return
    if archive().exists():
        made.images.append(tag())
        made.save()
        argv = ["docker", "load", "-i", str(archive())]
        store.run("loading the node image", argv, env=engine.environment(made))
    else:
        build(made)


def build(made: state.Made) -> None:
    """Build the image and keep it in the cache."""
    with store.scratch() as context:
        _lay_out(context)
        base = f"muster/node-base:{key()}"
        image(made, base, context)
        images = [*_single_images(made), _proxy_image(made, base)]
        _preload(made, base, images)
    store.once(archive(), lambda path: _save(made, path))
    for name in [*images, base]:
        engine.docker(made, "rmi", name, check=False)


def rootfs(packages: tuple[str, ...]) -> pathlib.Path:
    """A Debian system of these packages as a tar file, from the sources that this machine's apt uses."""
    if shutil.which("mmdebstrap") is None:
        raise store.KindError("There is no `mmdebstrap` on PATH: apt-get install mmdebstrap")
    slim = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")]
    sources = [str(path) for path in sorted(pathlib.Path("/etc/apt/sources.list.d").glob("debian.sources"))]
    argv = ["mmdebstrap", "--variant=minbase", "--mode=root", "--format=tar", *slim, f"--include={','.join(packages)}"]
    return store.once(
        rootfs_archive(packages),
        lambda path: store.run(f"unpacking {len(packages)} Debian packages", [*argv, pins.DEBIAN, str(path), *sources]),
    )


def rootfs_archive(packages: tuple[str, ...]) -> pathlib.Path:
    """Where that system lies in the cache, when it was unpacked once."""
    return store.root() / f"debian-{pins.DEBIAN}-{_rootfs_key(packages)}.tar"


def _rootfs_key(packages: tuple[str, ...]) -> str:
    return store.digest([], pins.DEBIAN, *packages)


def _lay_out(context: pathlib.Path) -> None:
    """The context of images/node/Dockerfile."""
    (context / "rootfs.tar").hardlink_to(rootfs(pins.NODE_PACKAGES))
    shutil.copy(IMAGES / "node" / "Dockerfile", context)
    files, ours = context / "files", programs.kind_files()
    for source in (path for folder in ("etc", "kind", "usr") for path in (ours / folder).rglob("*") if path.is_file()):
        _put(source, files / source.relative_to(ours), program=source.parent.name == "bin")
    for name in LIBRARY:
        _put(programs.path(name), files / "usr/local/bin" / name)
    for name in KUBERNETES:
        _put(programs.path(name), files / "usr/bin" / name)
    for name in PLUGINS:
        _put(programs.path(name), files / "opt/cni/bin" / name)
    for name in ("default-cni.yaml", "default-storage.yaml"):
        _put(IMAGES / "node" / name, files / "kind/manifests" / name, program=False)
    (files / "kind/version").write_text(pins.KUBERNETES)


def _put(source: pathlib.Path, target: pathlib.Path, *, program: bool = True) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if program else 0o644)


def image(made: state.Made, name: str, context: pathlib.Path, *arguments: str) -> None:
    """Build an image of a Dockerfile and its context."""
    argv = ["docker", "build", "-t", name, *arguments, str(context)]
    store.run(f"building image {name}", argv, env=engine.environment(made))


def _single_images(made: state.Made) -> list[str]:
    """Images of one static program each."""
    made_now = []
    for program, names in pins.IMAGES.items():
        store.say(f"building image {names[0]}")
        import_program(made, programs.path(program), program, names[0])
        for name in names[1:]:
            engine.docker(made, "tag", names[0], name)
        made_now += names
    return made_now


def import_program(made: state.Made, path: pathlib.Path, program: str, name: str) -> None:
    """An image that holds one static program, its entry point, and a /tmp."""
    argv = ["docker", "import", "-c", f'ENTRYPOINT ["/usr/local/bin/{program}"]', "-c", "ENV PATH=/usr/local/bin"]
    process = subprocess.Popen([*argv, "-", name], env=engine.environment(made), stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL)  # fmt: skip
    assert process.stdin is not None
    with process.stdin as pipe, tarfile.open(fileobj=pipe, mode="w|") as tar:
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder, io.BytesIO())
        entry = tar.gettarinfo(str(path), f"usr/local/bin/{program}")
        entry.mode, entry.uid, entry.gid = 0o755, 0, 0
        with open(path, "rb") as content:
            tar.addfile(entry, content)
    if process.wait() != 0:
        raise store.KindError(f"docker import of {name} failed")


def _proxy_image(made: state.Made, base: str) -> str:
    with store.scratch() as context:
        shutil.copy(IMAGES / "kube-proxy" / "Dockerfile", context)
        _put(programs.path("kube-proxy"), context / "kube-proxy")
        image(made, pins.PROXY_IMAGE, context, "--build-arg", f"NODE={base}")
    return pins.PROXY_IMAGE


def _preload(made: state.Made, base: str, images: list[str]) -> None:
    """The node image: its base, and these images where its containerd finds them."""
    container = f"muster-node-{key()}"
    engine.docker(made, "rm", "-fv", container, check=False)
    store.say("putting the control plane's images into the node image")
    script = (IMAGES / "node" / "preload.sh").read_text()
    into = ["docker", "run", "-i", "--name", container, "--security-opt=seccomp=unconfined", "--entrypoint=bash", base]
    environment = engine.environment(made)
    with subprocess.Popen(["docker", "save", *images], env=environment, stdout=subprocess.PIPE) as saved:
        loaded = subprocess.run(
            [*into, "-c", script], env=environment, stdin=saved.stdout, capture_output=True, text=True, check=False
        )
    if loaded.returncode != 0 or saved.returncode != 0:
        raise store.KindError(f"the images could not be put into the node image:\n{loaded.stdout}{loaded.stderr}")
    made.images.append(tag())
    made.save()
    start = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
    engine.docker(made, "commit", "--change", start, container, tag())
    engine.docker(made, "rm", "-fv", container)


def _save(made: state.Made, path: pathlib.Path) -> None:
    argv = ["docker", "save", "-o", str(path), tag()]
    store.run("keeping the node image in the cache", argv, env=engine.environment(made))
