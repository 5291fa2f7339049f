"""Predictions in each form that SWE-bench's harness takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskforge.errors import UsageError
from taskforge.grade.predictions import Prediction, read_predictions

PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\u2028\n+b\n"
WANTED = [Prediction(task="t1", model="m", patch=PATCH), Prediction(task="t2", model="m", patch="")]
ENTRIES = [
    {"instance_id": "t1", "model_name_or_path": "m", "model_patch": PATCH},
    {"instance_id": "t2", "model_name_or_path": "m", "model_patch": None},
]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "".join(json.dumps(entry) + "\n" for entry in ENTRIES),
        "\n".join(json.dumps(entry, ensure_ascii=False) for entry in ENTRIES),
        json.dumps(ENTRIES),
        json.dumps({entry["instance_id"]: entry for entry in ENTRIES}),
    ],
    ids=["lines", "raw lines", "list", "object"],
)
def test_every_form_says_the_same(text: str, tmp_path: Path) -> None:
    assert read_predictions(written(tmp_path / "p", text)) == WANTED


def test_one_entry_alone_and_a_bare_patch_by_id(tmp_path: Path) -> None:
    assert read_predictions(written(tmp_path / "p", json.dumps(ENTRIES[0]))) == WANTED[:1]
    assert read_predictions(written(tmp_path / "p", json.dumps({"t1": PATCH})))[0].patch == PATCH
    assert read_predictions(written(tmp_path / "p", "")) == []


def test_no_patch_is_the_empty_submission() -> None:
    assert Prediction(task="t", patch=" \n").submission.kind == "empty"
    assert Prediction(task="t", patch=PATCH).submission.data == PATCH.encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"instance_id": "a"}\n{oops\n', "line 2 is no JSON"),
        ([{"model_patch": ""}], "entry 1 has no instance_id"),
        ([["a"]], "entry 1 has no instance_id"),
        ([{"instance_id": "a", "model_patch": 3}], "model_patch is no text"),
        ([{"instance_id": "a"}, {"instance_id": "a"}], "predicts a more than once"),
    ],
)
def test_what_is_no_prediction_is_named(data: Any, message: str, tmp_path: Path) -> None:
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(UsageError, match=message) as caught:
        read_predictions(written(tmp_path / "p", text))
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_predictions(tmp_path / "nowhere")
