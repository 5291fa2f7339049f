"""``taskforge doctor``: what this machine can do, found by trying, and what to do where it cannot."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["Check", "checks", "docker_check", "doctor"]

_MIN_FREE_GIB = 2.0


@dataclass(frozen=True)
class Check:
    """One line of the report. ``info`` states a fact that may be either way."""

    name: str
    status: Literal["ok", "missing", "info"]
    detail: str
    remedy: str = ""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False) -> None:
    """Say what this machine can do, each with the remedy when missing. Exit code 1 when no sandbox works."""
    from rich.markup import escape
    from rich.table import Table

    from taskforge.cli.common import console, print_json

    found = list(checks())
    if as_json:
        print_json([asdict(check) for check in found])
    else:
        table = Table(box=None, pad_edge=False)
        for name in ("check", "", "found", "remedy"):
            table.add_column(name, overflow="fold")
        colours = {"ok": "green", "missing": "red", "info": "cyan"}
        for check in found:
            status = f"[{colours[check.status]}]{check.status}[/]"
            table.add_row(check.name, status, escape(check.detail), escape(check.remedy))
        console().print(table)
    if not any(check.name.startswith("sandbox ") and check.status == "ok" for check in found):
        raise typer.Exit(1)


def checks() -> Iterator[Check]:
    """All checks, in order."""
    from taskforge.settings import Settings

    # First, so that a bad setting is told at once.
    settings = Settings()
    yield Check("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield _program("git", ["git", "--version"], "install git, for example: apt-get install git")
    yield _program("uv", [_uv(), "--version"], "pip install uv")
    root = os.geteuid() == 0
    advice = "an ordinary user is safer for bubblewrap: root's sandboxes are user 0 to the kernel" if root else ""
    yield Check("user", "info", "root" if root else f"uid {os.geteuid()}", advice)
    yield from _sandboxes()
    yield _user_namespaces()
    yield _cgroups()
    yield docker_check()
    yield _interpreters()
    for name, folder in (("disk, cache", settings.cache_dir), ("disk, tmp", Path(tempfile.gettempdir()))):
        yield _disk(name, folder)


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else "uv"


def _program(name: str, argv: list[str], remedy: str) -> Check:
    from taskforge import process

    try:
        done = process.run(argv, timeout=20)
    except (OSError, TimeoutError) as error:
        return Check(name, "missing", str(error), remedy)
    return Check(name, "ok" if done.returncode == 0 else "missing", done.text[:120], remedy if done.returncode else "")


def _sandboxes() -> Iterator[Check]:
    from importlib import import_module

    from taskforge.errors import TaskforgeError
    from taskforge.sandbox import BACKENDS

    for name, module in BACKENDS.items():
        try:
            found = import_module(module).create().probe()
        except (TaskforgeError, ImportError) as error:
            hint = getattr(error, "hint", "") or "reinstall taskforge-rl"
            yield Check(f"sandbox {name}", "missing", str(error), hint)
            continue
        yield Check(f"sandbox {name}", "ok" if found.ok else "missing", found.detail, found.remedy)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


#: Makes one in a process of its own; the exit code is errno.
_UNSHARE = (
    "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True);"
    " sys.exit(ctypes.get_errno() if libc.unshare({}) else 0)"
)
_CLONE_NEWUSER = 0x10000000


def _user_namespaces() -> Check:
    from taskforge import process

    limit = _read("/proc/sys/user/max_user_namespaces")
    refusals = {
        "max_user_namespaces is 0": (limit == "0", "sysctl user.max_user_namespaces=15000"),
        "unprivileged_userns_clone is 0": (
            _read("/proc/sys/kernel/unprivileged_userns_clone") == "0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        "AppArmor restricts them": (
            _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    }
    hit = {text: remedy for text, (applies, remedy) in refusals.items() if applies}
    try:
        code = process.run([sys.executable, "-I", "-S", "-c", _UNSHARE.format(_CLONE_NEWUSER)], timeout=20).returncode
    except (OSError, TimeoutError) as error:
        return Check("user namespaces", "missing", str(error), "reinstall Python")
    if code == 0 and not hit:
        return Check("user namespaces", "ok", f"can be made; at most {limit or 'unknown'}")
    if not hit:
        # What the kernel says where one sandbox lies in another that forbids it, too.
        why = "the limit on their number or depth is reached" if code == errno.ENOSPC else os.strerror(code)
        hit = {f"cannot be made: {why}": "in a container: --security-opt seccomp=unconfined; in a sandbox: leave it"}
    # Settings that restrict ordinary users do not hold root back.
    status: Literal["missing", "info"] = "missing" if code else "info"
    return Check("user namespaces", status, "; ".join(hit), "; ".join(hit.values()))


def _cgroups() -> Check:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        version = "v2"
        known = set(_read(str(root / "cgroup.controllers")).split())
        writable = {"memory", "pids"} <= known and os.access(root, os.W_OK)
    else:
        version = "v1"
        writable = all(os.access(root / name, os.W_OK) for name in ("memory", "pids"))
    if writable:
        return Check("cgroups", "ok", f"{version}, memory and pids writable: the kernel holds the limits")
    return Check("cgroups", "info", f"{version}, not writable: the supervisor polls memory and processes")


def docker_check() -> Check:
    """Whether a Docker daemon answers at ``DOCKER_HOST``."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    remedy = "start a Docker daemon, or set DOCKER_HOST; only needed for the docker sandbox"
    if host.startswith("unix://") and not Path(host.removeprefix("unix://")).exists():
        return Check("docker", "info", f"no daemon at {host}: no such file", remedy)
    import httpx

    if host.startswith("unix://"):
        transport, url = httpx.HTTPTransport(uds=host.removeprefix("unix://")), "http://docker/_ping"
    elif host.startswith("tcp://"):
        transport, url = httpx.HTTPTransport(), f"http://{host.removeprefix('tcp://')}/_ping"
    else:
        return Check("docker", "info", f"DOCKER_HOST={host} is not tried here")
    try:
        with httpx.Client(transport=transport, timeout=3) as client:
            answer = client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return Check("docker", "info", f"no daemon at {host}: {error}", remedy)
    if answer.status_code != httpx.codes.OK:
        return Check("docker", "info", f"{host} answers {answer.status_code}", remedy)
    return Check("docker", "ok", f"reachable at {host}")


def _interpreters() -> Check:
    from taskforge.generate.interpreters import available

    versions = {one.version for one in available()}
    found = sorted(versions, key=lambda text: [int(part) for part in text.split(".") if part.isdigit()])
    if not found:
        return Check("interpreters", "missing", "no CPython 3.8 or newer", "uv python install 3.12")
    return Check("interpreters", "ok", ", ".join(found))


def _disk(name: str, folder: Path) -> Check:
    there: Callable[[Path], bool] = Path.exists
    place = next(path for path in (folder, *folder.parents) if there(path))
    free = shutil.disk_usage(place).free / 1024**3
    text = f"{free:.1f} GiB free for {folder}"
    if not os.access(place, os.W_OK):
        return Check(name, "missing", f"{place} is not writable", "set TASKFORGE_CACHE_DIR or TMPDIR to another folder")
    if free < _MIN_FREE_GIB:
        return Check(name, "missing", text, "free some space, or set TASKFORGE_CACHE_DIR or TMPDIR to another disk")
    return Check(name, "ok", text)
