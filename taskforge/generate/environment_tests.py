"""The tests' lock: as much of what the project asks for as can be had, and what could not be had is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from taskforge.errors import EnvironmentBuildError
from taskforge.generate.detect import Detected
from taskforge.generate.detect_imports import distribution_for
from taskforge.generate.environment_requirements import applies
from taskforge.generate.interpreters import Interpreter
from taskforge.generate.lock import Lock, compile_lock

__all__ = ["resolve_tests"]

_STEP = "resolving the tests' requirements"


def resolve_tests(
    runtime: Sequence[str],
    extras: Sequence[str],
    detected: Detected,
    python: Interpreter,
    log: Callable[[str], None],
    *,
    project: str,
) -> Lock:
    """Lock pytest, the project's ``runtime`` requirements, those of its test ``extras``, and all that tests ask for.

    What tests ask for gives way: versions of requirements files first, then single requirements that no index has as a
    wheel for this Python, or that would install a copy of ``project`` itself. The project's own requirements never do.

    Raises:
        EnvironmentBuildError: when the project's own requirements cannot be satisfied, or there is no network.
    """
    groups = [*(line for line in extras if line not in runtime), *_here(detected.groups, python, project)]
    pinned = _here(detected.pinned, python, project)
    own = [*runtime, "pytest"]
    lock = _try([*own, *groups, *pinned], python)
    if isinstance(lock, EnvironmentBuildError) and pinned:
        loose = sorted({Requirement(line).name for line in pinned})
        again = _try([*own, *groups, *loose], python)
        if isinstance(again, Lock):
            log("the versions in the tests' requirements files do not fit together here: others were chosen")
            lock = again
    if isinstance(lock, EnvironmentBuildError):
        lock = _one_by_one(own, [*groups, *sorted({Requirement(line).name for line in pinned})], python, project, log)
    elif project in lock.names:
        lock = _one_by_one(own, [*groups, *pinned], python, project, log)
    return _with_imports(lock, detected, python, project, log)


def _here(lines: Sequence[str], python: Interpreter, project: str) -> list[str]:
    parsed = {line: Requirement(line) for line in lines}
    return [line for line, one in parsed.items() if applies(one, python) and canonicalize_name(one.name) != project]


def _try(lines: Sequence[str], python: Interpreter, constraints: Sequence[str] = ()) -> Lock | EnvironmentBuildError:
    try:
        return compile_lock(lines, python, step=_STEP, constraints=constraints)
    except EnvironmentBuildError as error:
        if "no network" in error.hint:
            raise
        return error


def _one_by_one(
    own: Sequence[str], asked: Sequence[str], python: Interpreter, project: str, log: Callable[[str], None]
) -> Lock:
    lock = compile_lock(own, python, step=_STEP)
    kept: list[str] = list(own)
    for line in asked:
        tried = _try([*kept, line], python)
        if isinstance(tried, Lock) and project in tried.names - lock.names:
            log(f"the tests ask for {line}, which would install a copy of {project} itself: left out")
        elif isinstance(tried, Lock):
            kept.append(line)
            lock = tried
        else:
            log(f"the tests ask for {line}, which cannot be had here: left out")
    return lock


def _with_imports(
    lock: Lock, detected: Detected, python: Interpreter, project: str, log: Callable[[str], None]
) -> Lock:
    """Add what test files import and nobody declares; a name that leads nowhere is left alone."""
    wanted = {str(canonicalize_name(name)) for module in detected.imports if (name := distribution_for(module))}
    missing = sorted(wanted - lock.names - {detected.name, project})
    # Whatever is locked stays as it is: an import has no say in versions.
    pins = [line.split(" ", 1)[0] for line in lock.lines]
    for name in missing:
        tried = _try([*pins, name], python)
        if isinstance(tried, Lock) and project not in tried.names - lock.names:
            log(f"the tests import {name}, which nothing declares: added")
            lock = Lock(tried.lines, {**tried.via, **lock.via})
            pins = [line.split(" ", 1)[0] for line in lock.lines]
        else:
            log(f"the tests import {name}, which nothing declares and cannot be had: left alone")
    return lock
