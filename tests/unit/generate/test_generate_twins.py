"""Tasks of one corpus that ask for nearly the same code are known by it."""

from __future__ import annotations

from pathlib import Path

from taskforge.corpus import Corpus
from taskforge.corpus.bundle import Bundle
from taskforge.generate.difficulty import difficulty
from taskforge.generate.twins import Twins, code_of_patch

BODY = b"""
    tokens = [part.strip() for part in text.split(",")]
    if strict and not all(tokens):
        raise ValueError(f"empty field in {text!r}")
    found = {}
    for token in tokens:
        name, _, value = token.partition("=")
        found.setdefault(name.lower(), []).append(value)
    return {name: values[-1] for name, values in found.items() if values}
"""
OTHER = b"""
    for attempt in range(retries):
        answer = client.get(url, timeout=10 * (attempt + 1))
        if answer.status < 500:
            return answer.body.decode("utf-8")
    raise TimeoutError(f"{url} failed {retries} times")
"""


def test_a_copy_with_one_word_changed_is_a_twin_and_other_code_is_none() -> None:
    twins = Twins()
    twins.add("first", "stub", [BODY])
    assert twins.find("stub", [BODY.replace(b"empty field", b"no value")]) == "first"
    assert twins.find("stub", [BODY.replace(b"    ", b"\t")]) == "first"
    assert twins.find("stub", [OTHER]) == ""
    assert twins.find("stub", [BODY, OTHER]) == ""


def test_modes_are_apart() -> None:
    twins = Twins()
    twins.add("first", "stub", [BODY])
    assert twins.find("remove", [BODY]) == ""


def test_a_task_kept_again_is_replaced() -> None:
    twins = Twins()
    twins.add("first", "stub", [BODY])
    twins.add("first", "stub", [OTHER])
    assert twins.find("stub", [BODY]) == ""
    assert twins.find("stub", [OTHER]) == "first"


def test_nothing_to_compare_is_no_twin() -> None:
    twins = Twins()
    twins.add("first", "stub", [b"pass"])
    twins.add("second", "stub", [])
    assert twins.find("stub", [b"pass"]) == ""


def test_those_of_a_corpus_are_known_by_their_reference(evaluate_bundle: Bundle, tmp_path: Path) -> None:
    corpus = Corpus.create(tmp_path, {})
    corpus.write(evaluate_bundle)
    code = code_of_patch(evaluate_bundle.reference_patch)
    assert b"stack.push(left - right)" in code[0]
    assert not code[0].startswith(b"+")
    assert Twins.of(corpus).find("stub", code) == evaluate_bundle.card.id
    assert Twins.of(corpus).find("stub", [OTHER]) == ""


def test_difficulty_grows_with_each_of_its_parts_and_files_count_most() -> None:
    least = {"lines": 5, "files": 1, "symbols": 1, "complexity": 2, "tests": 1, "fan_in": 0}
    low = difficulty(**least)
    assert difficulty(lines=0, files=1, symbols=1, complexity=1, tests=0, fan_in=0) == 0.0
    steps = {name: difficulty(**{**least, name: 2 * value + 1}) - low for name, value in least.items()}
    assert all(step > 0 for step in steps.values())
    assert max(steps, key=lambda name: steps[name]) == "files"
    assert low == 1.92
