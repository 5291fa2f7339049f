"""Tests import the workspace, never another copy of it; and no copy of the answer is in what a solver gets."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from taskforge.corpus import Corpus
from taskforge.errors import EnvironmentBuildError
from taskforge.generate import environment as environments
from taskforge.generate.pipeline import Options, Report, generate
from taskforge.generate.seal import git_workspace
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.model import Source
from taskforge.sandbox import Backend, backend
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from tests.e2e.layers import layer_files

MARKER = "a-marker-that-nothing-else-has"
VENDORED = """\
def shorten(text, width):
    \"\"\"Cut a text to a width, with dots where something was cut.\"\"\"
    if len(text) <= width:
        return text
    return text[: max(0, width - 3)] + "..."
"""
PACKAGE = f"""\
from pkg.vendored import shorten


def total(prices, rebate=0):
    \"\"\"The sum of all prices, less a rebate in percent; never negative.\"\"\"
    note = "{MARKER}"
    whole = sum(prices) if note else 0
    return max(0, whole - whole * rebate / 100)
"""
TESTS = """\
import pkg
from pkg import shorten, total

def test_origin():
    assert pkg.__file__ == "/workspace/{root}pkg/__init__.py"

def test_total():
    assert total([10, 20], 50) == 15
    assert total([]) == 0

def test_shorten():
    assert shorten("a long text", 6) == "a l..."
"""


def wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    """A wheel with a record, as an index has it."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    whole = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in whole.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*whole, f"{info}/RECORD")))


def project(folder: Path, *, root: str, needs: str) -> Source:
    """``pkg`` below ``root``, whose tests require the distribution ``needs``."""
    files = {
        "pyproject.toml": f'[dependency-groups]\ntest = ["{needs}"]\n',
        f"{root}pkg/__init__.py": PACKAGE,
        f"{root}pkg/vendored.py": VENDORED,
        "tests/test_pkg.py": TESTS.format(root=root),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return Source.parse(str(folder))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, beside those of the index."""
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "wheels"


def run(source: Source, out: Path, cache: Path, chosen: Backend) -> Report:
    options = Options(jobs=2, baseline_runs=1)
    return generate(source, out, options, settings=Settings(cache_dir=cache), backend=chosen)


@pytest.mark.parametrize("root", ["src/", ""], ids=["the copy is imported", "the workspace is imported"])
@pytest.mark.parametrize("text", [PACKAGE, "old = 1\n"], ids=["the same", "another version"])
def test_a_copy_that_the_tests_require_is_refused(
    root: str, text: str, wheels: Path, tmp_path: Path, cache: Path, bubblewrap: Backend
) -> None:
    name = f"tf_copied_{hashlib.sha256((root + text).encode()).hexdigest()[:8]}"
    wheel(wheels, name, {"pkg/__init__.py": text, "pkg/vendored.py": VENDORED})
    source = project(tmp_path / "project", root=root, needs=name)
    with pytest.raises(EnvironmentBuildError, match="holds another copy of the project: pkg/__init__.py") as caught:
        run(source, tmp_path / "corpus", cache, bubblewrap)
    assert f"{name} brings it" in caught.value.message
    assert caught.value.hint == f"leave {name} out of the test requirements"
    assert not list((tmp_path / "corpus" / "public").glob("tasks/*"))


def test_a_vendored_module_that_is_installed_too_makes_no_task(
    wheels: Path, tmp_path: Path, cache: Path, bubblewrap: Backend
) -> None:
    wheel(wheels, "tf_shortener", {"tf_shortener/text.py": VENDORED, "tf_shortener/__init__.py": ""})
    report = run(project(tmp_path / "p", root="src/", needs="tf_shortener"), tmp_path / "corpus", cache, bubblewrap)
    assert report.skipped_files == {"src/pkg/vendored.py": "in_environment"}
    assert [name.split(".stub-")[1].split("-")[0] for name in report.tasks] == ["total"]


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> tuple[Backend, Corpus, Report]:
    """The twin: what the tests require is another project's, and both functions become tasks."""
    chosen, folder = backend(request.param), tmp_path_factory.mktemp("made")
    wheel(folder / "wheels", "tf_helper", {"tf_helper/__init__.py": "x = 1\n"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_FIND_LINKS", str(folder / "wheels"))
        report = run(project(folder / "p", root="src/", needs="tf_helper"), folder / "corpus", cache, chosen)
    return chosen, Corpus.open(folder / "corpus"), report


def test_another_requirement_is_fine_and_a_shadow_is_not(made: tuple[Backend, Corpus, Report], cache: Path) -> None:
    chosen, corpus, report = made
    assert sorted(name.split(".stub-")[1].split("-")[0] for name in report.tasks) == ["shorten", "total"]
    bundle = corpus.bundle(next(name for name in report.tasks if "stub-total" in name))
    recipe = corpus.recipe(bundle.card.environment)
    environment = environments.ensure(recipe, lambda: corpus.snapshot(recipe.snapshot), backend=chosen, cache=cache)
    assert bundle.tests.fail_to_pass == ("tests/test_pkg.py::test_total",)
    assert "tests/test_pkg.py::test_origin" in bundle.tests.pass_to_pass
    # The workspace's root comes before site-packages and before src: a copy there is imported instead.
    added = "".join(
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(text.splitlines())} @@\n" + "".join(f"+{line}\n" for line in text.splitlines())
        for path, text in (("pkg/__init__.py", PACKAGE), ("pkg/vendored.py", VENDORED))
    )
    shadow = Submission.patch(added.encode())
    beside = Submission.patch(added.replace("pkg/", "other/").encode() + bundle.reference_patch)
    with Pool(chosen, size=1) as pool:
        grader = Grader(bundle, environment, pool)
        assert grader.grade(reference_of(bundle)).outcome == "resolved"
        assert grader.grade(beside).outcome == "resolved"
        verdict = grader.grade(shadow)
    assert (verdict.outcome, verdict.reward) == ("failed", 0.0)
    assert {test.id: test.outcome for test in verdict.tests if test.outcome != "passed"} == {
        "tests/test_pkg.py::test_origin": "failed"
    }


@pytest.fixture
def api() -> Iterator[Any]:
    client = docker.from_env(timeout=120)
    yield client.api
    client.close()


@pytest.mark.parametrize("made", ["docker"], indirect=True)
def test_no_layer_and_no_public_file_has_the_removed_code(
    made: tuple[Backend, Corpus, Report], api: Any, tmp_path: Path
) -> None:
    _chosen, corpus, report = made
    task = next(name for name in report.tasks if "stub-total" in name)
    card = corpus.card(task)
    marker = MARKER.encode()
    assert marker in corpus.bundle(task).reference_patch
    images = [one for one in api.images() if card.environment in (one["Labels"] or {}).values()]
    assert images
    for image in images:
        seen = 0
        for name, data in layer_files(api, image["Id"]):
            seen += name.startswith("env/")
            assert marker not in data, name
            assert b"def total(prices" not in data, name
        assert seen > 100
    public = [corpus.public / "tasks" / task, corpus.public / "environments" / card.environment]
    files = [path for folder in public for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 8
    assert [path for path in files if marker in path.read_bytes()] == []
    workspace = corpus.workspace(task)
    assert b"def total(prices" in workspace["src/pkg/__init__.py"].data
    git_workspace(workspace, tmp_path / "git")
    laid = [path for path in (tmp_path / "git").rglob("*") if path.is_file()]
    assert [path for path in laid if marker in path.read_bytes()] == []
