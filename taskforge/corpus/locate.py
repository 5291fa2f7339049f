"""From what a user typed to a task in a corpus."""

from __future__ import annotations

from pathlib import Path

from taskforge.corpus.corpus import Corpus
from taskforge.corpus.reading import close_matches
from taskforge.errors import UsageError

__all__ = ["locate"]


def locate(task: str, corpus: Path | None = None) -> tuple[Corpus, str]:
    """The corpus and the id that ``task`` means.

    Args:
        task: a task's public or sealed folder, or an id, or a unique prefix of one.
        corpus: where to look for ids.

    Raises:
        UsageError: when it means none or several; the hint lists close ones.
        CorpusError: when the corpus cannot be used.
    """
    if corpus is not None:
        opened = Corpus.open(corpus)
        ids = opened.task_ids()
        if task in ids:
            return opened, task
        found = [item for item in ids if task and item.startswith(task)]
        if len(found) == 1:
            return opened, found[0]
        if found:
            raise UsageError(
                f"{task!r} is the start of {len(found)} task ids", hint=f"one of {', '.join(found[:5])}"
            )
        if "/" not in task:
            raise UsageError(f"{corpus} has no task {task!r}", hint=close_matches(task, ids))
    folder = Path(task).expanduser()
    if not folder.exists():
        raise UsageError(
            f"there is no task folder {task!r}",
            hint="name a folder below CORPUS/public/tasks, or an id with --corpus CORPUS",
        )
    return _from_folder(folder.resolve(), task)


def _from_folder(folder: Path, task: str) -> tuple[Corpus, str]:
    for place in (folder, *folder.parents):
        if place.parent.name == "tasks" and place.parents[1].name in {"public", "sealed"}:
            opened = Corpus.open(place.parents[2])
            if place.name not in opened.task_ids():
                raise UsageError(
                    f"{opened.path} has no task {place.name!r}", hint=close_matches(place.name, opened.task_ids())
                )
            return opened, place.name
    raise UsageError(
        f"{task!r} is no task folder", hint="name a folder below CORPUS/public/tasks, or an id with --corpus CORPUS"
    )
