"""Every backend is held to the same suite. A new one adds its name to ``taskforge.sandbox.BACKENDS`` and its variants
to ``VARIANTS``; nothing else here knows of any."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from taskforge.model import Entry, Tree
from taskforge.sandbox import BACKENDS, Backend, Environment, Limits, RunResult, Sandbox, SandboxSpec, backend
from taskforge.sandbox import PytestJob as Job
from taskforge.sandbox.bubblewrap import Bubblewrap
from tests.conformance.daemons import daemon, mounts, registry, second_daemon
from tests.conformance.small_images import second

__all__ = ["registry", "second", "second_daemon"]

#: Ways to hold the limits, by name: each is a backend of its own for the tests of limits.
VARIANTS: Mapping[str, Callable[[], Backend]] = {
    **{name: lambda name=name: backend(name) for name in BACKENDS},  # type: ignore[misc]
    "bubblewrap, polling": lambda: Bubblewrap(cgroups=False),
}
#: Path of a JSON file with an environment, when the suite runs as a user who cannot build one.
GIVEN = "TASKFORGE_CONFORMANCE_ENVIRONMENT"

Box = Callable[..., Sandbox]


@pytest.fixture(scope="session", params=sorted(BACKENDS))
def engine(request: pytest.FixtureRequest) -> Backend:
    """Every backend."""
    return backend(request.param)


@pytest.fixture(scope="session", params=sorted(VARIANTS))
def limiter(request: pytest.FixtureRequest) -> Backend:
    """Every backend, in every way that it holds limits."""
    return VARIANTS[request.param]()


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest) -> Environment:
    named = os.environ.get(GIVEN)
    if not named:
        found: Environment = request.getfixturevalue("calc_environment")
        return found
    told = json.loads(Path(named).read_text(encoding="utf-8"))
    paths = {key: Path(told[key]) for key in ("root", "interpreter", "base_prefix")}
    return Environment(digest="0" * 64, python=told["python"], overlay=Tree({}), **paths)


def _factory(engine: Backend, environment: Environment, stack: ExitStack) -> Box:
    def start(
        files: Mapping[str, bytes | Entry] | None = None,
        *,
        protected: tuple[str, ...] = (),
        **limits: Any,
    ) -> Sandbox:
        tree = Tree({
            path: entry if isinstance(entry, Entry) else Entry(entry) for path, entry in (files or {}).items()
        })  # fmt: skip
        spec = SandboxSpec(environment=environment, tree=tree, protected=protected, limits=Limits(**limits))
        return stack.enter_context(engine.start(spec))

    return start


@pytest.fixture
def box(engine: Backend, environment: Environment) -> Iterator[Box]:
    """Starts sandboxes from files, protected paths and limits; all are closed after the test."""
    with ExitStack() as stack:
        yield _factory(engine, environment, stack)


@pytest.fixture
def limited_box(limiter: Backend, environment: Environment) -> Iterator[Box]:
    with ExitStack() as stack:
        yield _factory(limiter, environment, stack)


@pytest.fixture
def python() -> Callable[..., Any]:
    """Runs Python code inside as a command: ``python(sandbox, code, *args)``."""

    def call(sandbox: Sandbox, code: str, *args: str, timeout: float = 30.0) -> Any:
        return sandbox.exec(["/env/bin/python", "-c", code, *args], timeout=timeout)

    return call


@pytest.fixture
def suite(box: Box) -> Callable[..., tuple[RunResult, dict[str, str]]]:
    """Runs one test file; returns the result, and the outcomes by the tests' names in the order of the reports."""

    def call(source: str, *, sandbox: Sandbox | None = None, **job: Any) -> tuple[RunResult, dict[str, str]]:
        files = {"test_it.py": source.encode()}
        used = sandbox if sandbox is not None else box(files)
        if sandbox is not None:
            used.lay({path: Entry(data) for path, data in files.items()})
        result = used.run(Job(**{"default_limit": 20.0, **job}))
        return result, {report.id.partition("::")[2]: report.outcome for report in result.reports}

    return call


@pytest.fixture(scope="session")
def start_daemon() -> Callable[..., AbstractContextManager[str]]:
    """Starts a Docker daemon of the test's own: ``with start_daemon(folder, *arguments) as address``."""
    return daemon


@pytest.fixture(scope="module")
def daemon_folder() -> Iterator[Path]:
    """A folder with a short path for a daemon; removed with all that the daemon left in it."""
    folder = Path(tempfile.mkdtemp(prefix="tf-dockerd-", dir="/var/tmp"))
    yield folder
    for place in mounts(folder):
        subprocess.run(["umount", "--lazy", place], check=True)
    shutil.rmtree(folder)
