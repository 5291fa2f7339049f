"""A virtual environment made by hand, file by file: nothing that is installed in it ever runs on the host."""

from __future__ import annotations

import configparser
import hashlib
import io
import logging
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from taskforge import process
from taskforge.errors import EnvironmentBuildError
from taskforge.generate.interpreters import Interpreter
from taskforge.generate.lock import install
from taskforge.model.tree import check_path

__all__ = ["add_wheel", "create", "manifest", "top_levels", "workspace_path"]

log = logging.getLogger("taskforge.environment")

_SHEBANG = b"#!/env/bin/python\n"

_SCRIPT = """\
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({call}())
"""


#: What Python imports by itself when it starts, from wherever it finds it first.
STARTUP = ("sitecustomize.py", "usercustomize.py")


_COMPILE = """\
import sys
sys.path.remove("")
import compileall, py_compile
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
sys.exit(not compileall.compile_dir(sys.argv[1], ddir=sys.argv[2], quiet=1, invalidation_mode=mode))
"""


def create(root: Path, lines: Sequence[str], python: Interpreter, *, step: str) -> Path:
    """Lay out an environment at ``root``, to be bound at ``/env``, install a lock in it, and return its site-packages.

    Raises:
        EnvironmentBuildError: when a wheel cannot be installed.
    """
    site = root / "lib" / f"python{python.minor}" / "site-packages"
    binaries = root / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(python.path)
    for name in ("python3", f"python{python.minor}"):
        (binaries / name).symlink_to("python")
    (root / "pyvenv.cfg").write_text(
        f"home = {python.path.parent}\ninclude-system-site-packages = false\nversion = {python.version}\n",
        encoding="utf-8",
    )
    install(lines, site, python, step=step)
    for name in STARTUP:
        # Site-packages come before the folders that .pth files add: one of the workspace's never wins.
        if not (site / name).exists():
            (site / name).write_text("# Here, so that none of the workspace is imported.\n", encoding="utf-8")
    _precompile(site, python)
    scripts = site / "bin"
    if scripts.is_dir():
        for script in sorted(scripts.iterdir()):
            _move_script(script, binaries / script.name)
        shutil.rmtree(scripts)
    return site


def _precompile(site: Path, python: Interpreter) -> None:
    """Write the bytecode that no sandbox can keep. Compiling runs nothing of what it compiles.

    Unchecked hashes and one seed make the same files of the same sources (older Pythons write sets in the order of
    their hashes); the folder recorded is the one inside the sandbox.
    """
    inside = f"/env/lib/python{python.minor}/site-packages"
    # Not -I, which would not hear of the seed. Where it runs lies nothing that could be imported instead.
    argv = [str(python.path), "-s", "-S", "-c", _COMPILE, str(site), inside]
    try:
        done = process.run(argv, timeout=300, cwd=Path("/"), env={"PYTHONHASHSEED": "0"})
    except process.ProcessTimeoutError as error:
        log.info("bytecode is left to each sandbox: %s", error)
        return
    if done.returncode:
        # Templates and sources for other Pythons do not compile, and are not imported either.
        log.debug("not all of %s compiles: %s", site, done.text[-500:])


def _move_script(script: Path, target: Path) -> None:
    if script.is_symlink() or not script.is_file() or target.is_symlink() or target.exists():
        return
    _write_script(target, script.read_bytes())


def _write_script(target: Path, data: bytes) -> None:
    # Long interpreter paths come as a shell line that Python reads as a string; both forms end in the same script.
    data = re.sub(rb"\A#!/bin/sh\n'''exec' [^\n]*\n' '''\n", _SHEBANG, data)
    data = re.sub(rb"\A#![^\n]*python[^\n]*\n", _SHEBANG, data)
    target.write_bytes(data)
    target.chmod(0o755)


def add_wheel(wheel: bytes, root: Path, site: Path, *, python: Interpreter, metadata_only: bool) -> None:
    """Unpack a wheel that the project's own build made, with its console scripts; it is never trusted with a path.

    With ``metadata_only``, its code stays behind: what is under test comes from the workspace.

    Raises:
        EnvironmentBuildError: when it is no wheel, or a member would leave the environment.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            for info in archive.infolist():
                if info.is_dir() or info.filename.endswith(".dist-info/direct_url.json"):
                    continue
                target = _target(check_path(info.filename), root, site)
                if target is None or (metadata_only and ".dist-info/" not in info.filename):
                    continue
                data = archive.read(info)
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.parent == root / "bin":
                    _write_script(target, data)
                else:
                    target.write_bytes(data)
                if info.filename.endswith(".dist-info/entry_points.txt"):
                    _console_scripts(data, root / "bin", python)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError) as error:
        raise EnvironmentBuildError(
            f"installing the project failed: its build made a wheel that cannot be unpacked: {error}",
            hint="look at the project's build backend",
        ) from None


def _target(path: str, root: Path, site: Path) -> Path | None:
    first, _, rest = path.partition("/")
    if not first.endswith(".data"):
        return site / path
    scheme, _, inner = rest.partition("/")
    base = {"purelib": site, "platlib": site, "scripts": root / "bin", "data": root}.get(scheme)
    return base / inner if base is not None and inner else None


def _console_scripts(data: bytes, binaries: Path, python: Interpreter) -> None:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(data.decode("utf-8"))
    if not parser.has_section("console_scripts"):
        return
    taken = {"python", "python3", f"python{python.minor}"}
    for name, reference in parser.items("console_scripts"):
        found = re.fullmatch(r"([\w.]+)\s*:\s*([\w.]+)\s*(\[.*\])?", reference.strip())
        if found and re.fullmatch(r"[\w.+-]+", name) and name not in taken:
            text = _SCRIPT.format(module=found[1], first=found[2].split(".")[0], call=found[2])
            _write_script(binaries / name, _SHEBANG + text.encode())


def workspace_path(site: Path, *, source: str) -> None:
    """Put ``/workspace/<source>`` on the path, for trees and backends without an editable install of their own."""
    place = f"/workspace/{source}" if source else "/workspace"
    (site / "__taskforge_workspace.pth").write_text(f"{place}\n", encoding="utf-8")


def top_levels(site: Path) -> frozenset[str]:
    """Names that can be imported from a site-packages folder, editable installs apart."""
    return frozenset(item.name.split(".", 1)[0] for item in site.iterdir() if not item.name.endswith(".dist-info"))


def manifest(root: Path) -> dict[str, str]:
    """SHA-256 hex of every file below ``root`` by its path; of a link, ``link:`` and its target."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = f"link:{path.readlink()}"
        elif path.is_file():
            with path.open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found
