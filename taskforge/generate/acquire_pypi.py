"""One release's sdist from a package index that speaks PEP 691 JSON."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from taskforge.errors import SourceError, UsageError
from taskforge.generate.acquire_archive import MAX_BYTES, sha256_of, stem, too_large
from taskforge.model import Source

__all__ = ["Release", "download"]

_JSON = "application/vnd.pypi.simple.v1+json"
_SDIST = (".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz")


@dataclass(frozen=True)
class Release:
    """One sdist in the cache. ``project`` is the normalised name."""

    project: str
    version: str
    filename: str
    url: str
    sha256: str
    path: Path


def download(source: Source, *, cache: Path, index_url: str, timeout: float) -> Release:
    """The sdist of exactly the version that ``source`` names, without a network when the cache has it.

    Raises:
        SourceError: unknown project or version, a release without sdist, no network, or content of another hash.
    """
    project = str(canonicalize_name(source.location))
    try:
        wanted = Version(source.revision)
    except InvalidVersion:
        raise UsageError(f"{source}: {source.revision!r} is no version", hint="write pypi:NAME==VERSION") from None
    index_url = index_url if index_url.endswith("/") else f"{index_url}/"
    folder = cache / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    # What an index has once published under a file name never changes, so its answer is worth keeping.
    key = hashlib.sha256(f"{index_url}\n{project}\n{wanted}".encode()).hexdigest()
    note = folder / f"{key[:32]}.json"
    known = _remembered(note, folder)
    if known is not None:
        return known
    context = ssl.create_default_context()
    with httpx.Client(verify=context, timeout=timeout, follow_redirects=True) as client:
        try:
            files = _listing(client, urljoin(index_url, f"{project}/"), source)
            chosen = _choose(files, project, wanted, source)
            url = urljoin(urljoin(index_url, f"{project}/"), chosen["url"])
            release = _fetch(client, source, project, str(wanted), chosen, url, folder)
        except (httpx.TransportError, httpx.InvalidURL, httpx.TooManyRedirects) as error:
            raise SourceError(
                f"{source} cannot be fetched from {index_url}: {str(error) or type(error).__name__}",
                hint="check the network, its proxy and certificates, or name another index in TASKFORGE_INDEX_URL",
            ) from None
    record = {**asdict(release), "path": release.path.name}
    _write(note, json.dumps(record, sort_keys=True).encode())
    return release


def _remembered(note: Path, folder: Path) -> Release | None:
    try:
        record = json.loads(note.read_bytes())
        release = Release(**{**record, "path": folder / record["path"]})
        return release if sha256_of(release.path) == release.sha256 else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _listing(client: httpx.Client, url: str, source: Source) -> Sequence[dict[str, Any]]:
    answer = client.get(url, headers={"Accept": _JSON})
    if answer.status_code == 404:
        raise SourceError(f"{source}: the index {url} knows no project of this name", hint="check the spelling")
    if answer.status_code >= 400:
        raise SourceError(
            f"{source}: {url} answered {answer.status_code}", hint="try again, or set another TASKFORGE_INDEX_URL"
        )
    try:
        files = answer.json()["files"]
    except (ValueError, KeyError, TypeError):
        raise SourceError(
            f"{source}: {url} does not answer in PEP 691 JSON", hint="set TASKFORGE_INDEX_URL to an index that does"
        ) from None
    return [file for file in files if isinstance(file, dict) and isinstance(file.get("filename"), str)]


def _choose(files: Sequence[dict[str, Any]], project: str, wanted: Version, source: Source) -> dict[str, Any]:
    sdists: dict[Version, dict[str, Any]] = {}
    wheels: set[Version] = set()
    for file in files:
        name: str = file["filename"]
        if name.endswith(".whl"):
            with contextlib.suppress(InvalidVersion):
                wheels.add(Version(name.split("-")[1]))
        elif name.endswith(_SDIST):
            head, _, tail = stem(name).rpartition("-")
            with contextlib.suppress(InvalidVersion):
                if canonicalize_name(head) == project:
                    # .tar.gz is the form of today; the others are leftovers beside it.
                    version = Version(tail)
                    if version not in sdists or name.endswith(".tar.gz"):
                        sdists[version] = file
    if wanted in sdists:
        return sdists[wanted]
    some = ", ".join(str(version) for version in sorted(sdists, reverse=True)[:5]) or "none"
    if wanted in wheels:
        raise SourceError(
            f"{source}: this release has wheels but no sdist, so neither its tests nor its build are to be had",
            hint=f"releases with an sdist: {some}",
        )
    raise SourceError(f"{source}: {project} has no such version", hint=f"releases with an sdist: {some}")


def _fetch(
    client: httpx.Client, source: Source, project: str, version: str, chosen: dict[str, Any], url: str, folder: Path
) -> Release:
    filename: str = chosen["filename"]
    expected = (chosen.get("hashes") or {}).get("sha256")
    if not isinstance(expected, str):
        raise SourceError(f"{source}: the index gives no SHA-256 for {filename}", hint="set TASKFORGE_INDEX_URL")
    suffix = filename.removeprefix(stem(filename))
    path = folder / f"{expected}{suffix}"
    if not (path.is_file() and sha256_of(path) == expected):
        data = bytearray()
        with client.stream("GET", url) as answer:
            if answer.status_code != 200:
                raise SourceError(f"{source}: {url} answered {answer.status_code}", hint="try again")
            for block in answer.iter_bytes():
                data += block
                if len(data) > MAX_BYTES:
                    raise too_large(filename)
        actual = hashlib.sha256(data).hexdigest()
        if actual != expected:
            raise SourceError(
                f"{source}: {filename} has SHA-256 {actual}, the index says {expected}",
                hint="the download was changed on its way; try again on a network you trust",
            )
        _write(path, bytes(data))
    return Release(project, version, filename, url, expected, path)


def _write(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
