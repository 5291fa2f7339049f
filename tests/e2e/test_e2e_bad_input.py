"""Whatever is wrong with what was given: a clear error, a hint, the right exit code, and never a score."""

from __future__ import annotations

import http.server
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskforge.corpus import Corpus

Cli = Callable[..., Any]
REPO = Path(__file__).parents[1] / "repos" / "calc"
GOOD_DIFF = "--- a/src/calc/core.py\n+++ b/src/calc/core.py\n"


@pytest.fixture(scope="module")
def task(calc_corpus: Path) -> str:
    return Corpus.open(calc_corpus).task_ids()[0]


@pytest.fixture
def damaged(calc_corpus: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(calc_corpus, tmp_path / "corpus")


# -- generate ------------------------------------------------------------------------------------------------------


class _Index(http.server.BaseHTTPRequestHandler):
    """A package index that knows one release, of which there is only a wheel."""

    def do_GET(self) -> None:
        known = self.path == "/simple/wheely/"
        body = json.dumps(
            {
                "meta": {"api-version": "1.1"},
                "name": "wheely",
                "versions": ["1.0"],
                "files": [
                    {
                        "filename": "wheely-1.0-py3-none-any.whl", "url": "wheely-1.0-py3-none-any.whl",
                        "hashes": {"sha256": "0" * 64}, "size": 1,
                    }
                ],
            }
        ).encode()  # fmt: skip
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


@pytest.fixture
def closed_port() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        # Bound, but nobody listens: the port stays closed.
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/simple/"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("pypi:nobody-has-this==1.0", "nobody-has-this"),
        ("pypi:wheely==9.9", "9.9"),
        ("pypi:wheely==1.0", "sdist"),
    ],
)
def test_a_release_that_cannot_be_had(source: str, message: str, index: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("generate", source, "--out", tmp_path / "c", code=5, TASKFORGE_INDEX_URL=index)
    assert message in done.stderr


def test_no_network(closed_port: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("generate", "pypi:wheely==1.0", "--out", tmp_path / "c", code=5, TASKFORGE_INDEX_URL=closed_port)
    assert closed_port.removesuffix("simple/").removesuffix("/") in done.stderr


def git(folder: Path, *argv: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *argv], cwd=folder, check=True, capture_output=True, timeout=60)


def test_a_wrong_commit(cli: Cli, tmp_path: Path) -> None:
    repo = shutil.copytree(REPO, tmp_path / "repo")
    git(repo, "init", "-q")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "x")
    done = cli("generate", f"{repo}@{'0' * 40}", "--out", tmp_path / "c", code=5)
    assert "00000000" in done.stderr


def test_a_corrupt_archive(cli: Cli, tmp_path: Path) -> None:
    for name, data in (("a-1.tar.gz", b"\x1f\x8bno"), ("b-1.zip", b"PK\x03\x04no")):
        (tmp_path / name).write_bytes(data)
        done = cli("generate", tmp_path / name, "--out", tmp_path / "c", code=5)
        assert name in done.stderr


def test_a_source_that_is_none(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for source in (tmp_path / "nowhere", "pypi:x", tmp_path / "notes.txt"):
        cli("generate", source, "--out", tmp_path / "c", code=2)
    assert not (tmp_path / "c").exists()


def test_a_suite_that_is_red(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "test_a.py").write_text("def test_a():\n    assert 0\n")
    done = cli("generate", tmp_path / "repo", "--out", tmp_path / "c", "--runs", "1", code=6)
    assert "red untouched: 0 of 1" in done.stderr


def test_a_folder_without_tests(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.py").write_text("x = 1\n")
    done = cli("generate", tmp_path / "repo", "--out", tmp_path / "c", "--runs", "1", code=6)
    assert "no tests found" in done.stderr


def test_bad_options(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    for more in (["--mode", "magic"], ["--tests", "none"], ["--sandbox", "chroot"]):
        assert more[1] in cli("generate", REPO, "--out", tmp_path / "c", *more, code=2).stderr
    where = ("grade", task, "--corpus", calc_corpus)
    for more in (["--empty", "--reward", "huge"], ["--empty", "--sandbox", "chroot"]):
        assert more[2] in cli(*where, *more, code=2).stderr
    for more in (["--reference", "some.patch"], []):
        assert "exactly one submission" in cli(*where, *more, code=2).stderr
    assert not (tmp_path / "c").exists()


def test_an_out_that_is_no_corpus(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    assert "holds other files" in cli("generate", REPO, "--out", tmp_path, code=2).stderr
    assert "is no folder" in cli("generate", REPO, "--out", tmp_path / "mine.txt", code=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("pages", [1, 2, 4])
def test_a_full_disk_while_generating(pages: int, cli: Cli, tmp_path: Path) -> None:
    tiny = ("--size", str(pages * 4096), "--tmpfs", str(tmp_path))
    argv = ("generate", REPO, "--out", tmp_path / "c", "--max", "1", "--runs", "1")
    done = cli(*argv, within=tiny, code=4)
    assert f"error: cannot write {tmp_path / 'c'}" in done.stderr
    assert "No space left on device" in done.stderr


def test_a_read_only_disk(cli: Cli, tmp_path: Path) -> None:
    done = cli("generate", REPO, "--out", tmp_path / "c", within=("--ro-bind", str(tmp_path), str(tmp_path)), code=4)
    assert "Read-only file system" in done.stderr


# -- grade ---------------------------------------------------------------------------------------------------------


def test_a_task_that_is_not_there(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("grade", task[:-4] + "zzzz", "--corpus", calc_corpus, "--empty", code=2)
    assert f"did you mean {task}" in done.stderr
    cli("grade", task, "--empty", code=2)
    assert "is no corpus" in cli("grade", task, "--corpus", tmp_path, "--empty", code=2).stderr
    assert "is the start of 2 task ids" in cli("grade", "local", "--corpus", calc_corpus, "--empty", code=2).stderr
    assert "is no corpus" in cli("validate", tmp_path / "x", code=2).stderr


def test_a_submission_that_is_not_there(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("grade", task, tmp_path / "my.patch", "--corpus", calc_corpus, code=2)
    assert f"there is no submission '{tmp_path / 'my.patch'}'" in done.stderr


def test_an_empty_patch_is_legal(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.patch").write_text("")
    out = cli("grade", task, tmp_path / "empty.patch", "--corpus", calc_corpus, code=1).stdout
    assert out.startswith("failed  reward 0")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("I have done it.\n", "the submission is no patch"),
        (GOOD_DIFF + "@@ nonsense @@\n", "the patch does not apply"),
        (GOOD_DIFF + "@@ -1,3 +1,3 @@\n nothing\n-like\n+this\n here\n", "the patch does not apply"),
        (GOOD_DIFF.replace("core", "gone") + "@@ -1 +1 @@\n-x\n+y\n", "'src/calc/gone.py', which the workspace does not"),
        ("--- /dev/null\n+++ b/../out\n@@ -0,0 +1 @@\n+x\n", "a place that is not allowed"),
    ],
)
def test_a_patch_that_cannot_be_applied(patch: str, message: str, calc_corpus: Path, task: str, cli: Cli) -> None:
    where = ("grade", task, "-", "--corpus", calc_corpus)
    verdict = json.loads(cli(*where, "--json", stdin=patch, code=3).stdout)
    assert (verdict["outcome"], verdict["reward"], verdict["tests"]) == ("patch_rejected", 0.0, [])
    assert message in verdict["evidence"][0]


@pytest.mark.parametrize("file", ["public/tasks/{}/workspace.tar.zst", "sealed/tasks/{}/tests.json"])
def test_a_damaged_task(file: str, damaged: Path, task: str, cli: Cli) -> None:
    path = damaged / file.format(task)
    path.write_bytes(path.read_bytes()[:-20])
    for argv in (["--reference"], ["--empty", "--json"]):
        done = cli("grade", task, "--corpus", damaged, *argv, code=2)
        assert str(path) in done.stderr
        assert done.stdout == ""


def test_a_newer_schema(damaged: Path, task: str, cli: Cli) -> None:
    card = damaged / "public" / "tasks" / task / "task.json"
    card.write_text(card.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    for argv in (["grade", task, "--corpus", damaged, "--empty"], ["list", damaged], ["show", card.parent]):
        assert "made by a newer taskforge (schema 2): upgrade" in cli(*argv, code=2).stderr


def test_a_lost_environment(damaged: Path, task: str, cli: Cli) -> None:
    shutil.rmtree(damaged / "public" / "environments")
    assert "recipe.json is missing" in cli("grade", task, "--corpus", damaged, "--empty", code=2).stderr


# -- the machine ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [1, 3])
def test_a_full_disk_while_grading_is_a_fault(pages: int, calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    tiny = ("--size", str(pages * 4096), "--tmpfs", str(tmp_path))
    where = ("grade", task, "--corpus", calc_corpus)
    assert str(tmp_path) in cli(*where, "--empty", within=tiny, TMPDIR=str(tmp_path), code=4).stderr
    answer = json.loads(cli(*where, "--reference", "--json", within=tiny, TMPDIR=str(tmp_path), code=4).stdout)
    assert (answer["outcome"], answer["reward"]) == ("fault", None)
    assert set(answer["fault"]) == {"kind", "message"}


def test_a_full_cache_while_grading_is_a_fault(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    tiny = ("--size", "8192", "--tmpfs", str(tmp_path))
    argv = ("grade", task, "--corpus", calc_corpus, "--reference", "--json")
    answer = json.loads(cli(*argv, within=tiny, TASKFORGE_CACHE_DIR=str(tmp_path), code=4).stdout)
    assert (answer["outcome"], answer["reward"]) == ("fault", None)
    assert str(tmp_path) in answer["fault"]["message"]


def test_no_user_namespaces(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    for argv in (
        ["generate", REPO, "--out", tmp_path / "c"],
        ["grade", task, "--corpus", calc_corpus, "--empty"],
    ):
        # And no daemon either, which `auto` would turn to.
        done = cli(*argv, within=("--disable-userns",), code=2, DOCKER_HOST="unix:///nowhere/none.sock")
        assert "no user namespace for this user" in done.stderr
        assert "hint: allow user namespaces (sysctl " in done.stderr
    assert not (tmp_path / "c").exists()


def test_debug_shows_where(calc_corpus: Path, cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Traceback"):
        cli("--debug", "grade", "x", "--corpus", calc_corpus, "--empty", code=2)
