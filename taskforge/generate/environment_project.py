"""The project itself: its editable install, made by its own build backend inside a sandbox without a network."""

from __future__ import annotations

import fnmatch
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from taskforge.errors import EnvironmentBuildError
from taskforge.generate import environment_venv as venv
from taskforge.generate.detect import Detected
from taskforge.generate.interpreters import Interpreter
from taskforge.generate.lock import Lock, compile_lock
from taskforge.model import Entry, Tree, digest_of
from taskforge.sandbox import Backend, Environment, ExecResult, Limits, SandboxSpec

__all__ = ["Built", "build_environment", "build_project"]

log = logging.getLogger("taskforge.environment")

_ROUNDS = 4
_SECONDS = 1200.0
_LIMITS = Limits(memory_mb=4096, disk_mb=2048, pids=512, wall_seconds=_SECONDS)

#: Left in the workspace by builds, and needed by nobody afterwards.
_LEFTOVERS = ("*.egg-info", "build", "dist", "__pycache__", "*.pyc", ".eggs", ".pytest_cache")


@dataclass(frozen=True)
class Built:
    """``wheel`` is the editable one; where the backend knows no such thing, a whole one whose metadata alone counts."""

    wheel: bytes
    editable: bool
    overlay: Tree
    build_lock: tuple[str, ...]


def build_environment(lines: Sequence[str], python: Interpreter, cache: Path) -> Environment:
    """The environment in which a build backend runs; the same lock and interpreter share one."""
    digest = digest_of({"build": 1, "lock": list(lines), "python": python.version, "path": str(python.path)})
    place = cache / "environments" / f"build-{digest}"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=place.parent, prefix=".partial-"))
        try:
            venv.create(temporary / "env", lines, python, step="installing the build requirements")
            temporary.chmod(0o755)
            try:
                temporary.rename(place)
            except OSError:
                if not place.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Environment(
        digest=digest,
        root=place / "env",
        interpreter=python.path,
        base_prefix=python.base_prefix,
        python=python.version,
        overlay=Tree({}),
    )


def build_project(
    tree: Tree,
    detected: Detected,
    python: Interpreter,
    *,
    version: str,
    backend: Backend,
    cache: Path,
    lock: Sequence[str] | None = None,
    check: Callable[[Lock], None] | None = None,
) -> Built:
    """Ask the project's build backend for an editable wheel.

    Args:
        version: what version-control plugins are told, since no history is there to ask.
        lock: a recipe's build lock; None resolves the build requirements now.
        check: called with each resolved build lock, may raise.

    Raises:
        EnvironmentBuildError: a step failed; the message has the backend's last lines.
    """
    asked = list(detected.build_requires)
    for _ in range(_ROUNDS):
        lines = lock
        if lines is None:
            resolved = compile_lock(asked, python, step="resolving the build requirements")
            if check is not None:
                check(resolved)
            lines = resolved.lines
        environment = build_environment(lines, python, cache)
        spec = SandboxSpec(environment=environment, tree=tree, profile="build", limits=_LIMITS)
        with backend.start(spec) as sandbox:
            told = {
                "backend": detected.backend,
                "backend_path": list(detected.backend_path),
                "asked": asked,
                # A recipe's lock already holds whatever its backend asked for.
                "final": lock is not None,
            }
            script = resources.files("taskforge.generate").joinpath("environment_hooks.py").read_text(encoding="utf-8")
            ended = sandbox.exec(
                ["/env/bin/python", "-I", "-c", script, json.dumps(told)], timeout=_SECONDS, env=_variables(version)
            )
            if ended.returncode != 0:
                raise _failed(detected, ended)
            out = sandbox.read("/tmp/out")  # noqa: S108 - the sandbox's own
            answer = _answer(out, detected, ended)
            if answer.get("requires"):
                asked += [str(item) for item in answer["requires"]]
                log.debug("the build backend asks for %s more", answer["requires"])
                continue
            wheel = out.get(str(answer.get("wheel")))
            if wheel is None:
                raise _failed(detected, ended)
            overlay = _overlay(tree, sandbox.read("/workspace"))
        return Built(wheel.data, bool(answer.get("editable")), overlay, tuple(lines))
    raise EnvironmentBuildError(
        f"the build backend {detected.backend} keeps asking for more requirements: {', '.join(asked)}",
        hint="list them in pyproject.toml's build-system.requires",
    )


def _answer(out: Tree, detected: Detected, ended: ExecResult) -> dict[str, Any]:
    try:
        told = json.loads(out["answer.json"].data)
    except (KeyError, ValueError):
        raise _failed(detected, ended) from None
    if not isinstance(told, dict):
        raise _failed(detected, ended)
    return told


def _failed(detected: Detected, ended: ExecResult) -> EnvironmentBuildError:
    said = "\n".join(ended.output.decode("utf-8", "replace").strip().splitlines()[-20:])
    how = f"ended with {ended.returncode}" if ended.ended == "done" else f"was stopped: {ended.ended}"
    return EnvironmentBuildError(
        f"building the project with {detected.backend} {how}:\n{said}",
        hint="builds have no network, no git history and only wheels as build requirements",
    )


def _variables(version: str) -> dict[str, str]:
    """Every plugin that takes a version from git has a variable for when there is none."""
    variables = {"HOME": "/tmp", "PATH": "/env/bin:/usr/local/bin:/usr/bin:/bin", "SOURCE_DATE_EPOCH": "946684800"}  # noqa: S108
    names = (
        "SETUPTOOLS_SCM_PRETEND_VERSION",
        "VCS_VERSIONING_PRETEND_VERSION",
        "PDM_BUILD_SCM_VERSION",
        "PBR_VERSION",
        "POETRY_DYNAMIC_VERSIONING_BYPASS",
        "UV_DYNAMIC_VERSIONING_BYPASS",
    )
    return variables | dict.fromkeys(names, version or "0.0.0")


def _overlay(before: Tree, after: Tree) -> Tree:
    """New files of the workspace. What a build changes of the project's own files is not taken over."""
    new: dict[str, Entry] = {}
    for path, entry in after.items():
        parts = path.split("/")
        leftover = any(fnmatch.fnmatchcase(part, pattern) for part in parts for pattern in _LEFTOVERS)
        if path not in before and not leftover:
            new[path] = entry
    return Tree(new)
