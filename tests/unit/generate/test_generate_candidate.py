"""A candidate gives the same task every time, and a task of any mode holds what its card says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from taskforge.corpus import Corpus
from taskforge.corpus.bundle import Bundle
from taskforge.errors import CorpusError
from taskforge.generate.candidate import Forge
from taskforge.generate.options import Options
from taskforge.generate.progress import Stages
from taskforge.generate.record import Decision, Record
from taskforge.generate.select import Wanted, select
from taskforge.model import Candidate


def candidate_of(forge: Forge, key: str, **wanted: object) -> Candidate:
    found = select(forge.project.units, forge.test_map, Wanted(**wanted)).candidates  # type: ignore[arg-type]
    return next(one for one in found if one.units[0].endswith(key))


def test_made_twice_it_is_the_same(calc_forge: Forge, evaluate_bundle: Bundle) -> None:
    again = calc_forge.make(candidate_of(calc_forge, "::evaluate"), Stages())
    assert again.parts == evaluate_bundle.parts


def test_a_method_that_is_gone_takes_its_line_and_comes_back(calc_forge: Forge) -> None:
    bundle = calc_forge.make(candidate_of(calc_forge, "::Stack.pop", modes=("remove",)), Stages())
    assert bundle.card.mode == "remove"
    assert bundle.card.feature == ("src/calc/core.py::Stack.pop",)
    source = bundle.workspace["src/calc/core.py"].data
    assert b"def pop" not in source
    assert b"def push" in source
    assert b"+    def pop(self" in bundle.reference_patch
    assert bundle.reports["removal"]["deleted"] == ["src/calc/core.py::Stack.pop"]
    assert bundle.card.metrics.difficulty > 0
    assert "`Stack.pop`" in bundle.statement


def test_what_other_tests_import_is_passed_over_as_a_removal(calc_forge: Forge) -> None:
    found = select(calc_forge.project.units, calc_forge.test_map, Wanted(modes=("remove",)))
    pinned = next(it for it in found.candidates if it.name == "mean")
    assert calc_forge.stays(pinned)
    assert not calc_forge.stays(pinned.model_copy(update={"mode": "stub"}))
    told = select(calc_forge.project.units, calc_forge.test_map, Wanted(modes=("remove",)), stays=calc_forge.stays)
    assert "mean" not in {it.name for it in told.candidates}
    assert told.passed_over["needed_at_import"] > found.passed_over.get("needed_at_import", 0)


@pytest.mark.parametrize("moved", [True, False])
def test_docstrings_stay_or_move_to_the_statement(calc_forge: Forge, moved: bool) -> None:
    forge = replace(calc_forge, options=Options(reference_runs=1, keep_docstrings=not moved))
    bundle = forge.make(candidate_of(forge, "::mean"), Stages())
    symbol = next(it for unit in forge.project.units.values() for it in unit.symbols if it.qualname == "mean")
    words = symbol.docstring.splitlines()[0]
    assert words
    assert words in bundle.statement
    assert (words.encode() in bundle.workspace[symbol.path].data) is not moved


def test_what_an_interrupted_run_wrote_is_kept_where_a_model_says_it_anew(
    evaluate_bundle: Bundle, calc_forge: Forge, tmp_path: Path
) -> None:
    corpus = Corpus.create(tmp_path, {})
    corpus.write(evaluate_bundle)
    other = replace(evaluate_bundle, statement=evaluate_bundle.statement + "\nIn other words.\n")
    decision = Decision(
        candidate=candidate_of(calc_forge, "::evaluate"), bundle=other, task=other.card.id, stages={}
    )
    with pytest.raises(CorpusError, match="there already with other content"):
        Record(corpus, tmp_path / ".work", Options()).decide(calc_forge, decision)
    Record(corpus, tmp_path / ".work", Options(statement="llm")).decide(calc_forge, decision)
    assert corpus.statement(other.card.id) == evaluate_bundle.statement
    changed = replace(other, reference_patch=other.reference_patch + b"\n")
    with pytest.raises(CorpusError, match="there already with other content"):
        Record(corpus, tmp_path / ".work", Options(statement="llm")).decide(
            calc_forge, replace(decision, bundle=changed)
        )
