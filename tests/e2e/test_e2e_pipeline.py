"""The whole flow on the fixture repository: what becomes a task, what does not and why, and that it resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taskforge.corpus import Corpus
from taskforge.errors import EnvironmentBuildError
from taskforge.generate.pipeline import Options, Report, generate
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.model import Policy, Source
from taskforge.sandbox import Backend, Environment
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings

REPO = Path(__file__).parents[1] / "repos" / "calc"
TASKS = {"Stack.push", "Stack.pop", "tokens", "evaluate", "clamp", "mean", "twice"}


def run(out: Path, cache: Path, backend: Backend, **options: object) -> Report:
    chosen = Options.model_validate({"jobs": 2, "baseline_runs": 2, **options})
    return generate(Source.parse(str(REPO)), out, chosen, settings=Settings(cache_dir=cache), backend=backend)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path, bubblewrap: Backend) -> tuple[Path, Report]:
    out = tmp_path_factory.mktemp("made") / "corpus"
    return out, run(out, cache, bubblewrap)


def features(out: Path) -> set[str]:
    return {card.feature[0].split("::")[1] for card in Corpus.open(out).cards()}


def test_what_becomes_a_task_and_what_does_not(made: tuple[Path, Report]) -> None:
    out, report = made
    assert features(out) == TASKS
    assert report.rejections == {"tests_do_not_notice": 1, "hangs_without_feature": 1, "undescribed": 1}
    assert {one["feature"] for one in report.rejected} == {
        f"src/calc/core.py::{name}" for name in ("unnoticed", "spin", "_undescribed")
    }
    assert report.passed_over == {"runs_at_import": 1, "too_small": 1}
    assert report.candidates == report.tried == 10
    assert (report.tests, report.stable_tests) == (15, 14)


def test_a_rejection_is_recorded_with_its_reason(made: tuple[Path, Report]) -> None:
    out, _report = made
    kept = [json.loads(file.read_text()) for file in out.glob(".work/*/candidates/*.json")]
    reasons = {one["feature"][0].split("::")[1].split(":")[0]: one["reason"] for one in kept if one["reason"]}
    assert reasons == {
        "unnoticed": "tests_do_not_notice",
        "spin": "hangs_without_feature",
        "_undescribed": "undescribed",
    }


def test_fail_to_pass_is_what_fails_without_the_feature(made: tuple[Path, Report]) -> None:
    out, _report = made
    corpus = Corpus.open(out)
    found = {card.feature[0].split("::")[1]: corpus.tests(card.id) for card in corpus.cards()}
    assert found["mean"].fail_to_pass == (
        "tests/test_mean.py::MeanTest::test_empty",
        "tests/test_mean.py::MeanTest::test_values",
    )
    # `evaluate` needs the stack: a test that never names it fails too.
    assert "tests/test_core.py::test_evaluate[1 2 +-3]" in found["Stack.push"].fail_to_pass
    assert set(found["clamp"].fail_to_pass) == {"tests/test_core.py::test_clamp"}
    assert len(found["clamp"].pass_to_pass) == 13
    assert found["clamp"].protected == ("pyproject.toml", "tests/")


def test_a_doctest_in_the_product_is_never_required(made: tuple[Path, Report]) -> None:
    out, _report = made
    corpus = Corpus.open(out)
    for card in corpus.cards():
        tests = corpus.tests(card.id)
        assert {file.split("/")[0] for file in tests.files.values()} == {"tests"}
    twice = next(corpus.tests(card.id) for card in corpus.cards() if card.feature[0].endswith("::twice"))
    assert twice.fail_to_pass == ("tests/test_core.py::test_twice",)


def test_the_public_half_holds_no_answer(made: tuple[Path, Report]) -> None:
    out, _report = made
    corpus = Corpus.open(out)
    card = next(card for card in corpus.cards() if card.feature[0].endswith("::clamp"))
    workspace = corpus.workspace(card.id)
    assert b"return min(value, high)" not in b"".join(entry.data for entry in workspace.values())
    # Its tests are gone from the file, with the name that only they imported; the others of the file stay.
    assert b"clamp" not in workspace["tests/test_core.py"].data
    assert b"test_twice" in workspace["tests/test_core.py"].data
    assert "tests/test_mean.py" in workspace
    assert "clamp(value, low, high)" in corpus.statement(card.id)


def test_production_grader_agrees(
    made: tuple[Path, Report], calc_environment: Environment, pool: Pool
) -> None:
    out, _report = made
    corpus = Corpus.open(out)
    for card in corpus.cards():
        grader = Grader(corpus.bundle(card.id), calc_environment, pool)
        assert grader.grade(Submission.empty()).outcome == "failed"
        verdict = grader.grade(reference_of(grader.bundle), Policy(full=True))
        assert (verdict.outcome, verdict.reward) == ("resolved", 1.0)
        assert len(verdict.tests) == 14 - len(grader.bundle.reports["validation"]["left_out"])


def test_same_input_and_seed_give_the_same_tasks(
    made: tuple[Path, Report], tmp_path: Path, cache: Path, bubblewrap: Backend
) -> None:
    out, report = made
    few = run(tmp_path / "again", cache, bubblewrap, max_tasks=3, jobs=1)
    assert few.tasks == report.tasks[:3]
    one, two = Corpus.open(out), Corpus.open(tmp_path / "again")
    assert {name: two.card(name).workspace for name in few.tasks} == {
        name: one.card(name).workspace for name in few.tasks
    }


def test_run_again_tries_nothing_twice(made: tuple[Path, Report], cache: Path, bubblewrap: Backend) -> None:
    out, report = made
    before = {path: path.stat().st_mtime_ns for path in out.glob("public/tasks/*/task.json")}
    started = time.monotonic()
    again = run(out, cache, bubblewrap)
    assert again.tasks == report.tasks
    assert again.rejections == report.rejections
    assert {path: path.stat().st_mtime_ns for path in before} == before
    # Ten candidates, two of which hang for seconds, were not tried again.
    assert time.monotonic() - started < 8


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_and_run_again_it_resumes(
    how: signal.Signals, made: tuple[Path, Report], tmp_path: Path, cache: Path
) -> None:
    out = tmp_path / "corpus"
    argv = [sys.executable, "-m", "taskforge", "generate", str(REPO), "--out", str(out), "--jobs", "2", "--runs", "2"]
    env = {**os.environ, "TASKFORGE_CACHE_DIR": str(cache)}
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list(out.glob("public/tasks/*"))) < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(how)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    if how == signal.SIGINT:
        assert b"run the same command again" in err
    kept = {path: path.stat().st_mtime_ns for path in out.glob(".work/*/candidates/*.json")}
    assert kept
    done = subprocess.run([*argv, "--json"], env=env, capture_output=True, timeout=120, check=True)
    assert set(json.loads(done.stdout)["tasks"]) == set(made[1].tasks)
    assert features(out) == TASKS
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for name in Corpus.open(out).task_ids():
        Corpus.open(out).bundle(name, verify=True)


def repository(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"pkg.py": "def f():\n    return 1\n"}, "no tests found"),
        ({"test_a.py": "def test_a():\n    assert 0\n\n\ndef test_b():\n    assert 1\n"}, "red untouched: 1 of 2"),
        ({"test_a.py": "import no_such_module_anywhere\n"}, "no test could be collected"),
        ({"pytest.ini": "[pytest]\naddopts = --frobnicate=lib\n", "test_a.py": "def test_a(): pass\n"}, "exit code is 4"),
    ],
)
def test_a_source_of_no_use_is_told_why(
    files: dict[str, str], message: str, tmp_path: Path, cache: Path, bubblewrap: Backend
) -> None:
    source = Source.parse(str(repository(tmp_path / "repo", files)))
    with pytest.raises(EnvironmentBuildError, match=message) as caught:
        generate(source, tmp_path / "out", Options(baseline_runs=1), settings=Settings(cache_dir=cache), backend=bubblewrap)
    assert caught.value.hint
