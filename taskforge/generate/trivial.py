"""Solutions that need no thought: a task that one of them resolves asks nothing.

They are tried as submissions to the tests that must pass again. This is also what finds tests that assert nothing of
the feature: such a test passes when the feature merely does not raise, and the first trivial body returns None.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskforge.errors import SandboxFault, TaskRejected
from taskforge.generate.protect import is_protected
from taskforge.languages import Language, SkippedFile
from taskforge.model import Candidate, Changes, Entry, Symbol, TestMap, Tree
from taskforge.sandbox import Environment, Limits, PytestJob, Sandbox, SandboxSpec
from taskforge.sandbox.pool import Pool

__all__ = ["Trivial", "refuse_trivial", "trivial_solutions"]

#: What is tried, most likely first. ``pass`` is the body that returns None.
_VALUES: Final = ("None", "True", "False", "0", '""', "[]", "{}", "()")
_STUB: Final = re.compile(rb"[ \t\f]*raise NotImplementedError(?P<yield>; yield|(?:\r\n|\r|\n)[ \t\f]*yield)?")
_RAISE: Final = b"raise NotImplementedError"
#: Tighter than when grading: what takes longer is no trivial solution. Seconds, and times the baseline.
_LIMIT, _FACTOR = 2.0, 4.0
#: Tests of the first, quick question.
_QUICK: Final = 5


@dataclass(frozen=True, kw_only=True)
class Trivial:
    """One solution: the original code, and one and the same body for all that was removed."""

    name: str
    """For people: ``return None``, ``return argument 2``."""
    changes: Mapping[str, bytes]
    """Path -> bytes, of the files that hold the feature."""


def trivial_solutions(candidate: Candidate, original: Tree, lang: Language) -> tuple[Trivial, ...]:
    """Every trivial solution that differs from the ones before it.

    Each kind is applied to all functions at once. A function with fewer arguments returns None where another returns
    its third. A constructor returns nothing in any of them, and a generator yields nothing, or what an argument holds.
    """
    by_path: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in candidate.symbols:
        if symbol.body.start < symbol.body.end:
            by_path[symbol.path].append(symbol)
    most = max((len(_arguments(symbol)) for found in by_path.values() for symbol in found), default=0)
    kinds: list[tuple[str, str | int]] = [(f"return {value}", value) for value in _VALUES]
    kinds += [(f"return argument {number + 1}", number) for number in range(most)]
    solutions: list[Trivial] = []
    for name, kind in kinds:
        changes: dict[str, bytes] = {}
        for path, symbols in sorted(by_path.items()):
            try:
                changes[path] = _with_bodies(original[path].data, symbols, kind, lang)
            except SkippedFile:
                return ()  # What has no body that could be replaced has no trivial one either.
        if changes and all(changes != one.changes for one in solutions):
            solutions.append(Trivial(name=name, changes=changes))
    return tuple(solutions)


def _with_bodies(source: bytes, symbols: Sequence[Symbol], kind: str | int, lang: Language) -> bytes:
    """The language's own stub, its ``raise`` replaced in each body."""
    result = lang.stub(source, symbols)
    shift = 0
    for symbol in sorted(symbols, key=lambda it: it.body.start):
        start = symbol.body.start + shift
        found = _STUB.match(result, start)
        if found is None:
            raise SkippedFile("stub_unclear", f"the stub of {symbol.key} does not begin where its body did")
        shift += len(found[0]) - (symbol.body.end - symbol.body.start)
        body = found[0].replace(_RAISE, _statement(symbol, kind).encode())
        result = result[:start] + body + result[found.end() :]
        shift += len(body) - len(found[0])
    return result


def _statement(symbol: Symbol, kind: str | int) -> str:
    names = _arguments(symbol)
    value = kind if isinstance(kind, str) else names[kind] if kind < len(names) else "None"
    if symbol.flavour == "generator":
        return f"yield from {value}; return" if value in names else "return"
    if symbol.flavour == "async_generator" or symbol.qualname.rpartition(".")[2] == "__init__":
        return "return"
    return f"return {value}"


def _arguments(symbol: Symbol) -> list[str]:
    """Names of a function's arguments in their order, ``self`` included."""
    try:
        module = ast.parse(textwrap.dedent(symbol.signature).strip() + "\n    pass")
    except (SyntaxError, ValueError):
        return []
    head = module.body[0]
    if not isinstance(head, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    found = head.args
    several = [*found.posonlyargs, *found.args, found.vararg, *found.kwonlyargs, found.kwarg]
    return [one.arg for one in several if one is not None]


def refuse_trivial(
    candidate: Candidate,
    original: Tree,
    removed: Tree,
    required: Sequence[str],
    test_map: TestMap,
    *,
    language: Language,
    environment: Environment,
    pool: Pool,
    protected: tuple[str, ...],
    limits: Limits,
) -> dict[str, object]:
    """Try every trivial solution on ``removed`` with what was removed around it put back.

    They run one after the other in one sandbox; one that seems to do is tried once more in a fresh one.

    Args:
        required: FAIL_TO_PASS.

    Returns:
        ``{"tried": how many, "cpu_seconds": of all}``, for the task's report.

    Raises:
        TaskRejected: ``trivial_solution``, naming it.
        SandboxFault: when a sandbox broke.
    """
    back = {path: it for path, it in removed.changes_to(original).items() if not is_protected(path, protected)}
    spec = SandboxSpec(environment=environment, tree=removed, protected=protected, limits=limits)
    jobs = _jobs(test_map, required)
    solutions = trivial_solutions(candidate, original, language)
    cpu = 0.0
    for solution, sandbox in _on_sandboxes(solutions, pool, spec):
        changes = {**back, **{path: Entry(data, original[path].kind) for path, data in solution.changes.items()}}
        good, seconds = _resolved(sandbox, changes, jobs)
        cpu += seconds
        if good:
            with pool.take(spec) as fresh:
                good, seconds = _resolved(fresh, changes, jobs)
            cpu += seconds
        if good:
            what = f"all {len(required)} tests of {candidate.name} pass with the body `{solution.name}`"
            raise TaskRejected("trivial_solution", what)
    return {"tried": len(solutions), "cpu_seconds": round(cpu, 3)}


def _on_sandboxes(
    solutions: Sequence[Trivial], pool: Pool, spec: SandboxSpec
) -> Iterator[tuple[Trivial, Sandbox]]:
    waiting = list(solutions)
    while waiting:
        with pool.take(spec) as sandbox:
            while waiting and sandbox.alive:
                yield waiting.pop(0), sandbox


def _jobs(test_map: TestMap, required: Sequence[str]) -> list[PytestJob]:
    """A quick question, a few quick tests of one file, and then the rest."""
    records = {record.id: record for record in test_map.tests}
    quickest = sorted(required, key=lambda name: records[name].seconds)
    first = [name for name in quickest if records[name].file == records[quickest[0]].file][:_QUICK]
    rest = [name for name in required if name not in set(first)]
    return [
        PytestJob(
            files=tuple(dict.fromkeys(records[name].file for name in names)),
            ids=frozenset(names),
            limits={name: max(_LIMIT, _FACTOR * records[name].seconds) for name in names},
            default_limit=_LIMIT,
            wall_seconds=60.0 + _FACTOR * sum(records[name].seconds for name in names),
            max_timeouts=1,
            max_restarts=1,
            max_failures=1,
        )
        for names in (first, rest)
        if names
    ]


def _resolved(sandbox: Sandbox, changes: Changes, jobs: Sequence[PytestJob]) -> tuple[bool, float]:
    """Whether all tests of ``jobs`` pass, each heard of once; and the CPU seconds that it took to know."""
    cpu = 0.0
    sandbox.lay(changes)
    for job in jobs:
        result = sandbox.run(job)
        cpu += result.cpu_seconds
        passed = {one.id for one in result.reports if one.outcome == "passed"}
        if result.ended == "lost":
            raise SandboxFault("the sandbox was lost while a trivial solution was tried", kind="sandbox_lost")
        if result.ended != "done" or len(result.reports) != len(passed) or passed != (job.ids or frozenset()):
            return False, cpu
    return True, cpu
