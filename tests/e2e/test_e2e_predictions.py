"""``taskforge grade --predictions``: one report for many submissions, and a fault is neither resolved nor not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskforge.corpus import Corpus


def test_predictions_become_one_report(calc_corpus: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    corpus = Corpus.open(calc_corpus)
    first, second = corpus.task_ids()
    good = corpus.bundle(first).reference_patch.decode()
    file = tmp_path / "predictions.jsonl"
    lines = [
        {"instance_id": first, "model_name_or_path": "m", "model_patch": good},
        {"instance_id": second, "model_name_or_path": "m", "model_patch": None},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "report.json"
    said = cli("grade", "--predictions", file, "--corpus", calc_corpus, "--out", out, "--jobs", "2", code=0).stdout
    assert "resolved" in said
    report = json.loads(out.read_text())
    assert (report["resolved"], report["unresolved"], report["empty"]) == ([first], [second], [second])
    assert report["rewards"] == {first: 1.0, second: 0.0}
    assert report["faults"] == {}
    assert report["verdicts"][second]["outcome"] == "failed"

    # What an interrupted run had graded is not graded again.
    assert not out.with_name("report.json.partial").exists()
    known = {**report["verdicts"][first], "phases": {"total": 123456.0}}
    out.with_name("report.json.partial").write_text(json.dumps(known) + "\n" + json.dumps(known)[:50])
    cli("grade", "--predictions", file, "--corpus", calc_corpus, "--out", out, code=0)
    again = json.loads(out.read_text())
    assert again["verdicts"][first]["phases"] == {"total": 123456.0}
    assert again["verdicts"][second]["phases"]["total"] != 123456.0
    assert not out.with_name("report.json.partial").exists()

    file.write_text(json.dumps([{"instance_id": first, "model_patch": "no diff at all"}]))
    told = json.loads(cli("grade", "--predictions", file, "--corpus", calc_corpus, "--json", code=0).stdout)
    assert (told["rejected"], told["missing"]) == ([first], [second])


def test_a_prediction_without_a_verdict_is_a_fault(
    calc_corpus: Path, cli: Callable[..., Any], tmp_path: Path
) -> None:
    name = Corpus.open(calc_corpus).task_ids()[0]
    file = tmp_path / "predictions.json"
    file.write_text(json.dumps({name: {"model_patch": None}}))
    # An empty cache, and an index that nobody serves: the environment cannot be had.
    nowhere = {"TASKFORGE_CACHE_DIR": str(tmp_path / "cache"), "UV_INDEX_URL": "http://127.0.0.1:9/", "UV_NO_CACHE": "1"}
    done = cli("grade", "--predictions", file, "--corpus", calc_corpus, "--json", code=4, **nowhere)
    told = json.loads(done.stdout)
    assert told["rewards"] == {name: None}
    assert list(told["faults"]) == [name]
    assert (told["resolved"], told["unresolved"]) == ([], [])


def test_wrong_requests(calc_corpus: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "predictions.json"
    file.write_text(json.dumps({"nobody__nothing": {"model_patch": None}}))
    assert "does not have" in cli("grade", "--predictions", file, "--corpus", calc_corpus, code=2).stderr
    cli("grade", "--predictions", file, code=2)
    file.write_text(json.dumps({Corpus.open(calc_corpus).task_ids()[0]: {"model_patch": None}}))
    # Told before anything is graded: what was graded would be lost.
    done = cli("grade", "--predictions", file, "--corpus", calc_corpus, "--out", tmp_path, code=2)
    assert "is a folder" in done.stderr
    assert "grading" not in done.stderr
    cli("grade", "--predictions", tmp_path / "none", "--corpus", calc_corpus, code=2)
