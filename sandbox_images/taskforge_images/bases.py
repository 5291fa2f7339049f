"""What a base is made of on a machine without a hub: Debian's packages, and the interpreters of this host."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import IO

from taskforge import process
from taskforge.errors import SandboxFault

__all__ = ["debian", "host_suite", "interpreter", "packed"]

_EPOCH = 946684800
_SECONDS = 1200
_PACKAGES = "python3,python3-venv,ca-certificates,git,tzdata"
#: Neither its tests, nor what it takes to build it anew, nor what others have installed in it.
_LEFT_OUT = re.compile(r"(.*/)?(test|__pycache__|site-packages)|share|include|.*\.a")


def debian(suite: str, to: Path) -> None:
    """Write the root file system of a Debian release with its own Python and git, as a tar.

    Raises:
        SandboxFault: ``docker_base`` when mmdebstrap is missing or fails.
    """
    argv = ["env", f"SOURCE_DATE_EPOCH={_EPOCH}", "mmdebstrap", "--quiet", "--variant=minbase"]
    hint = "as root with the package mmdebstrap and a mirror of Debian this works; else pull or load a base image"
    if shutil.which("mmdebstrap") is None:
        raise SandboxFault("mmdebstrap is missing", kind="docker_base", hint=hint, retryable=False)
    try:
        done = process.run([*argv, f"--include={_PACKAGES}", suite, str(to)], timeout=_SECONDS, cwd=Path("/"))
    except (OSError, process.ProcessTimeoutError) as error:
        raise SandboxFault(f"mmdebstrap {suite}: {error}", kind="docker_base", hint=hint, retryable=False) from error
    if done.returncode:
        raise SandboxFault(
            f"mmdebstrap {suite} failed: {done.text[-800:]}", kind="docker_base", hint=hint, retryable=False
        )


def host_suite() -> str:
    """The Debian release that this host's interpreters find their libraries in; bookworm where this is no Debian."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    told = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    name = told.get("VERSION_CODENAME", "").strip('"')
    return name if name and told.get("ID", "").strip('"') == "debian" else "bookworm"


def interpreter(minor: str) -> Path | None:
    """The prefix of a Python of this host that can be laid elsewhere; None where there is none."""
    home = Path.home()
    places = [
        *sorted(home.glob(f".pyenv/versions/{minor}.*/bin/python{minor}"), reverse=True),
        *sorted(home.glob(f".local/share/uv/python/cpython-{minor}.*/bin/python{minor}"), reverse=True),
    ]
    found = shutil.which(f"python{minor}")
    for place in [*places, *([Path(found)] if found else [])]:
        prefix = place.resolve().parent.parent
        # The distribution's own is spread over /usr.
        if prefix != Path("/usr") and (prefix / "lib" / f"python{minor}" / "os.py").is_file():
            return prefix
    return None


def packed(prefix: Path, to: IO[bytes]) -> None:
    """Write the build context of ``Debian.Dockerfile`` with the interpreter of ``prefix``."""
    dockerfile = (files("taskforge_images") / "python" / "Debian.Dockerfile").read_bytes()
    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size, member.mtime = len(dockerfile), _EPOCH
        archive.addfile(member, io.BytesIO(dockerfile))
        for path in _kept(prefix, ""):
            archive.add(path, f"python/{path.relative_to(prefix)}", recursive=False, filter=_nobodys)


def _kept(folder: Path, inside: str) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        place = f"{inside}{path.name}"
        if _LEFT_OUT.fullmatch(place):
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _kept(path, f"{place}/")


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
