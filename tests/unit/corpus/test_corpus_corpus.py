"""A corpus: what is written is read, what is damaged is named, and nothing is replaced by chance."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskforge.corpus import PUBLIC_FILES, SEALED_FILES, Bundle, Corpus, pack
from taskforge.errors import CorpusError, UsageError
from taskforge.model import Entry, Recipe, Tree

NAME = "local__x-12345678.stub-f-000001"
Maker = Callable[..., Bundle]


def folder_of(corpus: Corpus, file: str) -> Path:
    return (corpus.public if file in PUBLIC_FILES else corpus.sealed) / "tasks" / NAME


def state(corpus: Corpus) -> dict[str, tuple[int, bytes]]:
    files = [path for path in corpus.path.rglob("*") if path.is_file()]
    return {str(path.relative_to(corpus.path)): (path.stat().st_ino, path.read_bytes()) for path in files}


def test_a_task_comes_back_as_it_was_written(corpus: Corpus, bundle: Bundle) -> None:
    found = Corpus.open(corpus.path).bundle(NAME)
    assert found.card == bundle.sealed_card()
    assert found.digest == bundle.digest == found.card.digest
    for part in ("statement", "workspace", "tests", "hidden", "reference_patch", "removal_patch", "reports"):
        assert getattr(found, part) == getattr(bundle, part)
    assert set(PUBLIC_FILES) == {path.name for path in folder_of(corpus, "task.json").iterdir()}
    assert set(SEALED_FILES) < {path.name for path in folder_of(corpus, "tests.json").iterdir()}


def test_the_public_half_alone_can_be_read_but_not_graded(corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(corpus.public, tmp_path / "host" / "public")
    host = Corpus.open(tmp_path / "host")
    assert [card.id for card in host.cards()] == [NAME]
    assert host.workspace(NAME).digest == host.card(NAME).workspace
    with pytest.raises(CorpusError, match=r"the sealed half of task .* is missing"):
        host.bundle(NAME)


def test_the_digest_covers_every_part(bundle: Bundle, bundle_maker: Maker) -> None:
    other = {
        "statement": "other",
        "workspace": Tree({"b.py": Entry(b"")}),
        "tests": bundle.tests.model_copy(update={"must_fail": ("m",)}),
        "hidden": Tree({}),
        "reference_patch": b"other",
        "removal_patch": b"other",
        "reports": {},
        "lines": 2,
    }
    digests = {bundle_maker(NAME, **{part: value}).digest for part, value in other.items()}
    assert len(digests) == len(other)
    assert bundle.digest not in digests


def test_the_same_task_again_is_no_work(corpus: Corpus, bundle: Bundle) -> None:
    before = state(corpus)
    assert corpus.write(bundle) == bundle.sealed_card()
    assert state(corpus) == before


def test_another_task_of_the_same_id_replaces_only_on_purpose(corpus: Corpus, bundle_maker: Maker) -> None:
    other = bundle_maker(NAME, statement="other")
    before = state(corpus)
    with pytest.raises(CorpusError, match="is there already with other content") as caught:
        corpus.write(other)
    assert caught.value.hint
    assert state(corpus) == before
    corpus.write(other, replace=True)
    assert corpus.bundle(NAME).digest == other.digest
    assert [path.name for path in corpus.path.glob("*/tasks/*")] == [NAME, NAME]
    assert list(corpus.path.glob("*/tasks/.*")) == []


@pytest.mark.parametrize("file", [*PUBLIC_FILES, *SEALED_FILES])
@pytest.mark.parametrize("damage", ["missing", "truncated", "emptied", "edited", "a folder"])
def test_damage_names_its_file_and_is_mended(file: str, damage: str, corpus: Corpus, bundle: Bundle) -> None:
    path = folder_of(corpus, file) / file
    data = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(data[: len(data) * 2 // 3])
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "edited":
        path.write_bytes(edited(file, data))
    elif damage == "a folder":
        path.mkdir()
    with pytest.raises(CorpusError) as caught:
        corpus.bundle(NAME)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2
    corpus.write(bundle)
    assert corpus.bundle(NAME).digest == bundle.digest
    assert path.read_bytes() == data


def edited(file: str, data: bytes) -> bytes:
    """Still well-formed, so that only the digest tells."""
    if file.endswith(".tar.zst"):
        return pack({"other": Entry(b"")})
    if file == "task.json":
        return data.replace(b'"lines": 1', b'"lines": 2')
    if file == "tests.json":
        return data.replace(b'"must_fail": []', b'"must_fail": ["x"]')
    return data.replace(b'"found": 0', b'"found": 1') if file == "reports.json" else data + b"more\n"


@pytest.mark.parametrize("half", ["public", "sealed"])
def test_a_lost_half_is_told(half: str, corpus: Corpus) -> None:
    shutil.rmtree(corpus.path / half / "tasks")
    with pytest.raises(CorpusError, match="has no task" if half == "public" else "the sealed half"):
        corpus.bundle(NAME)


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("file", ["task.json", "tests.json"])
def test_a_newer_schema_asks_for_an_upgrade(file: str, corpus: Corpus) -> None:
    change(folder_of(corpus, file) / file, schema_version=2, new_field={})
    with pytest.raises(CorpusError, match=rf"{file} was made by a newer taskforge \(schema 2\): upgrade") as caught:
        corpus.bundle(NAME)
    assert "pip install -U" in caught.value.hint


def test_a_newer_corpus_asks_for_an_upgrade(corpus: Corpus) -> None:
    change(corpus.public / "corpus.json", schema_version=9)
    for use in (Corpus.open, lambda path: Corpus.create(path, {})):
        with pytest.raises(CorpusError, match=r"corpus\.json was made by a newer taskforge \(schema 9\)"):
            use(corpus.path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"colour": "red"}, "task.json is damaged: colour: Extra inputs are not permitted"),
        ({"mode": "magic"}, "task.json is damaged: mode: "),
        ({"schema_version": "1"}, "task.json is damaged: schema_version is '1'"),
        ({"schema_version": 0}, "task.json is damaged: schema_version is 0"),
        ({"id": "another"}, f"{NAME} holds the card of another task, another"),
        ({"metrics": None}, "task.json is damaged: metrics: "),
    ],
)
def test_a_card_that_is_none_is_told(fields: dict[str, Any], message: str, corpus: Corpus) -> None:
    change(folder_of(corpus, "task.json") / "task.json", **fields)
    with pytest.raises(CorpusError) as caught:
        corpus.card(NAME)
    assert message in caught.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema_version": 1}', "\xff", "[" * 100_000])
def test_a_damaged_header_is_told(text: str, corpus: Corpus) -> None:
    (corpus.public / "corpus.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorpusError, match=r"corpus\.json is damaged") as caught:
        Corpus.open(corpus.path)
    assert "taskforge generate" in caught.value.hint


def test_the_hint_for_a_damaged_header_works(corpus: Corpus) -> None:
    (corpus.path / ".work").mkdir()
    (corpus.path / ".lock").touch()
    (corpus.public / "corpus.json").unlink()
    with pytest.raises(CorpusError, match=r"is no corpus: it has no public/corpus\.json"):
        Corpus.open(corpus.path)
    again = Corpus.create(corpus.path, {"seed": 1})
    assert again.header()["counts"] == {"tasks": 1, "environments": 0}
    assert again.bundle(NAME).card.id == NAME


def test_creating_where_a_corpus_is_opens_it(corpus: Corpus) -> None:
    assert Corpus.create(corpus.path, {"seed": 7}).header()["settings"] == {"seed": 0}


def test_only_a_new_or_empty_folder_becomes_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        Corpus.create(tmp_path / "file", {})
    with pytest.raises(UsageError, match=r"holds other files \(file, …\) and is no corpus"):
        Corpus.create(tmp_path, {})
    with pytest.raises(CorpusError, match="is no corpus"):
        Corpus.open(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert Corpus.create(tmp_path / "empty", {}).task_ids() == []


def test_counts_follow(corpus: Corpus, bundle_maker: Maker, recipe: Recipe) -> None:
    corpus.write(bundle_maker("another"))
    corpus.write_recipe(recipe, {})
    assert corpus.update_counts() == {"tasks": 2, "environments": 1}
    assert corpus.header()["counts"] == {"tasks": 2, "environments": 1}


def test_recipes_and_snapshots_come_back_or_are_told(corpus: Corpus, recipe: Recipe, bundle: Bundle) -> None:
    digest = corpus.write_recipe(recipe, {"lock.txt": b"pytest==9.0\n"})
    assert corpus.recipe(digest) == recipe
    assert corpus.environment_file(digest, "lock.txt") == b"pytest==9.0\n"
    before = state(corpus)
    assert corpus.write_recipe(recipe, {"lock.txt": b"pytest==9.0\n"}) == digest
    snapshot = corpus.write_snapshot(bundle.workspace)
    assert corpus.snapshot(snapshot) == bundle.workspace
    assert {name: state(corpus)[name] for name in before} == before

    path = corpus.public / "environments" / digest / "recipe.json"
    path.write_text(path.read_text().replace("3.12.1", "3.12.2"))
    with pytest.raises(CorpusError, match=r"recipe\.json was changed"):
        corpus.recipe(digest)
    file = corpus.sealed / "snapshots" / f"{snapshot}.tar.zst"
    file.write_bytes(pack({}))
    with pytest.raises(CorpusError, match=r"tar\.zst was changed"):
        corpus.snapshot(snapshot)
    file.write_bytes(b"x")
    with pytest.raises(CorpusError, match=r"tar\.zst: the archive is damaged"):
        corpus.snapshot(snapshot)
    with pytest.raises(CorpusError, match=r"tar\.zst is missing"):
        corpus.snapshot("0" * 64)


@pytest.mark.parametrize("name", ["../tasks/" + NAME, ".", "..", "", "a/b", ".hidden"])
def test_an_id_that_is_a_path_leads_nowhere(name: str, corpus: Corpus) -> None:
    (corpus.public / "tasks" / ".hidden").mkdir()
    with pytest.raises(CorpusError, match="has no task"):
        corpus.card(name)
