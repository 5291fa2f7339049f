"""From what a user typed to a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from taskforge.corpus import Bundle, Corpus, locate
from taskforge.errors import CorpusError, UsageError

NAME = "local__x-12345678.stub-f-000001"


@pytest.fixture
def several(corpus: Corpus, bundle_maker: Callable[..., Bundle]) -> Corpus:
    for name in ("local__x-12345678.stub-g-000002", "other__y-87654321.stub-parse-000003"):
        corpus.write(bundle_maker(name))
    return corpus


@pytest.mark.parametrize("half", ["public", "sealed"])
def test_by_folder(half: str, several: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = several.path / half / "tasks" / NAME
    for text in (str(folder), f"{folder}/", str(folder / ("task.json" if half == "public" else "tests.json"))):
        found, name = locate(text)
        assert (found.path, name) == (several.path, NAME)
    monkeypatch.chdir(folder)
    assert locate(".")[1] == NAME
    # A folder is a folder, whatever --corpus says.
    assert locate(str(folder), several.path)[1] == NAME


def test_by_id_and_by_its_start(several: Corpus) -> None:
    assert locate(NAME, several.path)[1] == NAME
    assert locate("other", several.path)[1] == "other__y-87654321.stub-parse-000003"


def test_an_id_that_starts_another_is_itself(corpus: Corpus, bundle_maker: Callable[..., Bundle]) -> None:
    corpus.write(bundle_maker(NAME + "-more"))
    assert locate(NAME, corpus.path)[1] == NAME


def test_several_are_listed(several: Corpus) -> None:
    with pytest.raises(UsageError, match="'local' is the start of 2 task ids") as caught:
        locate("local", several.path)
    assert caught.value.hint == f"one of {NAME}, local__x-12345678.stub-g-000002"


@pytest.mark.parametrize("text", ["parse", "stub-parze-000003", "PARSE"])
def test_close_ones_are_offered(text: str, several: Corpus) -> None:
    with pytest.raises(UsageError, match="has no task") as caught:
        locate(text, several.path)
    assert "other__y-87654321.stub-parse-000003" in caught.value.hint


def test_what_is_nowhere_near_is_told(several: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no task 'qqqqqqqq'") as caught:
        locate("qqqqqqqq", several.path)
    assert caught.value.hint == "`taskforge list CORPUS` lists its tasks"
    with pytest.raises(UsageError) as caught:
        locate("a", Corpus.create(tmp_path / "empty", {}).path)
    assert caught.value.hint == "the corpus holds no task"
    with pytest.raises(UsageError):
        locate("", several.path)


def test_what_is_no_task_folder_is_told(several: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no task folder 'local__x'"):
        locate("local__x")
    with pytest.raises(UsageError, match="is no task folder"):
        locate(str(several.path))
    with pytest.raises(CorpusError, match="is no corpus"):
        locate("x", tmp_path / "nowhere")
    (several.sealed / "tasks" / "lonely").mkdir()
    with pytest.raises(UsageError, match="has no task 'lonely'"):
        locate(str(several.sealed / "tasks" / "lonely"))
