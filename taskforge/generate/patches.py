"""Patches between trees, made by git from bytes."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from taskforge import process
from taskforge.errors import Fault
from taskforge.model import Entry

__all__ = ["git", "patch_between"]

_MODES = {"file": b"100644", "exec": b"100755", "link": b"120000"}
_CAP = 512 * 1024 * 1024
_WHO = b"taskforge <taskforge@localhost> 946684800 +0000"
_ODD = re.compile(rb"[^A-Za-z0-9_./+ -]")


def git(arguments: Sequence[str], folder: Path, *, stdin: bytes = b"", timeout: float = 120.0) -> bytes:
    """Run git in ``folder`` and return what it prints. The user's and the machine's configuration have no say.

    Raises:
        Fault: when git is missing, fails, or takes longer than ``timeout`` seconds.
    """
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
        "GIT_AUTHOR_NAME": "taskforge",
        "GIT_AUTHOR_EMAIL": "taskforge@localhost",
        "GIT_AUTHOR_DATE": "2000-01-01T00:00:00+0000",
        "GIT_COMMITTER_NAME": "taskforge",
        "GIT_COMMITTER_EMAIL": "taskforge@localhost",
        "GIT_COMMITTER_DATE": "2000-01-01T00:00:00+0000",
    }
    what = f"`git {arguments[0]}` in {folder}"
    try:
        done = process.run(["git", *arguments], timeout=timeout, cwd=folder, env=env, stdin=stdin, cap=_CAP)
    except process.ProcessTimeoutError as problem:
        raise Fault(f"{what} took longer than {timeout:g} s", kind="git_failed") from problem
    except OSError as problem:
        raise Fault(
            f"{what} cannot be started: {problem}", kind="git_missing", hint="install git", retryable=False
        ) from problem
    if done.returncode:
        raise Fault(f"{what} ended with {done.returncode}: {done.text[-500:]}", kind="git_failed")
    if len(done.stdout) >= _CAP:
        raise Fault(f"{what} printed more than {_CAP} bytes", kind="git_failed", retryable=False)
    return done.stdout


def patch_between(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> bytes:
    """A patch that ``git apply -p1`` turns ``before`` into ``after`` with, byte for byte, modes and links included.

    Empty when they are equal. Renames are written as a deletion and an addition. Nothing is checked out: git gets both
    trees through a pipe, so no name, link, attribute or line ending is ever interpreted on this disk.

    Raises:
        Fault: when git fails.
    """
    differing = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if not differing:
        return b""
    with tempfile.TemporaryDirectory(prefix="taskforge-patch-") as name:
        folder = Path(name)
        git(["init", "--quiet", "--bare", "--template=", "."], folder)
        stream = b"".join(
            part
            for branch, tree in ((b"before", before), (b"after", after))
            for part in _commit(branch, {path: tree[path] for path in differing if path in tree})
        )
        git(["fast-import", "--quiet"], folder, stdin=stream + b"done\n")
        options = ["--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"]
        prefixes = ["--src-prefix=a/", "--dst-prefix=b/"]
        return git(["diff-tree", "-r", "-p", *options, *prefixes, "refs/heads/before", "refs/heads/after"], folder)


def _commit(branch: bytes, entries: Mapping[str, Entry]) -> list[bytes]:
    parts = [b"commit refs/heads/%s\ncommitter %s\ndata 0\n" % (branch, _WHO)]
    for path, entry in entries.items():
        parts.append(b"M %s inline %s\n" % (_MODES[entry.kind], _quoted(os.fsencode(path))))
        parts.append(b"data %d\n%s\n" % (len(entry.data), entry.data))
    return parts


def _quoted(path: bytes) -> bytes:
    return b'"%s"' % _ODD.sub(lambda found: b"\\%03o" % found[0][0], path)
