"""``list`` and ``show``, run as a user runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from taskforge.corpus import Bundle, Corpus

NAME = "local__x-12345678.stub-f-000001"
Done = subprocess.CompletedProcess[str]


def cli(*argv: object, code: int = 0) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "taskforge", *map(str, argv)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done
    return done


@pytest.fixture
def three(corpus: Corpus, bundle_maker: Callable[..., Bundle]) -> Path:
    long = tuple(f"some/very/long/path/to/a/module.py::Class.method_{i}" for i in range(3))
    corpus.write(bundle_maker("b" * 180 + "-long", lines=7, fail_to_pass=2, difficulty=2.5, feature=long))
    corpus.write(bundle_maker("z__last", lines=3, fail_to_pass=9, difficulty=4.25, feature=("a.py::[bold]",)))
    return corpus.path


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("id", ["b", NAME, "z"]), ("lines", ["b", "z", NAME]), ("tests", ["z", "b", NAME]),
        ("difficulty", ["z", "b", NAME]),
    ],
)
def test_the_list_in_every_order(sort: str, order: list[str], three: Path) -> None:
    cards = json.loads(cli("list", three, "--sort", sort, "--json").stdout)
    assert [card["id"].startswith(start) for card, start in zip(cards, order, strict=True)] == [True] * 3
    assert set(cards[0]) >= {"id", "digest", "mode", "feature", "metrics", "environment", "provenance"}
    table = cli("list", three, "--sort", sort).stdout
    places = [table.index(start) for start in (NAME, "z__last")]
    assert (places[0] < places[1]) == (order.index(NAME) < order.index("z"))


def test_the_table_holds_whole_ids_and_plain_text(three: Path) -> None:
    lines = cli("list", three).stdout.splitlines()
    assert lines[0].split() == ["id", "mode", "feature", "hard", "lines", "files", "F2P", "P2P"]
    (row,) = (line for line in lines if NAME in line)
    assert row.split() == [NAME, "stub", "a.py::f", "1", "1", "1", "0"]
    (row,) = (line for line in lines if "z__last" in line)
    assert row.split() == ["z__last", "stub", "a.py::[bold]", "4.2", "3", "1", "9", "0"]
    assert "".join(line.split()[0] for line in lines if line.startswith("b")) == "b" * 180 + "-long"
    assert "(+2)" in "\n".join(lines)
    assert lines[-1] == "3 tasks"


def test_an_empty_corpus_is_listed(tmp_path: Path) -> None:
    Corpus.create(tmp_path / "c", {})
    assert cli("list", tmp_path / "c").stdout.splitlines()[-1] == "0 tasks"
    assert cli("list", tmp_path / "c", "--json").stdout == "[]\n"


def test_a_reader_that_has_gone_is_no_error(corpus: Corpus, bundle_maker: Callable[..., Bundle]) -> None:
    # More than a pipe holds, so that the reader is gone before the end.
    card = corpus.public / "tasks" / NAME / "task.json"
    for number in range(300):
        name = f"copy-{number}-{'x' * 150}"
        shutil.copytree(card.parent, card.parent.with_name(name))
        (card.parent.with_name(name) / "task.json").write_text(card.read_text().replace(NAME, name))
    argv = [sys.executable, "-m", "taskforge", "list", str(corpus.path)]
    for more in ([], ["--json"]):
        process = subprocess.Popen([*argv, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == b""
        assert process.wait(30) == 0


def test_a_task_is_shown(corpus: Corpus) -> None:
    out = cli("show", NAME, "--corpus", corpus.path).stdout
    lines = dict(line.split(None, 1) for line in out.splitlines()[:9])
    assert lines["id"] == NAME
    assert lines["digest"] == corpus.card(NAME).digest
    assert lines["size"] == "1 lines, 1 symbols, 1 files, complexity 1"
    assert lines["tests"] == "1 FAIL_TO_PASS, 0 PASS_TO_PASS"
    assert lines["from"] == "folder local x 1.0"
    assert lines["license"] == "not declared"
    # As it stands there: no markup is taken for colour, no byte that is not UTF-8 ends it.
    assert "# Write `f`\n\nCaf\xe9 ? [bold]" in out
    assert "return" not in out


def test_the_sealed_half_is_shown_when_asked_for(corpus: Corpus) -> None:
    out = cli("show", corpus.public / "tasks" / NAME, "--sealed").stdout
    assert "+    return '\ufffd'" in out
    assert "t.py::test_?" in out


def test_a_task_as_json(corpus: Corpus, bundle: Bundle) -> None:
    done = cli("show", NAME, "--corpus", corpus.path, "--json")
    data = json.loads(done.stdout)
    assert set(data) == {"card", "statement"}
    assert data["statement"] == bundle.statement
    assert data["card"]["digest"] == bundle.digest
    data = json.loads(cli("show", NAME, "--corpus", corpus.path, "--json", "--sealed").stdout)
    assert data["reference_patch"].encode("utf-8", "surrogateescape") == bundle.reference_patch
    assert data["tests"]["fail_to_pass"] == list(bundle.tests.fail_to_pass)
    assert data["tests"]["files"] == bundle.tests.files
    assert done.stdout.isascii()


def test_the_public_half_is_enough_to_show(corpus: Corpus) -> None:
    shutil.rmtree(corpus.sealed)
    assert NAME in cli("show", NAME, "--corpus", corpus.path).stdout
    assert "the sealed half of task" in cli("show", NAME, "--corpus", corpus.path, "--sealed", code=2).stderr
