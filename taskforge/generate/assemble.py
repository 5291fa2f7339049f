"""Put together what the stages made of one candidate: card, tests, patches, reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from taskforge.corpus.bundle import Bundle
from taskforge.generate.acquire import Snapshot
from taskforge.generate.choose import choose_pass_to_pass
from taskforge.generate.difficulty import difficulty
from taskforge.generate.options import Options
from taskforge.generate.patches import patch_between
from taskforge.generate.protect import is_protected
from taskforge.generate.remove import Removal
from taskforge.generate.seal import Sealed
from taskforge.generate.statement import Statement
from taskforge.generate.validate import Effect
from taskforge.languages import Project
from taskforge.model import Candidate, Metrics, TaskCard, TaskTests, TestMap, digest_of
from taskforge.sandbox import Environment
from taskforge.sandbox.platforms import here
from taskforge.version import __version__

__all__ = ["Made", "assemble", "task_id"]


@dataclass(frozen=True, kw_only=True)
class Made:
    """What the stages before made."""

    removal: Removal
    effect: Effect
    sealed: Sealed
    statement: Statement
    trivial: Mapping[str, object]
    hiding: Mapping[str, object]
    sibling: tuple[str, ...]


def task_id(snapshot: Snapshot, candidate: Candidate) -> str:
    """``<owner>__<name>-<commit8>.<mode>-<feature slug>-<hash6>``: the same on every run with the same input."""
    slug = re.sub(r"[^a-z0-9]+", "-", candidate.name.lower()).strip("-")[:40].strip("-") or "feature"
    keys = [symbol.key for symbol in candidate.symbols]
    tail = digest_of([snapshot.digest, candidate.mode, keys])[:6]
    return f"{snapshot.label}.{candidate.mode}-{slug}-{tail}"


def assemble(
    candidate: Candidate,
    made: Made,
    *,
    snapshot: Snapshot,
    test_map: TestMap,
    project: Project,
    environment: Environment,
    protected: tuple[str, ...],
    options: Options,
) -> Bundle:
    """The bundle, before leaks and proof are known. Its reference patch touches nothing that a submission may not."""
    changes, effect, sealed = made.removal.changes, made.effect, made.sealed
    original = {path: snapshot.tree[path] for path in changes}
    deleted = {path: entry for path, entry in changes.items() if entry is not None}
    free = {path for path in changes if not is_protected(path, protected)}
    records = {record.id: record for record in test_map.tests}
    required = (*effect.fail_to_pass, *effect.pass_to_pass)
    tests = TaskTests(
        fail_to_pass=effect.fail_to_pass,
        pass_to_pass=effect.pass_to_pass,
        graded=choose_pass_to_pass(
            candidate, set(effect.pass_to_pass), test_map, seconds=options.p2p_seconds, seed=options.seed
        ),
        files={name: records[name].file for name in required},
        seconds={name: round(records[name].seconds, 4) for name in required},
        protected=protected,
    )
    card = TaskCard(
        id=task_id(snapshot, candidate),
        digest="",
        mode=candidate.mode,
        feature=_feature(candidate),
        environment=environment.digest,
        platform=here(),
        image=environment.image.digest if environment.image is not None else "",
        workspace=sealed.workspace.digest,
        tests_visible=options.tests_visible,
        sibling=made.sibling,
        provenance=snapshot.provenance,
        metrics=_metrics(candidate, made, project),
        generator=__version__,
    )
    return Bundle(
        card=card,
        statement=made.statement.text,
        workspace=sealed.workspace,
        tests=tests,
        # What a removal changed of the project's protected metadata comes back when it is graded.
        hidden=sealed.hidden.with_changes({path: original[path] for path in changes if path not in free}),
        reference_patch=patch_between(
            {path: entry for path, entry in deleted.items() if path in free},
            {path: entry for path, entry in original.items() if path in free},
        ),
        removal_patch=patch_between(original, deleted),
        reports=_reports(candidate, made, snapshot),
    )


def _reports(candidate: Candidate, made: Made, snapshot: Snapshot) -> dict[str, object]:
    """How it was made, for the sealed half."""
    plan = made.removal.plan
    return {
        "snapshot": snapshot.digest,
        "removal": {
            "symbols": [symbol.key for symbol in candidate.symbols],
            "deleted": list(plan.deleted) if plan else [],
            "joined": list(plan.joined) if plan else [],
            "stubbed": dict(plan.stubbed) if plan else {},
            "notes": list(plan.notes) if plan else [],
            "dropped": list(made.sealed.dropped),
        },
        "validation": {
            "causes": made.effect.causes,
            "import_only": list(made.effect.import_only),
            "left_out": list(made.effect.left_out),
        },
        "hiding": dict(made.hiding),
        "statement": dict(made.statement.report),
        # No seconds: made again of the same, a task has to be the same.
        "trivial": {"tried": made.trivial["tried"]},
    }


def _feature(candidate: Candidate) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(f"{symbol.path}::{symbol.qualname}" for symbol in candidate.symbols))
    return candidate.units or named


def _metrics(candidate: Candidate, made: Made, project: Project) -> Metrics:
    lines = sum(_code_lines(code) for code in made.removal.removed.values())
    files = len({key.partition("::")[0] for key in made.removal.removed})
    fan_in = sum(project.units[key].fan_in for key in candidate.units if key in project.units)
    complexity = sum(symbol.complexity for symbol in candidate.symbols)
    tests = len(made.effect.fail_to_pass)
    return Metrics(
        lines=lines,
        files=files,
        symbols=len(candidate.symbols),
        complexity=complexity,
        fan_in=fan_in,
        fail_to_pass=tests,
        pass_to_pass=len(made.effect.pass_to_pass),
        difficulty=difficulty(
            lines=lines, files=files, symbols=len(candidate.symbols), complexity=complexity, tests=tests, fan_in=fan_in
        ),
    )


def _code_lines(code: bytes) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith(b"#") for line in code.splitlines())
