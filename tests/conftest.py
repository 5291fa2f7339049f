"""What tests share: real parts only. Caches lie outside the tree, so that a second run fetches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.corpus.bundle import Bundle
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.candidate import Forge
from taskforge.generate.options import Options
from taskforge.generate.product import product
from taskforge.generate.progress import Stages
from taskforge.generate.protect import protected_paths
from taskforge.generate.remove import project_files
from taskforge.generate.select import Wanted, select
from taskforge.generate.testmap import build_testmap
from taskforge.grade import Grader
from taskforge.languages import language
from taskforge.model import Source, TestMap
from taskforge.sandbox import Backend, Environment, Limits, SandboxSpec, backend
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


@pytest.fixture(scope="session")
def calc_map(
    calc: Snapshot, calc_environment: Environment, calc_protected: tuple[str, ...], bubblewrap: Backend
) -> TestMap:
    with Pool(bubblewrap, size=0) as pool:
        return build_testmap(
            calc.tree, calc_environment, pool=pool, protected=calc_protected, limits=Limits(), runs=2, jobs=2
        )


@pytest.fixture(scope="session")
def calc_forge(calc: Snapshot, calc_environment: Environment, calc_map: TestMap, bubblewrap: Backend) -> Iterator[Forge]:
    python = language("python")
    protected = protected_paths(calc.tree, python)
    with Pool(bubblewrap, size=1) as pool:
        yield Forge(
            snapshot=calc,
            test_map=calc_map,
            project=python.project(project_files(calc.tree), is_product=product(python, protected, ())),
            language=python,
            environment=calc_environment,
            pool=pool,
            limits=Limits(),
            options=Options(reference_runs=1),
        )


@pytest.fixture(scope="session")
def evaluate_bundle(calc_forge: Forge) -> Bundle:
    """A proven task: implement ``evaluate`` again."""
    selection = select(calc_forge.project.units, calc_forge.test_map, Wanted())
    candidate = next(one for one in selection.candidates if one.name == "evaluate")
    return calc_forge.make(candidate, Stages())


@pytest.fixture
def evaluate_grader(evaluate_bundle: Bundle, calc_environment: Environment, pool: Pool) -> Grader:
    return Grader(evaluate_bundle, calc_environment, pool, limits=Limits(memory_mb=300, disk_mb=32))
