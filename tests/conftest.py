"""What tests share: real parts only. Caches lie outside the tree, so that a second run fetches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.protect import protected_paths
from taskforge.languages import language
from taskforge.model import Source
from taskforge.sandbox import Backend, Environment, SandboxSpec, backend
from taskforge.sandbox.pool import Pool

REPOS = Path(__file__).parent / "repos"


@pytest.fixture(scope="session")
def cache() -> Path:
    named = os.environ.get("TASKFORGE_TEST_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "taskforge-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def bubblewrap() -> Backend:
    return backend("bubblewrap")


@pytest.fixture(scope="session")
def calc(cache: Path) -> Snapshot:
    """The fixture repository."""
    return acquire(Source.parse(str(REPOS / "calc")), cache=cache, index_url="", timeout=60)


@pytest.fixture(scope="session")
def calc_environment(calc: Snapshot, bubblewrap: Backend, cache: Path) -> Environment:
    return environments.build(calc, backend=bubblewrap, cache=cache, log=print)[1]


@pytest.fixture(scope="session")
def calc_protected(calc: Snapshot) -> tuple[str, ...]:
    return protected_paths(calc.tree, language("python"))


@pytest.fixture
def pool(bubblewrap: Backend) -> Iterator[Pool]:
    with Pool(bubblewrap, size=1) as made:
        yield made


@pytest.fixture(scope="session")
def calc_spec(calc: Snapshot, calc_environment: Environment, calc_protected: tuple[str, ...]) -> SandboxSpec:
    return SandboxSpec(environment=calc_environment, tree=calc.tree, protected=calc_protected)
