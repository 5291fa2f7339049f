"""Environments built for real: wheels from the index, builds in a sandbox, suites that then run."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from taskforge import sandbox
from taskforge.errors import EnvironmentBuildError, TaskRejected
from taskforge.generate import environment_venv, interpreters
from taskforge.generate.acquire import Snapshot
from taskforge.generate.environment import build, ensure
from taskforge.model import Entry, Provenance, Tree
from taskforge.sandbox import Backend, PytestJob, SandboxSpec

#: A build backend in the tree itself, that needs nothing: an editable wheel by hand, and a file for the overlay.
BACKEND = '''
import os, pathlib, zipfile

def _wheel(folder, files):
    for place in ("build", "demo.egg-info", "__pycache__"):
        os.makedirs(place, exist_ok=True)
        pathlib.Path(place, "left.txt").write_text("leftover")
    pathlib.Path("src/demo/_version.py").write_text("version = %r\\n" % os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"])
    name = "demo-1.5-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("demo-1.5.dist-info/METADATA", "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.5\\n")
        wheel.writestr("demo-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\\n")
        wheel.writestr("demo-1.5.dist-info/direct_url.json", "{}")
        entry_points = "demo-1.5.dist-info/entry_points.txt"
        wheel.writestr(entry_points, "[console_scripts]\\ndemo = demo:main\\npython = demo:x\\n")
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
'''
EDITABLE = BACKEND + '''
def build_editable(folder, settings=None, metadata=None):
    return _wheel(folder, {"demo.pth": "/workspace/src\\n"})
'''
OLD = BACKEND + '''
def build_wheel(folder, settings=None, metadata=None):
    return _wheel(folder, {"demo/__init__.py": "raise SystemExit('an installed copy')\\n"})
'''
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "own_build"\nbackend-path = ["."]\n'
SUITE = """
import subprocess, demo, demo._version, importlib.metadata
def test_origin():
    assert demo.__file__ == "/workspace/src/demo/__init__.py"
    assert demo._version.version == "1.5.dev3"
    assert importlib.metadata.version("demo") == "1.5"
def test_script():
    assert subprocess.check_output(["/env/bin/demo"]) == b"hello\\n"
"""


def snapshot(files: dict[str, str], *, name: str = "demo", version: str = "1.5.dev3") -> Snapshot:
    tree = Tree({path: Entry(text.encode()) for path, text in files.items()})
    return Snapshot(tree, Provenance(kind="folder", owner="local", name=name, version=version))


def demo(backend: str) -> Snapshot:
    return snapshot({
        "pyproject.toml": PYPROJECT,
        "own_build.py": backend,
        "src/demo/__init__.py": "def main():\n    print('hello')\n",
        "tests/test_demo.py": SUITE,
    })


@pytest.fixture(scope="module")
def bubblewrap() -> Backend:
    return sandbox.backend("bubblewrap")


@pytest.mark.parametrize("source", [EDITABLE, OLD], ids=["editable", "no editable hook"])
def test_a_build_gives_all_but_a_copy(tmp_path: Path, bubblewrap: Backend, source: str) -> None:
    taken = demo(source)
    said: list[str] = []
    recipe, environment = build(taken, backend=bubblewrap, cache=tmp_path, log=said.append)
    assert list(environment.overlay) == ["src/demo/_version.py"]
    assert recipe.overlay == environment.overlay.digest
    assert recipe.editable
    assert environment.digest == recipe.digest
    assert all("--hash=sha256:" in line for line in recipe.lock)
    assert [line for line in recipe.lock if line.startswith("pytest==")]
    site = environment.root / "lib" / f"python{interpreters.find(None, recipe.python).minor}" / "site-packages"
    assert not (site / "demo").exists()
    assert not list(site.glob("*/direct_url.json"))
    assert not {"pip", "setuptools", "wheel"} & {item.name for item in site.iterdir()}
    assert (environment.root / "bin" / "python").readlink() == environment.interpreter
    assert (environment.root / "bin" / "pytest").read_bytes().startswith(b"#!/env/bin/python\n")
    with bubblewrap.start(SandboxSpec(environment=environment, tree=taken.tree)) as box:
        result = box.run(PytestJob())
    assert {report.id: report.outcome for report in result.reports} == {
        "tests/test_demo.py::test_origin": "passed",
        "tests/test_demo.py::test_script": "passed",
    }
    manifest = json.loads((environment.root.parent / "manifest.json").read_bytes())
    assert manifest == environment_venv.manifest(environment.root)
    # The same snapshot again is found, and says nothing of building.
    again: list[str] = []
    assert build(taken, backend=bubblewrap, cache=tmp_path, log=again.append) == (recipe, environment)
    assert again == []


def test_ensure_rebuilds_the_same_environment_from_its_recipe(tmp_path: Path, bubblewrap: Backend) -> None:
    taken = demo(EDITABLE)
    recipe, first = build(taken, backend=bubblewrap, cache=tmp_path / "a", log=lambda _: None)
    asked: list[int] = []

    def tree() -> Tree:
        asked.append(1)
        return taken.tree

    second = ensure(recipe, tree, backend=bubblewrap, cache=tmp_path / "b")
    assert (second.digest, second.overlay) == (first.digest, first.overlay)
    assert environment_venv.manifest(second.root) == environment_venv.manifest(first.root)
    assert ensure(recipe, tree, backend=bubblewrap, cache=tmp_path / "b") == second
    assert asked == [1]


def test_a_tree_without_a_build_is_put_on_the_path(tmp_path: Path, bubblewrap: Backend) -> None:
    taken = snapshot({"src/lone.py": "x = 1\n", "tests/test_a.py": "import lone\ndef test_a():\n    assert lone.x\n"})
    recipe, environment = build(taken, backend=bubblewrap, cache=tmp_path, log=lambda _: None)
    assert (recipe.editable, recipe.build_lock, recipe.overlay) == (False, (), "")
    with bubblewrap.start(SandboxSpec(environment=environment, tree=taken.tree)) as box:
        assert [report.outcome for report in box.run(PytestJob()).reports] == ["passed"]


def test_an_old_interpreter_gets_the_slow_recorder(tmp_path: Path, bubblewrap: Backend) -> None:
    old = [one for one in interpreters.available() if int(one.minor.split(".")[1]) < 12]
    taken = snapshot({"a.py": "x = 1\n"})
    recipe, environment = build(
        taken, backend=bubblewrap, cache=tmp_path, python=str(old[0].path), log=lambda _: None
    )
    assert recipe.python == old[0].version
    assert environment.tools is not None
    assert (environment.tools / "coverage" / "__init__.py").is_file()
    assert not any(line.startswith("coverage") for line in recipe.lock)


def test_a_failing_build_ends_with_what_the_backend_said(tmp_path: Path, bubblewrap: Backend) -> None:
    taken = demo("raise RuntimeError('own_build is broken')\n")
    with pytest.raises(EnvironmentBuildError, match="own_build is broken") as caught:
        build(taken, backend=bubblewrap, cache=tmp_path, log=lambda _: None)
    assert caught.value.hint


def test_a_build_has_no_network_and_does_not_touch_the_host(tmp_path: Path, bubblewrap: Backend) -> None:
    mark = tmp_path / "mark"
    body = f"import pathlib, socket\ntry:\n    pathlib.Path({str(mark)!r}).write_text('x')\nexcept OSError:\n    pass\n"
    taken = demo(body + "socket.create_connection(('1.1.1.1', 443), 5)\n")
    with pytest.raises(EnvironmentBuildError, match="unreachable"):
        build(taken, backend=bubblewrap, cache=tmp_path / "cache", log=lambda _: None)
    assert not mark.exists()


def test_what_tests_ask_for_gives_way_and_is_told(tmp_path: Path, bubblewrap: Backend) -> None:
    taken = snapshot({
        "a.py": "x = 1\n",
        "requirements-test.txt": "iniconfig==1.0\niniconfig>=2\ntaskforge-no-such-project-at-all\n",
        "tests/test_a.py": "import six\nimport taskforge_no_such_module_at_all\n",
    })
    said: list[str] = []
    recipe, _ = build(taken, backend=bubblewrap, cache=tmp_path, log=said.append)
    names = {line.split("==")[0] for line in recipe.lock}
    assert {"pytest", "iniconfig", "six"} <= names
    assert any("taskforge-no-such-project-at-all, which cannot be had" in line for line in said)
    assert any("import six, which nothing declares: added" in line for line in said)
    assert any("taskforge-no-such-module-at-all, which nothing declares and cannot be had" in line for line in said)


def test_what_would_install_a_copy_of_the_project_is_left_out(tmp_path: Path, bubblewrap: Backend) -> None:
    asked = 'test = ["sortedcontainers[x]", "sortedcollections", "six"]'
    taken = snapshot(
        {
            "pyproject.toml": f"{PYPROJECT}[dependency-groups]\n{asked}\n",
            "own_build.py": EDITABLE.replace("demo", "sortedcontainers"),
            "src/sortedcontainers/__init__.py": "",
        },
        name="sortedcontainers",
    )
    said: list[str] = []
    recipe, _ = build(taken, backend=bubblewrap, cache=tmp_path, log=said.append)
    assert {"six", "pytest"} <= {line.split("==")[0] for line in recipe.lock}
    assert not any(line.startswith("sorted") for line in recipe.lock)
    assert any("sortedcollections, which would install a copy of sortedcontainers itself" in line for line in said)


def test_the_runners_own_dependencies_are_refused_with_the_chain(tmp_path: Path, bubblewrap: Backend) -> None:
    info = "Metadata-Version: 2.1\nName: {}\nVersion: 9\n"
    for name, toml, chain in (
        ("pluggy", PYPROJECT, "pluggy is required by pytest"),
        ("pathspec", '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n', "by hatchling"),
        ("flit_core", '[build-system]\nrequires = ["flit_core"]\nbuild-backend = "flit_core.buildapi"\n', "itself"),
    ):
        files = {"pyproject.toml": toml, "PKG-INFO": info.format(name), "src/demo/__init__.py": ""}
        files["own_build.py"] = EDITABLE.replace("demo", name)
        files[f"src/{name}/__init__.py"] = ""
        with pytest.raises(TaskRejected, match=chain) as caught:
            build(snapshot(files, name=name), backend=bubblewrap, cache=tmp_path, log=lambda _: None)
        assert caught.value.reason == "runner_dependency"


def test_no_network_says_so(tmp_path: Path, bubblewrap: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentBuildError, match="resolving the tests' requirements") as caught:
        build(snapshot({"a.py": ""}), backend=bubblewrap, cache=tmp_path, log=lambda _: None)
    assert "no network" in caught.value.hint


@pytest.mark.parametrize("member", ["../evil.py", "/evil.py", "x/../../evil.py"])
def test_a_wheel_that_would_leave_the_environment_is_refused(tmp_path: Path, member: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, b"")
    root = tmp_path / "env"
    site = root / "site"
    (root / "bin").mkdir(parents=True)
    site.mkdir()
    python = interpreters.available()[0]
    with pytest.raises(EnvironmentBuildError, match="cannot be unpacked"):
        environment_venv.add_wheel(out.getvalue(), root, site, python=python, metadata_only=False)
    assert not list(tmp_path.rglob("evil.py"))
