"""What is exported with an environment, beside the recipe: read, not built (tests/e2e builds it)."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from taskforge.errors import EnvironmentBuildError, StoreFault
from taskforge.generate.environment_dockerfile import environment_files, equivalent_dockerfile, project_part
from taskforge.model import Entry, Recipe, Tree
from taskforge.sandbox import Environment
from taskforge.sandbox.environments import unpack

SITE = "lib/python3.12/site-packages"
SOURCE = b"def secret():\n    return 42\n"
#: An environment with a wheel ``dep`` of the lock and an editable project ``demo``.
FILES = {
    "bin/dep": b"#!/env/bin/python\n",
    "bin/demo": b"#!/env/bin/python\nimport demo\n",
    "pyvenv.cfg": b"home = /here\n",
    f"{SITE}/dep/__init__.py": b"x = 1\n",
    f"{SITE}/dep/__pycache__/__init__.cpython-312.pyc": b"code",
    f"{SITE}/dep-1.0.dist-info/METADATA": b"Name: dep\n",
    f"{SITE}/dep-1.0.dist-info/RECORD": b'bin/dep,,\ndep/__init__.py,,\ndep-1.0.dist-info/METADATA,,\n"dep-1.0.dist-info/RECORD",,\n',
    f"{SITE}/demo-2.dist-info/METADATA": b"Name: demo\n\nThe long description.\n",
    f"{SITE}/demo-2.dist-info/RECORD": b"demo.pth,,\n",
    f"{SITE}/demo.pth": b"/workspace/src\n",
    f"{SITE}/sitecustomize.py": b"# Here\n",
}
PROJECT = {
    "bin/demo", f"{SITE}/demo.pth", f"{SITE}/demo-2.dist-info/METADATA", f"{SITE}/demo-2.dist-info/RECORD",
    f"{SITE}/sitecustomize.py",
}  # fmt: skip
TREE = Tree({"src/demo/__init__.py": Entry(SOURCE), "src/demo/empty.py": Entry(b"\n")})

Made = tuple[Recipe, Environment]


def make(folder: Path, *, overlay: Tree | None = None, variables: dict[str, str] | None = None) -> Made:
    for name, data in FILES.items():
        path = folder / "env" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for script in ("dep", "demo"):
        (folder / "env" / "bin" / script).chmod(0o755)
    (folder / "env" / "bin" / "python").symlink_to("/here/python3.12")
    recipe = Recipe(
        snapshot="5" * 64, python="3.12.1", lock=("dep==1.0 --hash=sha256:00",), variables=variables or {}
    )
    environment = Environment(
        digest=recipe.digest, root=folder / "env", interpreter=Path("/here/python3.12"), base_prefix=Path("/here"),
        python=recipe.python, overlay=overlay or Tree({}), variables=recipe.variables,
    )  # fmt: skip
    return recipe, environment


def test_the_projects_part_is_all_but_the_wheels(tmp_path: Path) -> None:
    recipe, environment = make(tmp_path)
    part = project_part(recipe, environment, TREE)
    assert set(part) == PROJECT
    assert part["bin/demo"] == Entry(FILES["bin/demo"], "exec")
    assert part[f"{SITE}/demo.pth"] == Entry(b"/workspace/src\n")


@pytest.mark.parametrize("place", [f"{SITE}/demo/__init__.py", "share/copy.txt"])
def test_source_of_the_project_is_refused(tmp_path: Path, place: str) -> None:
    recipe, environment = make(tmp_path)
    target = environment.root / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(SOURCE)
    with pytest.raises(EnvironmentBuildError, match=f"{place} is a file of the snapshot") as caught:
        environment_files(recipe, environment, TREE)
    assert "point to the source" in caught.value.hint


def test_a_file_without_text_is_no_copy(tmp_path: Path) -> None:
    recipe, environment = make(tmp_path)
    (environment.root / SITE / "empty.py").write_bytes(b"\n")
    assert f"{SITE}/empty.py" in project_part(recipe, environment, TREE)


def test_the_same_files_on_every_host(tmp_path: Path) -> None:
    overlay = Tree({"src/demo/_version.py": Entry(b"version = '2'\n")})
    one, two = (environment_files(*make(tmp_path / name, overlay=overlay), TREE) for name in "ab")
    assert one == two
    assert set(one) == {"Dockerfile", "lock.txt", "manifest.json", "project.tar", "finish.py", "overlay.tar"}
    assert unpack(one["overlay.tar"]) == overlay
    assert one["lock.txt"] == b"dep==1.0 --hash=sha256:00\n"
    told = json.loads(one["manifest.json"])
    left_out = {"pyvenv.cfg", f"{SITE}/dep/__pycache__/__init__.cpython-312.pyc"}
    assert told == {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items() if name not in left_out}
    # What an archive of the same files would tell of this host, this one does not.
    with tarfile.open(fileobj=io.BytesIO(one["project.tar"])) as archive:
        assert {(it.uid, it.gid, it.mtime, it.uname) for it in archive} == {(0, 0, 0, "")}
    assert b"/here" not in b"".join(one.values())


def test_an_overlay_is_laid_where_there_is_one(tmp_path: Path) -> None:
    plain = equivalent_dockerfile(*make(tmp_path / "a"))
    assert "overlay" not in plain
    laid = equivalent_dockerfile(*make(tmp_path / "b", overlay=Tree({"x.so": Entry(b"\x7fELF")})))
    assert "\nADD overlay.tar /workspace/\n" in laid
    assert "unpack overlay.tar into the volume" in laid


def test_the_dockerfile_names_the_python_and_the_variables(tmp_path: Path) -> None:
    text = equivalent_dockerfile(*make(tmp_path, variables={"SAID": 'a "b" \\ $HOME'}))
    assert "\nARG BASE=python:3.12-slim\nFROM ${BASE} AS clean\n" in text
    assert "--require-hashes --no-deps --only-binary :all:" in text
    assert '\n    SAID="a \\"b\\" \\\\ \\$HOME" \\\n' in text
    assert '\n    PYTHONHASHSEED="0" \\\n' in text
    assert text.index("FROM scratch") < text.index("COPY --from=clean / /") < text.index("ENV HOME=")
    assert max(map(len, text.splitlines())) <= 120


def test_a_variable_of_two_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match="the variable SAID of the environment has a line break"):
        equivalent_dockerfile(*make(tmp_path, variables={"SAID": "a\nRUN b"}))


def test_a_damaged_environment_is_a_fault(tmp_path: Path) -> None:
    recipe, environment = make(tmp_path)
    (environment.root / SITE / "dep-1.0.dist-info" / "RECORD").write_bytes(b"\xff\n")
    with pytest.raises(StoreFault, match="cannot be read"):
        environment_files(recipe, environment, TREE)


