"""The commands on a real corpus, as a user types them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskforge.corpus import Corpus

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def task(calc_corpus: Path) -> str:
    return next(card.id for card in Corpus.open(calc_corpus).cards() if card.feature[0].endswith("::mean"))


def test_the_reference_resolves(task: str, calc_corpus: Path, cli: Cli) -> None:
    out = cli("grade", task, "--corpus", calc_corpus, "--reference", "--full", code=0).stdout
    assert out.startswith(f"resolved  reward 1  {task}\n")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(("FAIL", "PASS"))}
    assert rows == {"FAIL_TO_PASS": ["2", "0", "2"], "PASS_TO_PASS": ["12", "0", "12"]}
    assert "ms: prepare " in out


def test_nothing_does_not_resolve_and_says_why(task: str, calc_corpus: Path, cli: Cli) -> None:
    out = cli("grade", calc_corpus / "public" / "tasks" / task, "--empty", code=1).stdout
    assert out.startswith("failed  reward 0")
    assert "failed  FAIL_TO_PASS  tests/test_mean.py::MeanTest::test_values" in out
    assert "NotImplementedError" in out


def test_the_same_submission_in_every_form(task: str, calc_corpus: Path, cli: Cli, tmp_path: Path) -> None:
    corpus = Corpus.open(calc_corpus)
    bundle = corpus.bundle(task)
    patch = tmp_path / "my.patch"
    patch.write_bytes(bundle.reference_patch)
    whole = tmp_path / "whole"
    for path, entry in bundle.workspace.items():
        (whole / path).parent.mkdir(parents=True, exist_ok=True)
        (whole / path).write_bytes(entry.data)
    snapshot = corpus.snapshot(corpus.recipe(bundle.card.environment).snapshot)
    for path in ("src/calc/core.py",):
        (whole / path).write_bytes(snapshot[path].data)
    for given, stdin in ((patch, ""), ("-", bundle.reference_patch.decode()), (whole, "")):
        done = cli("grade", task, given, "--corpus", calc_corpus, "--json", code=0, stdin=stdin)
        verdict = json.loads(done.stdout)
        assert (verdict["outcome"], verdict["reward"], verdict["task_digest"]) == (
            "resolved", 1.0, bundle.card.digest,
        )  # fmt: skip
        assert {one["outcome"] for one in verdict["tests"]} == {"passed"}


def test_a_test_that_was_changed_is_put_back(task: str, calc_corpus: Path, cli: Cli) -> None:
    bundle = Corpus.open(calc_corpus).bundle(task)
    cheat = b"--- /dev/null\n+++ b/tests/conftest.py\n@@ -0,0 +1 @@\n+raise SystemExit\n"
    stdin = (bundle.reference_patch + cheat).decode()
    verdict = json.loads(cli("grade", task, "-", "--corpus", calc_corpus, "--json", code=0, stdin=stdin).stdout)
    assert verdict["restored"] == ["tests/conftest.py"]
    done = cli("grade", task, "-", "--corpus", calc_corpus, "--strict", code=3, stdin=stdin, hint=False)
    assert done.stdout.startswith("patch_rejected  reward 0")
    assert "touches protected files: tests/conftest.py" in done.stdout


def test_every_task_holds(calc_corpus: Path, cli: Cli) -> None:
    done = cli("validate", calc_corpus, "--runs", "1", "--json", code=0)
    assert json.loads(done.stdout)["hold"] == json.loads(done.stdout)["tasks"] == 2


def test_validation_names_what_could_not_be_tried(calc_corpus: Path, task: str, cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(calc_corpus, tmp_path / "c")
    (tmp_path / "c" / "sealed" / "tasks" / task / "reference.patch").write_bytes(b"")
    done = cli("validate", tmp_path / "c", "--runs", "1", "--json", code=4)
    bad = [one for one in json.loads(done.stdout)["results"] if not one["holds"]]
    assert [one["task"] for one in bad] == [task]
    assert "reference.patch was changed" in bad[0]["message"]


def test_list_and_show(task: str, calc_corpus: Path, cli: Cli) -> None:
    assert cli("list", calc_corpus, code=0).stdout.splitlines()[-1] == "2 tasks"
    shown = cli("show", task, "--corpus", calc_corpus, code=0).stdout
    assert "src/calc/core.py::mean" in shown
    assert "diff --git" not in shown
    assert "diff --git" in cli("show", task, "--corpus", calc_corpus, "--sealed", code=0).stdout
