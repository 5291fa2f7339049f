"""Stage one: a source becomes a snapshot, its tree by bytes and where it came from.

Nothing of a repository runs here: archives are unpacked in memory, git is asked for objects and never checks them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from taskforge.errors import SourceError, StoreFault
from taskforge.generate import acquire_archive, acquire_folder, acquire_git, acquire_pypi
from taskforge.generate.acquire_metadata import declared, safe_word
from taskforge.model import Entry, Provenance, Source, Tree

__all__ = ["Snapshot", "acquire"]

_POINTER = b"version https://git-lfs.github.com/spec/v1\n"


@dataclass(frozen=True)
class Snapshot:
    """A repository at one moment."""

    tree: Tree
    provenance: Provenance

    @property
    def digest(self) -> str:
        """Digest of the tree: two sources with the same files are the same snapshot."""
        return self.tree.digest

    @property
    def label(self) -> str:
        """``owner__name-<commit8>``, for people and for task ids."""
        return self.provenance.label(self.digest)


def acquire(source: Source, *, cache: Path, index_url: str, timeout: float) -> Snapshot:
    """Fetch what ``source`` names; downloads are kept in ``cache`` by hash.

    Args:
        cache: folder for downloaded archives (``sources/``) and git mirrors (``git/``); made when missing.
        index_url: package index that speaks PEP 691 JSON, for ``pypi:`` sources.
        timeout: seconds without an answer before a download is given up.

    Raises:
        SourceError: when it cannot be had, is damaged, unsafe to unpack, too large, or lacks content that git keeps
            elsewhere (``submodule_unavailable`` and ``lfs_pointer``, named in the message).
        UsageError: when a ``pypi:`` source's version is none.
        StoreFault: when the cache cannot be written.
    """
    try:
        tree, provenance = _fetch(source, cache, index_url, timeout)
    except ValueError as error:
        raise SourceError(f"{source} holds a path that no workspace can have: {error}") from None
    except OSError as error:
        raise StoreFault(
            f"acquiring {source} failed on this host: {error}",
            kind="cache_unwritable",
            hint=f"make room in, or permit writing to, {cache}",
        ) from error
    if not tree:
        raise SourceError(f"{source} has no files in it", hint="name the folder or commit that holds the project")
    _refuse_pointers(source, tree)
    return Snapshot(tree, provenance)


def _fetch(source: Source, cache: Path, index_url: str, timeout: float) -> tuple[Tree, Provenance]:
    if source.kind == "pypi":
        release = acquire_pypi.download(source, cache=cache, index_url=index_url, timeout=timeout)
        entries = acquire_archive.unpack(release.path, name=release.filename)
        facts = declared(entries)
        return Tree(entries), Provenance(
            kind="pypi",
            owner="pypi",
            name=safe_word(release.project),
            version=release.version,
            origin=f"{release.url} sha256:{release.sha256}",
            license=facts.license,
        )
    if source.kind == "archive":
        path = Path(source.location)
        sha256 = acquire_archive.sha256_of(path)
        entries = acquire_archive.unpack(path, name=path.name)
        facts = declared(entries)
        return Tree(entries), Provenance(
            kind="archive",
            owner="local",
            name=safe_word(facts.name or acquire_archive.stem(path.name)),
            version=facts.version,
            origin=f"{path.name} sha256:{sha256}",
            license=facts.license,
        )
    if source.kind == "git":
        found = acquire_git.read(source, cache=cache, timeout=timeout)
        return Tree(found.entries), Provenance(
            kind="git",
            owner=safe_word(found.owner),
            name=safe_word(found.name),
            version=found.version,
            commit=found.commit,
            origin=found.origin,
            license=declared(found.entries).license,
        )
    folder = Path(source.location)
    listed: Mapping[str, Entry] = acquire_folder.read(folder)
    facts = declared(listed)
    version = facts.version
    if not version and (folder / ".git").exists():
        # Builds that take their version from git see no history; the nearest tag is told to them instead.
        version = acquire_git.version_of(folder, "HEAD", timeout)
    return Tree(listed), Provenance(
        kind="folder", owner="local", name=safe_word(folder.name), version=version, license=facts.license
    )


def _refuse_pointers(source: Source, tree: Tree) -> None:
    pointers = [path for path, entry in tree.items() if len(entry.data) < 1024 and entry.data.startswith(_POINTER)]
    if pointers:
        raise SourceError(
            f"{source}: lfs_pointer: the content of {', '.join(pointers[:3])} lies in a Git LFS store, not in the tree",
            hint="give a folder or archive in which `git lfs pull` has been run",
        )
