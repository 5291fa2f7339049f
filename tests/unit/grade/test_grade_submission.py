"""Submissions: what applies, byte for byte, and what is refused with its reason."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from taskforge.errors import BadSubmission, UsageError
from taskforge.grade.submission import Submission, admit, apply, read_submission
from taskforge.model import Entry, TaskTests, Tree

TREE = Tree(
    {
        "a.py": Entry(b"one\ntwo\nthree\n"),
        "src/pkg/b.py": Entry(b"def f():\n    raise NotImplementedError\n"),
        "w.py": Entry(b"one\r\ntwo\r\nthree\r\n"),
        "tests/test_a.py": Entry(b"def test(): assert True\n"),
        "blank.py": Entry(b"x\ny\n\n"),
    }
)
GOOD = b"--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,4 @@\n one\n two\n three\n+four\n"


def patched(data: bytes) -> dict[str, Entry | None]:
    return apply(Submission.patch(data), TREE)


def test_a_patch_applies_byte_for_byte() -> None:
    assert patched(GOOD) == {"a.py": Entry(b"one\ntwo\nthree\nfour\n")}


def test_p1_a_lost_final_newline_is_mended() -> None:
    assert patched(GOOD[:-1]) == patched(GOOD)


def test_p1_a_stripped_blank_context_line_is_mended() -> None:
    whole = b"--- a/blank.py\n+++ b/blank.py\n@@ -1,3 +1,3 @@\n x\n-y\n+z\n \n"
    assert patched(whole) == patched(whole.strip()) == {"blank.py": Entry(b"x\nz\n\n")}


def test_p2_a_count_that_is_too_small_loses_no_line() -> None:
    lines = b"--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+1\n+2\n+3\n+4\n"
    assert patched(lines) == {"new.py": Entry(b"1\n2\n3\n4\n")}


def test_p2_a_count_that_is_too_large_is_mended() -> None:
    assert patched(GOOD.replace(b"-1,3 +1,4", b"-1,9 +1,9")) == patched(GOOD)


def test_p2_a_hunk_with_two_readings_is_refused_by_name() -> None:
    signed = GOOD.replace(b"+1,4", b"+1,9") + b"-- \n2.39.5\n"
    with pytest.raises(BadSubmission, match=r"@@ -1,3 \+1,9 @@.*a\.py"):
        patched(signed)


def test_p2_twin_a_signature_after_right_counts_is_ignored() -> None:
    assert patched(GOOD + b"-- \n2.39.5\n\n") == patched(GOOD)


def test_p3_crlf_survives() -> None:
    patch = b"--- a/w.py\n+++ b/w.py\n@@ -1,3 +1,3 @@\n one\r\n-two\r\n+2\r\n three\r\n"
    assert patched(patch) == {"w.py": Entry(b"one\r\n2\r\nthree\r\n")}
    with pytest.raises(BadSubmission, match="does not apply"):
        patched(patch.replace(b"\r", b""))


def test_p5_an_applied_patch_is_refused_and_never_reversed() -> None:
    done = TREE.with_changes(patched(GOOD))
    with pytest.raises(BadSubmission, match="does not apply"):
        apply(Submission.patch(GOOD), done)
    added = b"--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(BadSubmission, match="already exists"):
        patched(added)


def test_fuzz_is_refused() -> None:
    with pytest.raises(BadSubmission, match="does not apply"):
        patched(GOOD.replace(b" one", b" uno"))


@pytest.mark.parametrize(("old", "new"), [("a.py", "a.py"), ("x/y/a.py", "x/y/a.py"), ("a/a.py", "b/a.py")])
def test_the_depth_is_found(old: str, new: str) -> None:
    data = GOOD.replace(b"a/a.py", old.encode()).replace(b"b/a.py", new.encode())
    assert patched(data) == patched(GOOD)


def test_a_patch_without_context_applies_where_it_says() -> None:
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+1\n@@ -2,0 +3 @@\n+2.5\n@@ -3 +4,0 @@\n-three\n"
    assert patched(patch) == {"a.py": Entry(b"1\ntwo\n2.5\n")}


def test_an_insertion_without_context_does_not_go_to_the_end() -> None:
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -1,0 +2 @@\n+1.5\n"
    assert patched(patch) == {"a.py": Entry(b"one\n1.5\ntwo\nthree\n")}
    first = b"--- a/a.py\n+++ b/a.py\n@@ -0,0 +1 @@\n+0\n"
    assert patched(first) == {"a.py": Entry(b"0\none\ntwo\nthree\n")}
    last = b"--- a/a.py\n+++ b/a.py\n@@ -3,0 +4 @@\n+4\n"
    assert patched(last) == {"a.py": Entry(b"one\ntwo\nthree\n4\n")}


def test_a_hunk_without_context_that_fits_elsewhere_is_refused() -> None:
    # git alone finds `two` one line further up.
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -3 +3 @@\n-two\n+2\n"
    with pytest.raises(BadSubmission, match=r"@@ -3 \+3 @@' of 'a\.py' has no context and does not fit"):
        patched(patch)
    with pytest.raises(BadSubmission, match="does not fit the lines"):
        patched(b"--- a/a.py\n+++ b/a.py\n@@ -9,0 +10 @@\n+x\n")


def test_a_file_replaced_as_a_whole_applies() -> None:
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -1,3 +1 @@\n-one\n-two\n-three\n+all\n"
    assert patched(patch) == {"a.py": Entry(b"all\n")}
    cut = b"--- a/a.py\n+++ b/a.py\n@@ -1,3 +1 @@\n-one\n-two\n-three\n+all\n\\ No newline at end of file\n"
    assert patched(cut) == {"a.py": Entry(b"all")}
    gone = b"--- a/a.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"
    assert patched(gone) == {"a.py": None}


def test_a_missing_file_is_named() -> None:
    with pytest.raises(BadSubmission, match=r"'nope\.py', which the workspace does not have"):
        patched(GOOD.replace(b"a/a.py", b"a/nope.py").replace(b"b/a.py", b"b/nope.py"))


def test_modes_and_renames_are_kept() -> None:
    mode = b"diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n"
    assert patched(mode) == {"a.py": Entry(TREE["a.py"].data, "exec")}
    rename = b"diff --git a/a.py b/z.py\nsimilarity index 100%\nrename from a.py\nrename to z.py\n"
    assert patched(rename) == {"a.py": None, "z.py": TREE["a.py"]}


def link(name: bytes, target: bytes) -> bytes:
    return (
        b"diff --git a/%s b/%s\nnew file mode 120000\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s\n"
        b"\\ No newline at end of file\n" % (name, name, name, target)
    )


@pytest.mark.parametrize("target", [b"/etc/passwd", b"../x", b".git/config"])
def test_p8_a_link_out_of_the_tree_is_refused(target: bytes) -> None:
    with pytest.raises(BadSubmission, match="leaves the workspace"):
        patched(link(b"l", target))


def test_p8_twin_a_link_inside_applies_but_is_not_admitted() -> None:
    changes = patched(link(b"src/l", b"../a.py"))
    assert changes == {"src/l": Entry(b"../a.py", "link")}
    assert admit(changes, TESTS, strict=False).restored == ("src/l",)


@pytest.mark.parametrize("name", [b"../x", b".git/config", b"src/.GIT/x", b"/etc/x"])
def test_p8_names_outside_are_refused(name: bytes) -> None:
    with pytest.raises(BadSubmission):
        patched(b"--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n" % name)


def test_p8_a_submodule_is_refused() -> None:
    with pytest.raises(BadSubmission, match="submodule"):
        patched(
            b"diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n+++ b/s\n"
            b"@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n"
        )


def test_a_file_below_a_file_is_refused() -> None:
    with pytest.raises(BadSubmission, match="not a folder"):
        patched(b"--- /dev/null\n+++ b/a.py/x\n@@ -0,0 +1 @@\n+x\n")


def test_an_odd_name_is_kept() -> None:
    data = b'diff --git "a/n\\303\\244 \\377.py" "b/n\\303\\244 \\377.py"\nnew file mode 100644\n'
    data += b'--- /dev/null\n+++ "b/n\\303\\244 \\377.py"\n@@ -0,0 +1 @@\n+x\n'
    assert patched(data) == {os.fsdecode(b"n\xc3\xa4 \xff.py"): Entry(b"x\n")}


def test_empty_is_legal_and_text_is_not() -> None:
    assert Submission.patch(b" \n").kind == "empty"
    assert patched(b"") == {}
    with pytest.raises(BadSubmission, match="no diff"):
        patched(b"I fixed it.\n")


def test_reading(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no submission"):
        read_submission(str(tmp_path / "none"), io.BytesIO())
    assert read_submission("-", io.BytesIO(GOOD)) == Submission.patch(GOOD)
    (tmp_path / "p").write_bytes(GOOD)
    assert read_submission(str(tmp_path / "p"), io.BytesIO()).digest == Submission.patch(GOOD).digest


def test_a_folder_is_compared_with_the_workspace(tmp_path: Path) -> None:
    for name in ("src/pkg", "tests", ".git", "__pycache__"):
        (tmp_path / name).mkdir(parents=True)
    for name, entry in TREE.items():
        if name != "w.py":
            (tmp_path / name).write_bytes(entry.data)
    (tmp_path / "a.py").write_bytes(b"new\r\n")
    (tmp_path / ".git/config").write_bytes(b"x")
    (tmp_path / "__pycache__/a.pyc").write_bytes(b"x")
    found = apply(read_submission(str(tmp_path), io.BytesIO()), TREE)
    assert found == {"a.py": Entry(b"new\r\n"), "w.py": None}


TESTS = TaskTests(fail_to_pass=("t",), protected=("tests/", "check.py"))


def test_protected_and_steering_files_are_put_back() -> None:
    x = Entry(b"x")
    bad = ["tests/test_a.py", "Tests/new.py", "tests", "CHECK.py", "src/conftest.py", "a.pth", "pyproject.toml", "m.so"]
    changes: dict[str, Entry | None] = {**dict.fromkeys(bad, x), "tests/gone.py": None, "src/ok.py": x}
    found = admit(changes, TESTS, strict=False)
    assert found.changes == {"src/ok.py": x}
    assert set(found.restored) == {*bad, "tests/gone.py"}
    with pytest.raises(BadSubmission, match="protected"):
        admit(changes, TESTS, strict=True)
    assert admit({"src/ok.py": x}, TESTS, strict=True).restored == ()


def test_only_allowed_places_may_change() -> None:
    limited = TESTS.model_copy(update={"allowed": ("src/",)})
    x = Entry(b"x")
    assert admit({"src/a.py": x, "b.py": x}, limited, strict=False).restored == ("b.py",)


def test_a_file_of_the_product_may_change_but_no_new_one_may_steer() -> None:
    x = Entry(b"x")
    given = {"src/pkg/fast.so", "src/pkg/template/setup.py", "tests/conftest.py"}
    changes: dict[str, Entry | None] = {**dict.fromkeys(given, x), "src/pkg/new.so": x, "src/pkg/conftest.py": x}
    found = admit(changes, TESTS, strict=False, workspace=given)
    assert set(found.changes) == {"src/pkg/fast.so", "src/pkg/template/setup.py"}
    assert found.restored == ("src/pkg/conftest.py", "src/pkg/new.so", "tests/conftest.py")
