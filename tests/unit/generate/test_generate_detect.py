"""What trees say of themselves, and what becomes of it."""

from __future__ import annotations

import io
import zipfile

import pytest
from packaging.specifiers import SpecifierSet

from taskforge.errors import EnvironmentBuildError
from taskforge.generate import interpreters
from taskforge.generate.detect import LEGACY_BACKEND, detect
from taskforge.generate.detect_imports import distribution_for
from taskforge.generate.environment_requirements import metadata_of, runtime
from taskforge.generate.lock import locked_names
from taskforge.model import Entry, Tree


def tree(files: dict[str, str]) -> Tree:
    return Tree({name: Entry(text.encode()) for name, text in files.items()})


def test_a_bare_tree_has_nothing_to_install() -> None:
    found = detect(tree({"a.py": "", "pyproject.toml": "[tool.ruff]\n"}))
    assert (found.installable, found.requires_python, found.groups, found.pinned) == (False, None, (), ())


def test_the_build_system_and_its_default() -> None:
    toml = '[build-system]\nrequires = ["flit_core >=3"]\nbuild-backend = "flit_core.buildapi"\nbackend-path = ["b"]\n'
    found = detect(tree({"pyproject.toml": toml}))
    assert found.installable
    assert (found.build_requires, found.backend) == (("flit_core >=3",), "flit_core.buildapi")
    assert found.backend_path == ("b",)
    legacy = detect(tree({"setup.py": "import os; os.abort()\n"}))
    assert legacy.installable
    assert (legacy.build_requires, legacy.backend) == (("setuptools",), LEGACY_BACKEND)


@pytest.mark.parametrize(
    "files",
    [
        {"PKG-INFO": "Name: a\nRequires-Python: >=3.9\n"},
        {"pyproject.toml": '[project]\nname = "a"\nrequires-python = ">=3.9"\n'},
        {"setup.cfg": "[metadata]\nname = a\n[options]\npython_requires = >=3.9\n"},
    ],
)
def test_requires_python_from_every_place(files: dict[str, str]) -> None:
    found = detect(tree(files))
    assert (found.name, found.requires_python) == ("a", ">=3.9")


def test_groups_follow_includes_and_dev_only_stands_in() -> None:
    toml = """
[dependency-groups]
Test = ["a", {include-group = "base"}]
tests = ["d>1", {include-group = "test"}]
base = ["b; python_version > '3'", {include-group = "base"}, {include-group = "gone"}, "not a requirement !!", "tox"]
dev = ["c"]
"""
    found = detect(tree({"pyproject.toml": toml}))
    assert found.groups == ("a", 'b; python_version > "3"', "d>1")
    assert not found.dev
    only_dev = detect(tree({"pyproject.toml": '[dependency-groups]\ndev = ["c", "ruff", "Pre_Commit"]\n'}))
    assert (only_dev.groups, only_dev.dev) == (("c",), True)


def test_extras_by_their_names() -> None:
    toml = '[project]\nname = "x"\n[project.optional-dependencies]\ntesting = ["a"]\ndev = ["b"]\n'
    assert detect(tree({"pyproject.toml": toml})).extras == ("testing",)
    setup = "[metadata]\nname = x\n[options.extras_require]\ntest =\n  a\ndev =\n  b\n"
    assert detect(tree({"setup.cfg": setup})).extras == ("test",)
    assert detect(tree({"PKG-INFO": "Name: x\nProvides-Extra: dev\n"})).extras == ("dev",)


def test_requirements_files_and_tox() -> None:
    found = detect(
        tree({
            "requirements/test.txt": "-r base.txt\na==1 \\\n    --hash=sha256:00\n-e .\n./local\nz @ https://x.org/z\n",
            "requirements/base.txt": "b>=2  # why\n-c constraints.txt\n-r test.txt\n",
            "test_requirements.txt": "c\n",
            "requirements-dev.txt": "never\n",
            "docs/requirements-test.txt": "never\n",
            "tox.ini": "[testenv]\ndeps =\n  d\n  -rtest_requirements.txt\n  py27: never\n  {[base]deps}\n  pip\n",
        })
    )
    assert sorted(found.pinned) == ["a==1", "b>=2", "c", "d"]
    dev = detect(tree({"dev-requirements.txt": "e\n"}))
    assert (dev.pinned, dev.dev) == (("e",), True)


def test_the_tables_of_older_tools() -> None:
    toml = """
[tool.poetry.group.test.dependencies]
python = "^3.8"
responses = "^0.20"
[tool.pdm.dev-dependencies]
test = ["p>1"]
[tool.hatch.envs.hatch-test]
extra-dependencies = ["h"]
"""
    assert detect(tree({"pyproject.toml": toml})).groups == ("responses", "p>1", "h")


def test_imports_that_nobody_declares() -> None:
    found = detect(
        tree({
            "pkg/core.py": "import never",
            "tests/conftest.py": "import yaml, os.path\nfrom . import x\nimport helper\nfrom pkg.core import z\n",
            "tests/helper.py": "from six.moves import q\n",
            "pkg/test_it.py": "try:\n    import optional\nexcept ImportError:\n    pass\ndef f():\n    import lazy\n",
            "tests/broken.py": "print 'two'\n",
            "tests/old.py": "import distutils.core, tomllib\n",
        })
    )
    assert found.imports == {"yaml", "six"}
    assert [distribution_for(name) for name in ("yaml", "six", "a_b", "pip")] == ["PyYAML", "six", "a-b", ""]


def test_files_that_do_not_parse_count_as_absent_and_are_told() -> None:
    found = detect(tree({"pyproject.toml": "[[[", "setup.cfg": "no ini", "tox.ini": "no ini", "tests/test_a.py": "\0"}))
    assert found.notes == ("pyproject.toml does not parse",)
    assert not found.installable


def wheel(metadata: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("p-1.dist-info/METADATA", metadata)
    return out.getvalue()


def test_runtime_requirements_follow_markers_and_the_projects_own_extras() -> None:
    python = interpreters.find(None, None)
    old = interpreters.Interpreter(python.path, "3.9.1", python.base_prefix)
    metadata = metadata_of(
        wheel(
            "Name: My.Proj\nVersion: 1\nProvides-Extra: test\nProvides-Extra: http\nProvides-Extra: docs\n"
            "Requires-Dist: a>1\nRequires-Dist: tomli; python_version < '3.11'\n"
            "Requires-Dist: my_proj[http]; extra == 'test'\nRequires-Dist: b; extra == 'http'\n"
            "Requires-Dist: sphinx; extra == 'docs'\nRequires-Dist: w; sys_platform == 'win32'\n\nbody\n"
        )
    )
    assert (metadata.name, metadata.extras) == ("my-proj", ("test", "http", "docs"))
    assert runtime(metadata, [], old) == ["a>1", "tomli"]
    assert runtime(metadata, ["test"], python) == ["a>1", "b"]


def test_a_wheel_without_metadata_is_an_error() -> None:
    with pytest.raises(EnvironmentBuildError, match="without metadata"):
        metadata_of(b"no wheel")


def test_interpreters_are_real_final_and_chosen_by_what_fits() -> None:
    there = interpreters.available()
    assert there
    for one in there:
        assert one.path.is_file()
        assert not one.path.is_symlink()
        assert one.path.is_relative_to(one.base_prefix)
    chosen = interpreters.find("!= 2.7", None)
    if any(one.minor == "3.12" for one in there):
        assert chosen.minor == "3.12"
    other = there[-1]
    assert interpreters.find(None, other.version).version == other.version
    assert interpreters.find(None, other.minor).minor == other.minor
    assert interpreters.find(None, str(other.path)) == other
    assert SpecifierSet(">=3.8").contains(interpreters.find("no specifier", None).version)


@pytest.mark.parametrize(("requires", "wanted"), [(">=4", None), (None, "2.7"), (None, "/bin/sh")])
def test_no_fitting_interpreter_says_what_there_is(requires: str | None, wanted: str | None) -> None:
    with pytest.raises(EnvironmentBuildError) as caught:
        interpreters.find(requires, wanted)
    assert caught.value.hint


def test_names_of_a_lock() -> None:
    assert locked_names(["Foo_Bar==1 --hash=sha256:00", "a[x]==2"]) == {"foo-bar", "a"}
