"""Git objects, read without a checkout: no filters, no hooks, no export attributes come in between."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from packaging.version import InvalidVersion, Version

from taskforge import process
from taskforge.errors import SourceError
from taskforge.generate.acquire_archive import MAX_BYTES, MAX_FILES, too_large
from taskforge.model import Entry, Source
from taskforge.model.tree import EntryKind

__all__ = ["Found", "git", "read", "version_of"]

log = logging.getLogger("taskforge.acquire")

_KINDS: Mapping[str, EntryKind] = {"100644": "file", "100664": "file", "100755": "exec", "120000": "link"}


@dataclass(frozen=True)
class Found:
    """A commit's tree. ``version`` follows the nearest tag that is a version, as setuptools-scm would guess it."""

    entries: dict[str, Entry]
    commit: str
    version: str
    owner: str
    name: str
    origin: str


def git(
    arguments: Sequence[str], *, cwd: Path, timeout: float, stdin: bytes = b"", network: bool = False, cap: int = 2**26
) -> process.Completed:
    """Run git where the repository's own configuration, and the system's, can start nothing.

    Without ``network`` no transport is allowed at all, so that a partial clone cannot fetch behind our back.

    Raises:
        SourceError: when git is missing or does not end in time.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or "SSL" in key}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    environment.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    options = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.ext.allow=never", "safe.directory=*"]
    if network:
        options += ["http.lowSpeedLimit=1", f"http.lowSpeedTime={max(1, int(timeout))}"]
    else:
        options += ["protocol.allow=never"]
    argv = ["git", *(part for option in options for part in ("-c", option)), *arguments]
    try:
        return process.run(
            argv, cwd=cwd, env=environment, stdin=stdin, timeout=timeout * 20 if network else timeout, cap=cap
        )
    except process.ProcessTimeoutError as error:
        raise SourceError(
            f"git {arguments[0]} in {cwd.name} gave up: {error}", hint="raise TASKFORGE_NETWORK_TIMEOUT"
        ) from None
    except FileNotFoundError:
        raise SourceError("git is not installed", hint="install git, or give an archive or a pypi: source") from None


def read(source: Source, *, cache: Path, timeout: float) -> Found:
    """The tree of the commit that ``source`` names; a URL's mirror is kept in ``cache/git``.

    A revision that is a full or abbreviated hash already in the mirror needs no network; names of branches and tags are
    looked up anew.

    Raises:
        SourceError: when the repository or the commit cannot be had, or a submodule's content is missing.
    """
    local = Path(source.location)
    if local.is_dir():
        repository = local
        top = git(["rev-parse", "--show-cdup"], cwd=repository, timeout=timeout)
        if top.returncode:
            raise SourceError(f"{local} is no git repository", hint="without @COMMIT the folder is taken as it is")
        if top.stdout.strip():
            raise SourceError(f"{local} lies inside a git repository", hint="name the repository's top folder")
        commit = _commit(repository, source.revision, timeout)
    else:
        repository, commit = _mirrored(source, cache, timeout)
    if not commit:
        raise SourceError(
            f"{source.location} has no commit {source.revision!r}",
            hint="give a full hash, a tag or a branch that has been pushed",
        )
    owner, name, origin = _address(source.location)
    return Found(
        entries=_entries(repository, commit, source, timeout),
        commit=commit,
        version=version_of(repository, commit, timeout),
        owner=owner,
        name=name,
        origin=origin,
    )


def _mirrored(source: Source, cache: Path, timeout: float) -> tuple[Path, str]:
    folder = cache / "git"
    folder.mkdir(parents=True, exist_ok=True)
    mirror = folder / f"{hashlib.sha256(source.location.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.git"
    with (folder / f"{mirror.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mirror.is_dir():
            _clone(source, mirror, timeout)
            return mirror, _commit(mirror, source.revision, timeout)
        commit = _commit(mirror, source.revision, timeout)
        if commit and re.fullmatch(r"[0-9a-f]{7,64}", source.revision) and commit.startswith(source.revision):
            return mirror, commit
        fetched = git(["fetch", "--quiet", "origin"], cwd=mirror, timeout=timeout, network=True)
        if fetched.returncode:
            raise _unreachable(source, fetched.text)
        commit = _commit(mirror, source.revision, timeout)
        if not commit and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", source.revision):
            # A commit that no reference leads to, such as one of a closed pull request.
            git(["fetch", "--quiet", "origin", source.revision], cwd=mirror, timeout=timeout, network=True)
            commit = _commit(mirror, source.revision, timeout)
        return mirror, commit


def _clone(source: Source, mirror: Path, timeout: float) -> None:
    temporary = Path(tempfile.mkdtemp(dir=mirror.parent, prefix=".partial-"))
    try:
        done = git(
            ["clone", "--quiet", "--mirror", "--", source.location, str(temporary / "git")],
            cwd=temporary,
            timeout=timeout,
            network=True,
        )
        if done.returncode:
            raise _unreachable(source, done.text)
        (temporary / "git").rename(mirror)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unreachable(source: Source, said: str) -> SourceError:
    last = _without_credentials(said.splitlines()[-1] if said else "it said nothing")
    return SourceError(
        f"git cannot fetch {_without_credentials(source.location)}: {last}",
        hint="check the address, the network and your access; a full hash of a commit fetched before needs no network",
    )


def _commit(repository: Path, revision: str, timeout: float) -> str:
    found = git(
        ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"],
        cwd=repository,
        timeout=timeout,
    )
    return found.stdout.decode().strip() if found.returncode == 0 else ""


def _entries(repository: Path, commit: str, source: Source, timeout: float) -> dict[str, Entry]:
    listing = git(["ls-tree", "-r", "-z", "-l", "--full-tree", commit], cwd=repository, timeout=timeout)
    if listing.returncode:
        raise SourceError(f"git cannot list {source}: {listing.text[-500:]}", hint="fetch the repository again")
    wanted: list[tuple[str, EntryKind, bytes, int]] = []
    submodules: list[str] = []
    for line in listing.stdout.split(b"\0")[:-1]:
        head, _, raw = line.partition(b"\t")
        mode, _kind, name, size = head.split()
        path = raw.decode("utf-8", "surrogateescape")
        if mode == b"160000":
            submodules.append(path)
        else:
            wanted.append((path, _KINDS.get(mode.decode(), "file"), name, int(size)))
    if submodules:
        raise SourceError(
            f"{source}: submodule_unavailable: the content of {', '.join(submodules[:3])} lies in another repository",
            hint="give a folder in which `git submodule update --init` has been run",
        )
    total = sum(size for *_, size in wanted)
    if total > MAX_BYTES or len(wanted) > MAX_FILES:
        raise too_large(str(source))
    blobs = git(
        ["cat-file", "--batch"],
        cwd=repository,
        timeout=max(timeout, 120),
        stdin=b"".join(b"%s\n" % name for _, _, name, _ in wanted),
        cap=total + 256 * len(wanted) + 1,
    )
    if blobs.returncode:
        raise SourceError(f"git cannot read the files of {source}: {blobs.text[-500:]}", hint="run `git fsck` in it")
    return _parse_batch(blobs.stdout, wanted, source)


def _parse_batch(data: bytes, wanted: Sequence[tuple[str, EntryKind, bytes, int]], source: Source) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    at = 0
    for path, kind, name, size in wanted:
        start = data.index(b"\n", at) + 1 if b"\n" in data[at : at + 200] else -1
        if start < 0 or data[at : start - 1] != b"%s blob %d" % (name, size):
            raise SourceError(
                f"{source}: git has no content for {path}", hint="the clone is partial or damaged; fetch it whole"
            )
        entries[path] = Entry(data[start : start + size], kind)
        at = start + size + 1
    return entries


def version_of(repository: Path, commit: str, timeout: float) -> str:
    """What the nearest tag makes of the commit; empty without a tag that is a version."""
    found = git(["describe", "--tags", "--long", "--abbrev=8", commit], cwd=repository, timeout=timeout)
    if found.returncode:
        return ""
    tag, distance, _hash = found.stdout.decode("utf-8", "replace").strip().rsplit("-", 2)
    try:
        version = Version(re.sub(r"\A.*?(?=v?\d)", "", tag))
    except InvalidVersion:
        return ""
    if distance == "0":
        return str(version)
    *head, last = version.release
    return f"{'.'.join(map(str, (*head, last + 1)))}.dev{distance}+g{commit[:8]}"


def _without_credentials(text: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


def _address(location: str) -> tuple[str, str, str]:
    """Owner, name and origin for the record; a path on this machine leaves only its name."""
    if Path(location).is_dir() or location.startswith("file:"):
        return "local", Path(location).name.removesuffix(".git"), ""
    origin = _without_credentials(location)
    path = urlsplit(origin).path if "://" in origin else origin.partition(":")[2]
    parts = [part for part in path.removesuffix("/").removesuffix(".git").split("/") if part]
    return (parts[-2] if len(parts) > 1 else "git"), (parts[-1] if parts else "unnamed"), origin
