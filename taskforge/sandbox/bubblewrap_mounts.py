"""What a bubblewrap sandbox sees: an explicit allowlist of the host, sized disks, and the protected files bound
read-only."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from taskforge.model import Entry, Tree
from taskforge.sandbox import ENV, WORKSPACE, Environment, SandboxSpec

__all__ = ["ETC", "UID", "identity", "mounts", "readable_paths", "split"]

UID = 1000
#: Written for every sandbox.
ETC = {
    "passwd": b"root:x:0:0:root:/root:/bin/sh\nsolver:x:1000:1000:solver:/tmp/home:/bin/sh\n",
    "group": b"root:x:0:\nsolver:x:1000:\n",
    "hosts": b"127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
_HOST_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "mime.types")
#: What a compiler needs besides its command; only builds see it.
_COMPILERS = ("/usr/lib/gcc", "/usr/libexec/gcc", "/usr/include", "/usr/lib/llvm", "/usr/lib/ldscripts")
#: Of ``/proc``: hardware, other users' keys, kernel addresses and memory.
_SECRET = frozenset((
    "acpi", "asound", "cmdline", "config.gz", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg",
    "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "modules", "mtrr", "pagetypeinfo", "sched_debug",
    "scsi", "slabinfo", "timer_list", "timer_stats", "vmallocinfo",
))  # fmt: skip
_HOST_SHARE = ("zoneinfo", "locale", "terminfo", "i18n")


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


def mounts(spec: SandboxSpec, held: Tree, protected: Path, etc: Path) -> list[str]:
    environment = spec.environment
    argv = [*identity(), "--proc", "/proc", *_kernel(), "--dev", "/dev"]
    # Before the interpreter's folders, which may lie in /tmp.
    size = str(spec.limits.disk_mb * 1024 * 1024)
    for path in ("/tmp", "/dev/shm", WORKSPACE):  # noqa: S108
        argv += ["--size", size, "--perms", "0755" if path == WORKSPACE else "1777", "--tmpfs", path]
    for flag, path in _libraries():
        argv += ["--symlink", str(Path(path).readlink()), path] if flag == "link" else ["--ro-bind", path, path]
    binds, masks = _interpreter(environment)
    if spec.profile == "build":
        binds = [*binds, *(folder for folder in _COMPILERS if Path(folder).is_dir())]
    for path in binds:
        argv += ["--ro-bind", path, path]
    for path in masks:
        argv += ["--tmpfs", path, "--remount-ro", path]
    argv += ["--ro-bind", str(environment.root), ENV]
    if spec.tools and environment.tools is not None:
        argv += ["--ro-bind", str(environment.tools), "/tools"]
    for name in ETC:
        argv += ["--ro-bind", str(etc / name), f"/etc/{name}"]
    tops = _tops(held, spec.protected)
    for folder in sorted({above for top in tops for above in _above(top)}):
        argv += ["--size", size, "--perms", "0755", "--tmpfs", f"{WORKSPACE}/{folder}"]
    for top in sorted(tops):
        argv += ["--ro-bind", str(protected / top), f"{WORKSPACE}/{top}"]
    # Last: what lies directly on these two is no size-limited disk, and no place for an /etc/ld.so.preload.
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/"]


@functools.cache
def _kernel() -> tuple[str, ...]:
    """Mounts that keep the kernel's own files from being written, and its secrets from being read.

    A sandbox that root starts runs as the host's user 0 outside its namespace, and the kernel asks for no capability
    where user 0 owns a file: without this, ``/proc/sys/kernel/core_pattern`` could be set from inside, which runs a
    program on the host as root. bubblewrap covers some of these, but not ``/proc/sys`` (seen with 0.11).
    """
    argv: list[str] = []
    for place in sorted(Path("/proc").iterdir()):
        name = place.name
        if name.isdigit() or place.is_symlink() or name in {"self", "thread-self"}:
            continue
        path = str(place)
        if place.is_dir():
            argv += ["--tmpfs", path, "--remount-ro", path] if name in _SECRET else ["--ro-bind", path, path]
        elif name in _SECRET:
            argv += ["--ro-bind", "/dev/null", path]
        elif place.stat().st_mode & 0o222:
            argv += ["--ro-bind", path, path]
    return tuple(argv)


def identity() -> list[str]:
    # Without a namespace of users of its own, a process cannot mount over what is protected, not even for itself.
    # No --new-session: spawn() already made a session without a terminal, and one group is what the host kills.
    return [
        "--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(UID), "--gid", str(UID),
        "--cap-drop", "ALL", "--hostname", "sandbox", "--as-pid-1", "--clearenv",
    ]  # fmt: skip


def split(tree: Tree, protected: tuple[str, ...]) -> tuple[Tree, dict[str, Entry]]:
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
