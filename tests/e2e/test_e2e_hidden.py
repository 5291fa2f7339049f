"""Hidden tests of a real release: removed, proven, tried with trivial bodies, hidden by definition, and graded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from taskforge.corpus.bundle import Bundle
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.patches import patch_between
from taskforge.generate.protect import is_protected, protected_paths
from taskforge.generate.remove import remove
from taskforge.generate.testmap import build_testmap
from taskforge.generate.trivial import refuse_trivial
from taskforge.generate.validate import prove, prove_effect
from taskforge.generate.validate_imports import Imports, importable
from taskforge.generate.validate_visible import seal_proven
from taskforge.languages import Project, language
from taskforge.model import Candidate, Metrics, Source, TaskCard, TaskTests, TestMap
from taskforge.sandbox import Backend, Environment, Limits
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings

PYTHON = language("python")


@dataclass(frozen=True)
class Release:
    snapshot: Snapshot
    environment: Environment
    protected: tuple[str, ...]
    test_map: TestMap
    imports: Imports
    project: Project


@pytest.fixture(scope="module")
def h11(cache: Path, bubblewrap: Backend) -> Release:
    source = Source.parse("pypi:h11==0.16.0")
    snapshot = acquire(source, cache=cache, index_url=Settings().index_url, timeout=60)
    environment = environments.build(snapshot, backend=bubblewrap, cache=cache, log=print)[1]
    protected = protected_paths(snapshot.tree, PYTHON)
    files = {path: entry.data for path, entry in snapshot.tree.items() if entry.kind != "link"}
    with Pool(bubblewrap, size=0) as pool:
        test_map = build_testmap(
            snapshot.tree, environment, pool=pool, protected=protected, limits=Limits(), runs=1
        )
        imports = importable(
            snapshot.tree, environment, language=PYTHON, pool=pool, protected=protected, limits=Limits()
        )
    project = PYTHON.project(
        files, is_product=lambda path: PYTHON.is_source(path) and not is_protected(path, protected)
    )
    return Release(snapshot, environment, protected, test_map, imports, project)


def test_every_test_of_it_is_found_where_it_is_written(h11: Release) -> None:
    assert len(h11.test_map.tests) == 78
    assert [record.id for record in h11.test_map.tests if not record.defined] == []
    assert len(h11.imports.modules) == 11
    assert h11.imports.others == {}


def test_hidden_by_definition_proven_and_graded(h11: Release, pool: Pool) -> None:
    path, name = "h11/_headers.py", "get_comma_header"
    tree, common = h11.snapshot.tree, {"environment": h11.environment, "pool": pool, "limits": Limits()}
    symbol = next(one for one in PYTHON.index(path, tree[path].data) if one.qualname == name)
    number = h11.test_map.functions.index((path, name, symbol.line))
    candidate = Candidate(symbols=(symbol,), tests=tuple(it.id for it in h11.test_map.tests if number in it.enters))
    removal = remove(tree, candidate, PYTHON)
    effect = prove_effect(
        candidate, removal.tree, h11.test_map, protected=h11.protected, imports=h11.imports, **common  # type: ignore[arg-type]
    )
    tried = refuse_trivial(
        candidate, tree, removal.tree, effect.fail_to_pass, h11.test_map,
        language=PYTHON, protected=h11.protected, **common,  # type: ignore[arg-type]
    )  # fmt: skip
    assert tried["tried"] == 10
    reference = removal.tree.changes_to(tree)
    seen = seal_proven(
        removal.tree, reference, h11.test_map, effect,
        language=PYTHON, project=h11.project, protected=h11.protected, **common,  # type: ignore[arg-type]
    )  # fmt: skip
    # Most of its test modules stay in part, and all that stays runs.
    assert set(seen.hiding.tests) == set(effect.fail_to_pass)
    assert {"h11/tests/test_connection.py", "h11/tests/test_headers.py"} <= seen.hiding.pruned.keys()
    assert seen.ran == seen.stays == 78 - len(effect.fail_to_pass)
    workspace = seen.sealed.workspace
    assert b"test_get_comma_header" not in b"".join(entry.data for entry in workspace.values())
    records = {record.id: record for record in h11.test_map.tests}
    required = (*effect.fail_to_pass, *effect.pass_to_pass)
    bundle = Bundle(
        card=TaskCard(
            id="h11", digest="", mode="stub", feature=(f"{path}::{name}",), environment=h11.environment.digest,
            workspace=workspace.digest, provenance=h11.snapshot.provenance, generator="test",
            metrics=Metrics(lines=1, files=1, symbols=1, complexity=1, fail_to_pass=1, pass_to_pass=1),
        ),
        statement="",
        workspace=workspace,
        tests=TaskTests(
            fail_to_pass=effect.fail_to_pass, pass_to_pass=effect.pass_to_pass, graded=effect.pass_to_pass,
            files={it: records[it].file for it in required}, seconds={it: records[it].seconds for it in required},
            protected=h11.protected,
        ),
        hidden=seen.sealed.hidden,
        reference_patch=patch_between({path: removal.tree[path]}, {path: tree[path]}),
        removal_patch=b"",
        reports=seen.report(),
    )  # fmt: skip
    proof = prove(bundle, environment=h11.environment, pool=pool, limits=Limits(), runs=1, full=True)
    assert (proof["empty"], proof["reference_runs"]) == ("failed", 1)
