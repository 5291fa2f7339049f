"""Where a repository comes from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from taskforge.errors import UsageError
from taskforge.model.base import Value

__all__ = ["Provenance", "Source"]

_PYPI = re.compile(r"pypi:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s=]+)\Z")
_ARCHIVE = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar", ".zip")
_URL = re.compile(r"(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")


class Source(Value):
    """A request for a repository, as the user wrote it, taken apart.

    ``location`` is a project name, a URL or a path; ``revision`` a version or anything that names a commit.
    """

    kind: Literal["pypi", "git", "archive", "folder"]
    location: str
    revision: str = ""

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read ``pypi:name==version``, a git URL or path with ``@commit``, an archive, or a folder.

        Raises:
            UsageError: when it is none of these; the message lists the forms.
        """
        forms = "a source is pypi:NAME==VERSION, GIT-URL@COMMIT, PATH@COMMIT, an sdist archive or a folder"
        if not text.strip():
            raise UsageError("the source is empty", hint=forms)
        if text.startswith("pypi:"):
            found = _PYPI.match(text)
            if not found:
                raise UsageError(f"{text!r} does not name one release", hint="write pypi:NAME==VERSION")
            return cls(kind="pypi", location=found["name"], revision=found["version"])
        if _URL.match(text.removeprefix("git+")):
            url, revision = _split_revision(text.removeprefix("git+"))
            if not revision:
                raise UsageError(f"{text!r} names no commit", hint="append @COMMIT, a full hash, a tag or a branch")
            return cls(kind="git", location=url, revision=revision)
        path = Path(text).expanduser()
        if path.is_dir():
            return cls(kind="folder", location=str(path.resolve()))
        if path.is_file() and path.name.endswith(_ARCHIVE):
            return cls(kind="archive", location=str(path.resolve()))
        head, revision = _split_revision(text)
        if revision and Path(head).expanduser().is_dir():
            return cls(kind="git", location=str(Path(head).expanduser().resolve()), revision=revision)
        if path.is_file():
            raise UsageError(f"{text!r} is a file of no kind known here", hint=f"archives end in {', '.join(_ARCHIVE)}")
        raise UsageError(f"{text!r} is no source: no such folder or file", hint=forms)

    def __str__(self) -> str:
        if self.kind == "pypi":
            return f"pypi:{self.location}=={self.revision}"
        return f"{self.location}@{self.revision}" if self.revision else self.location


def _split_revision(text: str) -> tuple[str, str]:
    head, at, revision = text.rpartition("@")
    # The @ of user@host is no revision.
    if not at or "/" not in head or ":" in revision:
        return text, ""
    return head, revision


class Provenance(Value):
    """Where a snapshot really came from, for the record. Holds no path of the machine that made it."""

    kind: Literal["pypi", "git", "archive", "folder"]
    owner: str = Field(pattern=r"\A[A-Za-z0-9._-]+\z")
    """Namespace for task ids: ``pypi``, a URL's account, or ``local``."""
    name: str = Field(pattern=r"\A[A-Za-z0-9._-]+\z")
    version: str = ""
    """Release, where there is one."""
    commit: str = ""
    """Full commit hash, where there is one."""
    origin: str = ""
    """URL or file name and, for archives, its SHA-256."""
    license: str = ""
    """SPDX expression as declared, or empty."""

    def label(self, snapshot_digest: str) -> str:
        """``owner__name-<commit8>``, the first part of every task id; the tree's digest where there is no commit."""
        return f"{self.owner}__{self.name}-{(self.commit or snapshot_digest)[:8]}"
