"""Requirements become a lock, and a lock becomes installed wheels. The one place that starts uv.

Only wheels are ever resolved or installed, so that no code of a package runs on the host, and uv is only ever shown a
base interpreter: never one whose site-packages hold a stranger's ``.pth``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uv
from packaging.utils import canonicalize_name

from taskforge import process
from taskforge.errors import EnvironmentBuildError, StoreFault
from taskforge.generate.interpreters import Interpreter

__all__ = ["Lock", "compile_lock", "install", "locked_names"]

_TIMEOUT = 900.0
_OFFLINE = re.compile(
    r"dns error|failed to lookup|connection refused|network is unreachable|error sending request|could not connect"
    r"|client error \(connect\)|operation timed out|failed to fetch",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Lock:
    """``lines`` are pinned by version and hash, one a project. ``via`` names who asked for each, by normalised name."""

    lines: tuple[str, ...] = ()
    via: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Normalised names of all that is locked."""
        return locked_names(self.lines)


def locked_names(lines: Sequence[str]) -> frozenset[str]:
    """Normalised project names of a lock's lines."""
    return frozenset(str(canonicalize_name(re.split(r"[=\[ ;@]", line, maxsplit=1)[0])) for line in lines)


def compile_lock(
    requirements: Sequence[str], python: Interpreter, *, step: str, constraints: Sequence[str] = ()
) -> Lock:
    """Resolve ``requirements`` for one interpreter, from wheels alone.

    Raises:
        EnvironmentBuildError: when they cannot be satisfied or the index cannot be reached; it starts with ``step``.
    """
    if not requirements:
        return Lock()
    with tempfile.TemporaryDirectory(prefix="taskforge-lock-") as folder:
        (Path(folder) / "requirements.in").write_text("\n".join(requirements) + "\n", encoding="utf-8")
        (Path(folder) / "constraints.txt").write_text("\n".join(constraints) + "\n", encoding="utf-8")
        arguments = ["compile", "requirements.in", "--generate-hashes", "--no-header", "--quiet"]
        arguments += ["--python-version", python.version, "--annotation-style", "split", "--no-emit-index-url"]
        arguments += ["--constraints", "constraints.txt"]
        done = _uv(arguments, python, step=step, cwd=Path(folder))
    return _parse(done.stdout.decode("utf-8"))


def install(lines: Sequence[str], target: Path, python: Interpreter, *, step: str) -> None:
    """Install a lock's wheels into the folder ``target``, each checked against its hash.

    Raises:
        EnvironmentBuildError: when one cannot be had or has another hash.
    """
    target.mkdir(parents=True, exist_ok=True)
    if not lines:
        return
    with tempfile.TemporaryDirectory(prefix="taskforge-lock-") as folder:
        (Path(folder) / "lock.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        arguments = ["install", "--target", str(target), "--no-deps", "--require-hashes", "--link-mode", "copy"]
        arguments += ["--no-compile-bytecode", "--quiet", "-r", "lock.txt"]
        _uv(arguments, python, step=step, cwd=Path(folder))
    (target / ".lock").unlink(missing_ok=True)


def _uv(arguments: Sequence[str], python: Interpreter, *, step: str, cwd: Path) -> process.Completed:
    # An active virtual environment or a Python setting of the caller must not choose the interpreter.
    left_out = ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_PROJECT", "PYTHONPATH", "PYTHONHOME")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    argv = [uv.find_uv_bin(), "pip", *arguments, "--only-binary", ":all:", "--python", str(python.path)]
    argv += ["--no-python-downloads", "--color", "never", "--no-progress"]
    try:
        done = process.run(argv, timeout=_TIMEOUT, cwd=cwd, env=environment, cap=2**26)
    except process.ProcessTimeoutError as error:
        raise EnvironmentBuildError(f"{step}: {error}", hint="check the network and the package index") from None
    except OSError as error:
        raise EnvironmentBuildError(f"{step}: uv cannot be started: {error}", hint="install taskforge anew") from None
    if done.returncode:
        said = "\n".join(done.stderr.decode("utf-8", "replace").strip().splitlines()[-20:])
        if "os error 28" in said:
            raise StoreFault(f"{step} failed:\n{said}", kind="disk_full", hint="free some space for the cache folder")
        if _OFFLINE.search(said):
            hint = "there seems to be no network: check it, or set UV_INDEX_URL to an index that can be reached"
        elif "no wheels" in said.lower() or "no-build" in said or "wheel" in said.lower():
            hint = "only wheels are installed; a dependency that has none for this Python cannot be had"
        else:
            hint = "relax the project's requirements, or choose another interpreter with --python"
        raise EnvironmentBuildError(f"{step} failed:\n{said}", hint=hint)
    return done


def _parse(text: str) -> Lock:
    lines: list[str] = []
    via: dict[str, str] = {}
    name = ""
    for raw in text.splitlines():
        line = raw.strip().removesuffix("\\").strip()
        if not line:
            continue
        if line.startswith("#"):
            asker = line.lstrip("# ").removeprefix("via").strip()
            # Requirements given directly are "-r requirements.in": they explain nothing.
            if name and asker and not asker.startswith(("-r ", "-c ")):
                via.setdefault(name, str(canonicalize_name(asker)))
        elif line.startswith("--hash") and lines:
            lines[-1] += f" {line}"
        elif not line.startswith("-"):
            lines.append(line)
            (name,) = locked_names([line])
    return Lock(tuple(sorted(lines)), via)
