"""The pin of an environment's image, and what a task's card says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.grade import grader_for
from taskforge.corpus import Corpus
from taskforge.errors import CorpusError, Fault
from taskforge.model import Image, Recipe
from taskforge.sandbox.platforms import here
from taskforge.settings import Settings

LAYERS = ("sha256:" + "1" * 64, "sha256:" + "2" * 64)


def image(letter: str = "a", **fields: str) -> Image:
    return Image(digest="sha256:" + letter * 64, platform=here(), layers=LAYERS, python="3.12.1", size=7, **fields)


def test_an_image_is_pinned_once(corpus: Corpus, recipe: Recipe) -> None:
    digest = corpus.write_recipe(recipe, {"lock.txt": b"one\n"})
    assert corpus.image(digest) is None
    corpus.write_image(digest, image())
    assert corpus.image(digest) == image()
    corpus.write_image(digest, image(reference="host:5000/some/images@sha256:" + "9" * 64))
    assert corpus.image(digest) != image()
    with pytest.raises(CorpusError, match=f"environment {digest[:12]} is pinned to image aaaaaaaaaaaa") as caught:
        corpus.write_image(digest, image("b"))
    assert "images build --replace" in caught.value.hint
    corpus.write_image(digest, image("b"), replace=True)
    assert corpus.image(digest) == image("b")
    # What else lies in its folder may come anew.
    corpus.write_recipe(recipe, {"lock.txt": b"two\n"})
    assert corpus.image(digest) == image("b")
    assert corpus.environment_file(digest, "lock.txt") == b"two\n"
    assert corpus.environment_digests() == [digest]


def test_an_image_of_no_environment(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match="holds no recipe"):
        corpus.write_image("0" * 64, image())


def test_a_damaged_pin_is_no_missing_one(corpus: Corpus, recipe: Recipe) -> None:
    digest = corpus.write_recipe(recipe, {})
    (corpus.public / "environments" / digest / "image.json").write_text('{"digest": "x"}')
    with pytest.raises(CorpusError, match=r"image\.json is damaged: digest") as caught:
        corpus.image(digest)
    assert "taskforge images build" in caught.value.hint


def test_a_card_without_platform_and_image_keeps_its_digest(bundle_maker: Any) -> None:
    bundle = bundle_maker()
    # As it was before cards told of either.
    assert bundle.digest == "3dd23678f8e4e249edd8872d91c89329b1f0f4d8da92a30df59bc5e287838867"
    for field, value in (("platform", "linux/amd64"), ("image", "sha256:" + "a" * 64)):
        card = bundle.card.model_copy(update={field: value})
        assert bundle_maker(card=card).digest != bundle.digest


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"platform": "linux/riscv64"}, Fault, "is for linux/riscv64, and this host is linux/"),
        ({"image": "sha256:" + "a" * 64}, CorpusError, "was proven in image aaaaaaaaaaaa, and the corpus has none"),
    ],
)
def test_a_grader_holds_to_platform_and_image(
    tmp_path: Path, bundle_maker: Any, fields: dict[str, str], kind: type[Exception], says: str
) -> None:
    made = bundle_maker()
    bundle = bundle_maker(card=made.card.model_copy(update=fields))
    corpus = Corpus.create(tmp_path / "corpus", {})
    corpus.write(bundle)
    # Before anything is asked of a sandbox, whichever it is.
    nothing: Any = None
    with pytest.raises(kind, match=says) as caught:
        grader_for(corpus, bundle.card.id, pool=nothing, backend=nothing, settings=Settings(cache_dir=tmp_path))
    if isinstance(caught.value, Fault):
        assert (caught.value.kind, caught.value.retryable) == ("platform", False)
