"""What an interrupted run has graded is not graded again, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskforge.errors import StoreFault
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.grade.journal import Journal
from taskforge.model import Policy


def test_a_verdict_is_found_by_all_that_it_depends_on(evaluate_grader: Grader, tmp_path: Path) -> None:
    path = tmp_path / "report.json.partial"
    empty, card = Submission.empty(), evaluate_grader.card
    verdict = evaluate_grader.grade(empty)
    assert verdict.outcome == "failed"
    Journal(path).keep(verdict)
    again = Journal(path)
    assert again.verdict(card, empty, Policy()) == verdict
    assert again.verdict(card, reference_of(evaluate_grader.bundle), Policy()) is None
    assert again.verdict(card, empty, Policy(full=True)) is None
    assert again.verdict(card.model_copy(update={"digest": "0" * 64}), empty, Policy()) is None
    again.remove()
    assert not path.exists()


def test_a_line_cut_short_costs_only_itself(evaluate_grader: Grader, tmp_path: Path) -> None:
    path = tmp_path / "partial"
    one, two = (evaluate_grader.grade(Submission.empty(), Policy(full=full)) for full in (False, True))
    Journal(path).keep(one)
    with path.open("ab") as stream:
        stream.write(path.read_bytes()[:100])
    Journal(path).keep(two)
    again = Journal(path)
    assert again.verdict(evaluate_grader.card, Submission.empty(), Policy()) == one
    assert again.verdict(evaluate_grader.card, Submission.empty(), Policy(full=True)) == two


def test_without_a_file_nothing_is_kept_and_a_disk_that_refuses_is_a_fault(
    evaluate_grader: Grader, tmp_path: Path
) -> None:
    verdict = evaluate_grader.grade(Submission.empty())
    nowhere = Journal(None)
    nowhere.keep(verdict)
    assert nowhere.verdict(evaluate_grader.card, Submission.empty(), Policy()) is None
    with pytest.raises(StoreFault):
        Journal(tmp_path / "missing" / "partial").keep(verdict)
