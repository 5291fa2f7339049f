"""Sandboxes in containers of any Docker daemon, on this machine or another.

PID 1 is root with the few capabilities that it takes to become someone else and to kill, and no right over other users'
files. What is submitted runs as an ordinary user without any. What it must not touch is root's, in folders of root
where nobody renames or removes what is not theirs. Everything goes over the API: no folder of this host is bound.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from taskforge.errors import SandboxFault
from taskforge.model import Image
from taskforge.sandbox import ENV, WORKSPACE, Backend, Environment, Probe, SandboxSpec
from taskforge.sandbox.bubblewrap_mounts import UID, split
from taskforge.sandbox.docker_attach import Attached, attach
from taskforge.sandbox.docker_daemon import Daemon, faults
from taskforge.sandbox.docker_image import Images
from taskforge.sandbox.payload import BOOTSTRAP
from taskforge.sandbox.wire import WireSandbox
from taskforge.settings import Settings

__all__ = ["Docker", "create"]

log = logging.getLogger("taskforge.sandbox")

#: SETUID, SETGID: to become the submission's user. SETPCAP: to give up the bounding set then. KILL: to end what that
#: user started. None over files: the supervisor reads and writes the submission's as that user.
_CAPABILITIES = ["SETUID", "SETGID", "SETPCAP", "KILL"]
_OOM_SECONDS = 5
#: Seconds between attempts: a daemon that answered before may be starting anew, one that never did is not waited for.
_AGAIN = (0.0, 0.5, 1.0, 2.0, 4.0)
#: What a container shall not see of the machine: the runtime's own list, the kernel's addresses and command line, and
#: all of /sys but its control group.
_MASKED = [
    "/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts", "/proc/kallsyms", "/proc/iomem",
    "/proc/ioports", "/proc/cmdline", "/proc/config.gz", "/proc/modules", "/sys/firmware",
    "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/hypervisor", "/sys/kernel", "/sys/module",
    "/sys/power",
]  # fmt: skip
#: What anybody may else open for writing, user 0 above all.
_READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", "/proc/sysrq-trigger"]


class Docker:
    """Starts sandboxes by a Docker daemon.

    Args:
        folder: of this host, for locks and the installation's id.
        base: base image of environments, ``{minor}`` for Python's version; empty for the defaults.
        runtime: name of an installed OCI runtime; empty for the daemon's own choice.
    """

    name = "docker"

    def __init__(self, folder: Path, *, base: str = "", runtime: str = "") -> None:
        self.daemon = Daemon(folder)
        self.images = Images(self.daemon, base=base)
        self.runtime = runtime

    def probe(self) -> Probe:
        try:
            import docker  # noqa: F401
        except ImportError as error:
            return Probe(ok=False, detail=f"the docker package is missing: {error}", remedy="pip install 'docker>=7'")
        try:
            with faults("asking the daemon"):
                version = self.daemon.client.version()
                info = self.daemon.info
        except SandboxFault as fault:
            return Probe(ok=False, detail=fault.message, remedy=fault.hint)
        facts = {
            "server": version.get("Version", ""), "api": version.get("ApiVersion", ""),
            "runtimes": sorted(info.get("Runtimes") or ()), "storage": info.get("Driver", ""),
            "limits": "control group" if self._limited() else "supervisor polling",
        }  # fmt: skip
        if info.get("OSType") != "linux":
            detail = f"the daemon runs {info.get('OSType')} containers"
            return Probe(ok=False, detail=detail, remedy="use a Linux daemon")
        if self.runtime and self.runtime not in facts["runtimes"]:
            return Probe(
                ok=False,
                detail=f"the daemon has no runtime {self.runtime}; it has {', '.join(facts['runtimes'])}",
                remedy="install it, or unset TASKFORGE_DOCKER_RUNTIME",
            )
        detail = f"Docker {facts['server']}, memory and process limits by {facts['limits']}"
        return Probe(ok=True, detail=detail, facts=facts)

    def _limited(self) -> bool:
        info = self.daemon.info
        return bool(info.get("MemoryLimit") and info.get("PidsLimit", True))

    def start(self, spec: SandboxSpec) -> WireSandbox:
        for wait in _AGAIN if self.daemon.reached else _AGAIN[:1]:
            try:
                return self._start(spec)
            except SandboxFault as fault:
                # The daemon is started anew, or the image was removed under us: once more, from the beginning.
                if fault.kind not in {"docker_unreachable", "docker_image"}:
                    raise
                log.info("starting once more in %g s: %s", wait, fault.message)
            time.sleep(wait)
            self.daemon.renew()
        return self._start(spec)

    def image(self, environment: Environment) -> Image | None:
        return self.images.image(environment)

    def _start(self, spec: SandboxSpec) -> WireSandbox:
        with faults("starting a sandbox"):
            labels = self.daemon.labels("sandbox")
            image = self.images.ensure(spec.environment, tools=spec.tools)
            poll = not self._limited()
            api = self.daemon.client.api
            try:
                made = api.create_container_from_config(
                    self._config(spec, image, labels), f"taskforge-{uuid.uuid4().hex[:16]}"
                )
            except BaseException:
                self.images.forget(image)
                raise
            end = _End(self.daemon, str(made["Id"]))
            try:
                end.attached = attached = attach(api, end.container)
                api.start(end.container)
            except BaseException:
                end.abandon()
                raise
        tree = spec.tree.with_changes(dict(spec.environment.overlay))
        held, free = split(tree, spec.protected)
        box = WireSandbox(
            backend=self.name, spec=spec, to=attached.to, back=attached.back, stop=end.stop, poll_memory=poll,
            memory_kills=end.memory_kills, tree=dict(held),
            config={"drop": {"uid": UID, "gid": UID}, "open": _open_folders(list(held), spec.protected)},
        )  # fmt: skip
        try:
            box.lay(free)
        except BaseException:
            box.close()
            raise
        return box

    def _config(self, spec: SandboxSpec, image: str, labels: dict[str, str]) -> dict[str, Any]:
        """A container as the API takes it."""
        limits = spec.limits
        memory = limits.memory_mb * 1024 * 1024
        disk = f"size={limits.disk_mb}m,mode=1777,nosuid,nodev,exec"
        host: dict[str, Any] = {
            "AutoRemove": True, "Init": False, "Privileged": False, "ReadonlyRootfs": True, "NetworkMode": "none",
            "CapDrop": ["ALL"], "CapAdd": _CAPABILITIES, "SecurityOpt": ["no-new-privileges"],
            "Memory": memory, "MemorySwap": memory, "PidsLimit": limits.pids + 8, "IpcMode": "private",
            "LogConfig": {"Type": "none", "Config": {}}, "RestartPolicy": {"Name": "no"},
            "MaskedPaths": _MASKED, "ReadonlyPaths": _READ_ONLY,
            # Else the file that names servers is the daemon's machine's.
            "Dns": ["127.0.0.1"], "DnsSearch": ["."],
            "Tmpfs": dict.fromkeys((WORKSPACE, "/tmp", "/dev/shm"), disk),  # noqa: S108
        }  # fmt: skip
        if self.runtime:
            host["Runtime"] = self.runtime
        return {
            "Image": image, "Entrypoint": [f"{ENV}/bin/python"], "Cmd": ["-I", "-S", "-c", BOOTSTRAP],
            "User": "0:0", "WorkingDir": "/", "Hostname": "sandbox", "Env": [], "Labels": labels,
            "OpenStdin": True, "StdinOnce": True, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
            "Tty": False, "NetworkDisabled": True, "Healthcheck": {"Test": ["NONE"]}, "HostConfig": host,
            # PID 1 heeds no other, and a daemon that ends waits for its containers.
            "StopSignal": "SIGKILL",
        }  # fmt: skip


class _End:
    """How one container ends: once, from whichever thread comes first."""

    def __init__(self, daemon: Daemon, container: str) -> None:
        self.daemon = daemon
        self.container = container
        self.attached: Attached | None = None
        self.mutex = threading.Lock()
        self.said: str | None = None
        self.kills: int | None = None

    def stop(self) -> str:
        """Kill it, remove it, wait. Returns the end of what it said on standard error."""
        with self.mutex:
            if self.said is None:
                try:
                    self.daemon.remove(self.container)
                except SandboxFault as fault:
                    # It has no input any more, ends by that, and removes itself; if not, a later start removes it.
                    log.warning("%s", fault.message)
                self.said = ""
                if self.attached is not None:
                    self.attached.close()
                    self.said = self.attached.errors
            return self.said

    def abandon(self) -> None:
        """Nobody has taken the descriptors."""
        self.stop()
        if self.attached is not None:
            os.close(self.attached.to)
            os.close(self.attached.back)

    def memory_kills(self) -> int:
        """How often the kernel killed in it for want of memory, as the daemon heard: asked only when it has ended.

        While it lives its supervisor tells that itself.
        """
        with self.mutex:
            if self.said is None:
                return 0
            if self.kills is None:
                self.kills = 0
                with contextlib.suppress(SandboxFault), faults("asking how a container ended"):
                    self.kills = self._heard()
            return self.kills

    def _heard(self) -> int:
        count = 0
        # All that it remembers, until a time by its own clock: this host's may be another.
        events = self.daemon.client.api.events(
            since=0, until=self.daemon.now() + _OOM_SECONDS, decode=True,
            filters={"container": self.container, "event": ["oom", "die", "destroy"]},
        )  # fmt: skip
        with contextlib.closing(events):
            for event in events:
                if event.get("Action") == "oom":
                    count += 1
                if event.get("Action") == "destroy":
                    break
        return count


def _open_folders(held: list[str], protected: tuple[str, ...]) -> list[str]:
    """Every folder above something protected that is not protected itself: ``""`` is the workspace."""
    closed = {name.rstrip("/") for name in protected if name.endswith("/")}
    found = set()
    for path in held:
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(len(parts))]
        inner = next((count for count, folder in enumerate(above) if folder in closed), len(above))
        found |= set(above[:inner])
    return sorted(found - {""})


def create() -> Backend:
    """The backend for the table in :mod:`taskforge.sandbox`."""
    settings = Settings()
    return Docker(settings.cache_dir / "docker", base=settings.docker_base, runtime=settings.docker_runtime)
