"""The words of a task: what to build, where, and how it will be judged. Nothing of the body.

The text is made of the two trees, and of what the hidden tests name. What they ask for and nobody says is found by
:mod:`taskforge.generate.fairness` and told as a fact; where that cannot be, there is no task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskforge.errors import TaskRejected
from taskforge.generate.fairness import Hole, Judge
from taskforge.generate.statement_check import body_lines, lines_of_body_in
from taskforge.generate.statement_edits import aside
from taskforge.generate.statement_gone import Gone
from taskforge.generate.statement_sections import Facts, section
from taskforge.model import Candidate, Symbol, Tree

__all__ = ["Statement", "describe", "lines_of_body_in", "statement"]

#: Names in a title.
_NAMES: Final = 4
_TELLS: Final = {
    "import": "They import",
    "attribute": "They read these attributes",
    "keyword": "They pass these keyword arguments",
    "exception": "They expect these errors or warnings in some cases where it is used",
    "message": "They match messages with these texts (\N{HORIZONTAL ELLIPSIS} stands for a value)",
    "value": "They use these values and texts, which the code knows (\N{HORIZONTAL ELLIPSIS} stands for a value)",
    "text": "They compare these texts",
    "patched": "They replace these names while they run, so the code has to reach them by that name",
}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement, and how it came about."""

    text: str
    """Markdown."""
    told: tuple[Hole, ...]
    """What had to be said because hidden tests ask for it and nothing else says it."""
    report: Mapping[str, object]
    """JSON data for the sealed half: ``writer``, ``told``, and of a model its name, prompt and fate."""


def statement(
    candidate: Candidate, before: Tree, after: Tree, index: Mapping[str, Sequence[Symbol]], *, tests_visible: bool
) -> str:
    """What reading alone can say before any test has run: Markdown, without regard to hidden tests.

    Args:
        before: the original tree, which ``index`` describes.
        after: the workspace. Lines are told as they are there, and call sites are taken from it, so that nothing is
            shown that it does not hold.
        index: symbols of ``before`` by path.
        tests_visible: whether the workspace holds the tests that judge.

    Raises:
        TaskRejected: ``statement_unclear`` when the workspace does not show a symbol's signature; ``undescribed`` when
            neither documentation nor a caller says what it does, and the tests are hidden.
    """
    for symbol in candidate.symbols:
        if symbol.path not in after or symbol not in index.get(symbol.path, ()):
            what = f"{symbol.key} is not in the index, or its file not in the workspace"
            raise TaskRejected("statement_unclear", what)
    removed = {it.key: before[it.path].data[it.body.start : it.body.end] for it in candidate.symbols}
    return describe(candidate, before, after, removed=removed, tests_visible=tests_visible).text


def describe(
    candidate: Candidate,
    before: Tree,
    after: Tree,
    *,
    removed: Mapping[str, bytes],
    hidden: Mapping[str, bytes] | None = None,
    required: Sequence[str] = (),
    why_stub: Mapping[str, str] | None = None,
    tests_visible: bool = False,
) -> Statement:
    """The statement of a task by any mode, from the template.

    Args:
        before: the original tree.
        after: the sealed workspace.
        removed: key -> bytes that are gone, none of whose lines may be shown.
        hidden: path -> bytes of the tests that the workspace does not show, data of theirs included.
        required: ids of FAIL_TO_PASS.
        why_stub: ``path::qualname`` -> why it stays as a stub although it was to go.
        tests_visible: whether the workspace holds the tests that judge.

    Raises:
        TaskRejected: ``statement_unclear`` when a file cannot be read or does not show what it should; ``undescribed``
            when hidden tests ask for what nothing can say, or nothing says what a definition does;
            ``statement_tells`` when it would hold a line of the removed code.
    """
    judge = Judge(_comparable(candidate, before, after, removed), after, hidden or {}, required)
    secret = body_lines(removed.values())
    facts = Facts(judge=judge, after=after, secret=secret, why_stub=why_stub or {}, tests_visible=tests_visible)
    names = _named(candidate, judge.gone)
    named = [it for group in names.values() for it in group]
    if not named or (candidate.mode == "stub" and not all(it.stays for it in named)):
        what = f"the workspace does not show {candidate.name} as mode {candidate.mode} leaves it"
        raise TaskRejected("statement_unclear", what)
    told = [*named, *(it for it in judge.gone if it not in named and _is_told(it, facts))]
    groups: dict[tuple[str, str], list[Gone]] = {}
    for it in told:
        groups.setdefault((it.path, it.qualname), []).append(it)
    body = [paragraph for group in groups.values() for paragraph in section(group, facts)]
    others = aside(judge.gone, told, before, after, judge.before)
    first = [f"# Implement {_title(list(names))}", _task(told, after)]
    judging = ["## How it is judged", _judging(tests_visible=tests_visible, stays=all(it.stays for it in told))]

    def written(holes: Sequence[Hole]) -> str:
        return "\n\n".join([*first, *body, *_asked(holes), *others, *judging]) + "\n"

    holes = judge.holes(written(()))
    text = written(holes)
    refuse_holes(judge.holes(text), candidate.name)
    if lines := lines_of_body_in(text, removed):
        raise TaskRejected("statement_tells", f"the statement holds a line of the removed body: {lines[0]!r}")
    report = {"writer": "template", "told": [hole.model_dump(mode="json") for hole in holes]}
    return Statement(text=text, told=holes, report=report)


def refuse_holes(holes: Sequence[Hole], name: str) -> None:
    """Refuse a task whose hidden tests ask for what nobody says.

    Raises:
        TaskRejected: ``undescribed``, naming the first hole.
    """
    if holes:
        first = holes[0]
        raise TaskRejected(
            "undescribed",
            f"{first.where} needs the {first.kind} {first.what[:200]!r} of {name}; nothing a solver may read says so",
        )


def _comparable(candidate: Candidate, before: Tree, after: Tree, removed: Mapping[str, bytes]) -> Tree:
    """``before`` without the files that sealing dropped: build products and caches are no part of the feature."""
    mine = {*candidate.files, *(key.partition("::")[0] for key in removed), *(path for path, _ in _keys(candidate))}
    return Tree({path: entry for path, entry in before.items() if path in after or path in mine})


def _keys(candidate: Candidate) -> list[tuple[str, str]]:
    """``(path, qualname)`` of what the candidate names."""
    named = [(it.path, it.qualname) for it in candidate.symbols]
    units = [(path, name) for path, _, name in (key.partition("::") for key in candidate.units)]
    return list(dict.fromkeys(units or named))


def _named(candidate: Candidate, gone: Sequence[Gone]) -> dict[str, list[Gone]]:
    """Name -> what is gone of it, for all that the candidate names. A class that had to stay is told by its members; a
    method whose class went along is told with the class."""
    found: dict[str, list[Gone]] = {}
    for path, name in _keys(candidate):
        here = [it for it in gone if it.path == path]
        own = [it for it in here if it.qualname == name or it.qualname.startswith(f"{name}.")]
        outer = [it for it in here if it.kind == "class" and name.startswith(f"{it.qualname}.")]
        if own or outer:
            found.setdefault(name if own else outer[0].qualname, []).extend(own or outer)
    return found


def _is_told(gone: Gone, facts: Facts) -> bool:
    """Whether a solver needs to know of it: helpers that only the removed code called are his own affair."""
    if gone.stays or gone.name in facts.judge.wanted:
        return True
    if facts.judge.after.needs(gone.module, gone.name):
        return True
    if gone.kind == "constant":
        # Names for the inner use of a module are as often public by their look.
        told = gone.name.isupper() or gone.name in facts.judge.before.listed(gone.module)
        return (gone.public and told) or bool(facts.sites(gone))
    return gone.public or bool(facts.sites(gone))


def _title(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMES]) + more


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in dict.fromkeys(paths))


def _task(told: Sequence[Gone], after: Tree) -> str:
    stubs, whole = [it for it in told if it.stays], [it for it in told if not it.stays]
    end = "so that the project works as its documentation, its callers and its tests expect."
    parts = []
    if stubs:
        kinds = {it.kind for it in stubs}
        noun = "method" if kinds <= {"method", "property"} else "function"
        noun, verb = (f"{noun}s", "have") if len({it.qualname for it in stubs}) > 1 else (noun, "has")
        which = "below" if not whole else "whose head is still there"
        parts.append(
            f"The code of the {noun} {which} {verb} been removed from {_listed([it.path for it in stubs])} and replaced"
            " by `raise NotImplementedError`."
        )
    if whole:
        which = "what is described below" if not stubs else "the rest of what is described below"
        parts.append(
            f"The definitions of {which} have been removed from {_listed([it.path for it in whole])}, with what existed"
            " only for them: imports, re-exports, entries of `__all__`, private helpers (the end lists any). How the"
            " code is divided into private parts is up to you; every name told here has to be there again, at the place"
            " told."
        )
        files = [it for it in dict.fromkeys(it.path for it in whole) if it not in after]
        if files:
            parts.append(f"These files are gone as a whole: {_listed(files)}.")
    return " ".join([*parts, f"Write {'it' if len({it.qualname for it in told}) == 1 else 'them'} again, {end}"])


def _asked(holes: Sequence[Hole]) -> list[str]:
    if not holes:
        return []
    lines = []
    for kind, words in _TELLS.items():
        told = dict.fromkeys(hole.tell for hole in holes if hole.kind == kind and hole.tell)
        if told:
            lines.append(f"- {words}: {'; '.join(told)}.")
    return ["## What the tests rely on beyond that", "\n".join(lines)] if lines else []


def _judging(*, tests_visible: bool, stays: bool) -> str:
    where = "They are in the workspace." if tests_visible else "Their files may be hidden from the workspace."
    names = "as they are" if stays else "as they are told here"
    return (
        "By the project's own tests, run offline, after your change: those that need this code, and others that passed "
        f"before and must still pass. {where} Do not edit tests or the configuration of tests: such edits are undone "
        f"before judging. Keep the names, the signatures and the decorators {names}. Installing packages and the "
        "network are not available."
    )
