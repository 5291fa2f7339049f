"""A corpus on disk: ``public/`` for everybody, ``sealed/`` for grading hosts only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from taskforge.corpus.archive import pack, unpack
from taskforge.corpus.atomic import write_bytes, write_folders
from taskforge.corpus.bundle import Bundle, json_bytes
from taskforge.corpus.environments import Environments
from taskforge.corpus.reading import close_matches, load_json, read_fault, read_file, validated
from taskforge.errors import CorpusError, UsageError
from taskforge.model import TaskCard, TaskTests, Tree
from taskforge.version import CORPUS_SCHEMA, __version__

__all__ = ["Corpus"]

T = TypeVar("T")
#: On the sealed side: the digest of every file's content, so that a damaged one can be named. No part of the task.
_PARTS = "digests.json"


class Corpus(Environments):
    """Tasks, environments and snapshots below one folder. Reading never writes; every write is atomic."""

    def __init__(self, path: Path) -> None:
        """Use :meth:`create` or :meth:`open`."""
        super().__init__(path / "public")
        self.path = path
        self.sealed = path / "sealed"

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> Corpus:
        """Make a corpus at ``path``; one that is there already is opened and keeps its settings.

        Raises:
            UsageError: when ``path`` is a file, or a folder with something else in it.
            CorpusError: when a corpus is there that cannot be used.
            StoreFault: when the disk refuses.
        """
        if (path / "public" / "corpus.json").exists():
            return cls.open(path)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is no folder", hint="name a new or empty folder for the corpus")
        # A creation that was killed, or a lost corpus.json, leaves the halves, the lock and the records of the work.
        known = {"public", "sealed", ".lock", ".work"}
        foreign = [item for item in path.iterdir() if item.name not in known] if path.exists() else []
        if foreign:
            raise UsageError(
                f"{path} holds other files ({foreign[0].name}, …) and is no corpus",
                hint="name a new or empty folder for the corpus",
            )
        corpus = cls(path)
        corpus._write_header(dict(settings))
        return corpus

    @classmethod
    def open(cls, path: Path) -> Corpus:
        """The corpus at ``path``; its sealed half may be elsewhere.

        Raises:
            CorpusError: when it is none, is damaged, or was made by a newer taskforge.
        """
        corpus = cls(path)
        try:
            present = (corpus.public / "corpus.json").is_file()
        except OSError as error:
            raise read_fault(error, path) from error
        if not present:
            raise CorpusError(
                f"{path} is no corpus: it has no public/corpus.json",
                hint="name the folder that `taskforge generate --out` wrote",
            )
        header = corpus.header()
        if not isinstance(header.get("settings"), dict) or not isinstance(header.get("counts"), dict):
            raise CorpusError(
                f"{corpus.public / 'corpus.json'} is damaged: settings or counts are missing",
                hint="restore it from a copy, or remove it and run `taskforge generate` into this folder again",
            )
        return corpus

    def header(self) -> dict[str, Any]:
        """``corpus.json``: ``schema_version``, ``generator``, ``settings``, ``counts``."""
        hint = "restore it from a copy, or remove it and run `taskforge generate` into this folder again"
        return load_json(self.public / "corpus.json", newest=CORPUS_SCHEMA, hint=hint)

    def task_ids(self) -> list[str]:
        """Ids of all tasks, sorted. A task is there when its public folder is."""
        folder = self.public / "tasks"
        try:
            return sorted(item.name for item in folder.iterdir() if not item.name.startswith(".") and item.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise read_fault(error, folder) from error

    def card(self, task_id: str) -> TaskCard:
        """The public card.

        Raises:
            CorpusError: when there is no such task (the hint has the closest ids), or it is damaged.
        """
        card = validated(TaskCard, self._public_folder(task_id) / "task.json")
        if card.id != task_id:
            raise CorpusError(f"{self.public / 'tasks' / task_id} holds the card of another task, {card.id}")
        return card

    def cards(self) -> Iterator[TaskCard]:
        """All cards, by id."""
        for task_id in self.task_ids():
            yield self.card(task_id)

    def statement(self, task_id: str) -> str:
        """The statement, Markdown."""
        return read_file(self._public_folder(task_id) / "statement.md").decode("utf-8", "surrogateescape")

    def workspace(self, task_id: str) -> Tree:
        """The tree that a solver gets."""
        return _unpacked(self._public_folder(task_id) / "workspace.tar.zst")

    def tests(self, task_id: str) -> TaskTests:
        """The sealed lists of tests."""
        return validated(TaskTests, self._sealed_folder(task_id) / "tests.json")

    def bundle(self, task_id: str, *, verify: bool = True) -> Bundle:
        """The whole task, proven to be what its digest says.

        Raises:
            CorpusError: naming the file that is missing, damaged or was changed.
        """
        sealed = self._sealed_folder(task_id)
        reports = load_json(sealed / "reports.json")
        bundle = Bundle(
            card=self.card(task_id),
            statement=self.statement(task_id),
            workspace=self.workspace(task_id),
            tests=self.tests(task_id),
            hidden=_unpacked(sealed / "hidden.tar.zst"),
            reference_patch=read_file(sealed / "reference.patch"),
            removal_patch=read_file(sealed / "removal.patch"),
            reports=reports,
        )
        if verify and bundle.digest != bundle.card.digest:
            raise self._changed(bundle)
        return bundle

    def write(self, bundle: Bundle, *, replace: bool = False) -> TaskCard:
        """Store a task and return its card. The same task again is no work; a damaged copy of it is mended.

        Raises:
            CorpusError: when another task has the same id, unless ``replace``.
            StoreFault: when the disk refuses.
        """
        card = bundle.sealed_card()
        if card.id in self.task_ids() and not replace:
            found = self._stored_digest(card.id)
            if found not in {card.digest, ""}:
                raise CorpusError(
                    f"task {card.id} is there already with other content ({found[:12]}, new {card.digest[:12]})",
                    hint="replace it on purpose, or write into another corpus",
                )
        if self._intact(card):
            return card
        sealed = {
            "tests.json": json_bytes(bundle.tests.model_dump()),
            "hidden.tar.zst": pack(bundle.hidden),
            "removal.patch": bundle.removal_patch,
            "reference.patch": bundle.reference_patch,
            "reports.json": json_bytes(dict(bundle.reports)),
            _PARTS: json_bytes(bundle.parts),
        }
        public = {
            "task.json": json_bytes(card.model_dump()),
            "statement.md": bundle.statement.encode("utf-8", "surrogateescape"),
            "workspace.tar.zst": pack(bundle.workspace),
        }
        # The public half last: it alone would be a task that nobody can grade.
        write_folders([(self.sealed / "tasks" / card.id, sealed), (self.public / "tasks" / card.id, public)])
        return card

    def write_snapshot(self, tree: Tree) -> str:
        """Store a source tree on the sealed side; returns its digest."""
        path = self.sealed / "snapshots" / f"{tree.digest}.tar.zst"
        if not path.is_file():
            write_bytes(path, pack(tree))
        return tree.digest

    def snapshot(self, digest: str) -> Tree:
        """A stored source tree.

        Raises:
            CorpusError: when it is missing or is not what its digest says.
        """
        path = self.sealed / "snapshots" / f"{digest}.tar.zst"
        tree = _unpacked(path)
        if tree.digest != digest:
            raise CorpusError(f"{path} was changed: its digest is {tree.digest[:12]}", hint="restore it from a copy")
        return tree

    def update_counts(self) -> dict[str, int]:
        """Count again and write the counts to ``corpus.json``."""
        counts = self._counts()
        header = self.header()
        if header["counts"] != counts or header["generator"] != __version__:
            self._write_header(header["settings"])
        return counts

    def _counts(self) -> dict[str, int]:
        return {
            "tasks": len(self.task_ids()),
            "environments": len(self.environment_digests()),
        }

    def _write_header(self, settings: dict[str, Any]) -> None:
        header = {
            "schema_version": CORPUS_SCHEMA,
            "generator": __version__,
            "settings": settings,
            "counts": self._counts(),
        }
        write_bytes(self.public / "corpus.json", json_bytes(header))

    def _public_folder(self, task_id: str) -> Path:
        folder = self.public / "tasks" / task_id
        # Ids are labels from outside: one that is a path must not lead out of the corpus.
        if not task_id or "/" in task_id or task_id.startswith(".") or not folder.is_dir():
            raise CorpusError(f"{self.path} has no task {task_id!r}", hint=close_matches(task_id, self.task_ids()))
        return folder

    def _sealed_folder(self, task_id: str) -> Path:
        self._public_folder(task_id)
        folder = self.sealed / "tasks" / task_id
        if not folder.is_dir():
            raise CorpusError(
                f"the sealed half of task {task_id} is missing: no {folder}",
                hint="grade on a host that has the corpus's sealed folder, or copy it there",
            )
        return folder

    def _stored_digest(self, task_id: str) -> str:
        """Empty when the stored card cannot be read, which makes it free to be mended."""
        try:
            return self.card(task_id).digest
        except CorpusError:
            return ""

    def _intact(self, card: TaskCard) -> bool:
        try:
            return self.bundle(card.id).card == card
        except CorpusError:
            return False

    def _changed(self, bundle: Bundle) -> CorpusError:
        public, sealed = self.public / "tasks" / bundle.card.id, self.sealed / "tasks" / bundle.card.id
        expected = load_json(sealed / _PARTS) if (sealed / _PARTS).is_file() else {}
        wrong = [name for name, digest in bundle.parts.items() if expected.get(name) != digest]
        where = ", ".join(str((public if (public / name).exists() else sealed) / name) for name in wrong)
        return CorpusError(
            f"task {bundle.card.id} is not what its digest says: {where or 'its digest'} was changed",
            hint="restore it from a copy, or generate the task again",
        )


def _unpacked(path: Path) -> Tree:
    data = read_file(path)
    return _naming(path, lambda: unpack(data))


def _naming(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except CorpusError as error:
        raise CorpusError(f"{path}: {error.message}", hint="restore it from a copy, or generate it again") from None
