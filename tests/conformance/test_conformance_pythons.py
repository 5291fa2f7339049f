"""The runner serves every Python from 3.8 on, and both recorders tell the same."""

from __future__ import annotations

import pytest

from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot
from taskforge.generate.interpreters import available
from taskforge.sandbox import PytestJob, SandboxSpec


def minors() -> list[str]:
    """Every minor version that this host has, oldest first."""
    found = {one.minor for one in available()}
    return sorted(found, key=lambda minor: int(minor.split(".")[1]))


def run(engine, environment, calc, protected, **job):
    tools = bool(job.get("record") == "coverage")
    spec = SandboxSpec(environment=environment, tree=calc.tree, protected=protected, tools=tools)
    with engine.start(spec) as sandbox:
        return sandbox.run(PytestJob(default_limit=20.0, **job))


def entered(result):
    """Test id -> names of the functions of the project that it entered."""
    return {
        report.id: sorted(
            (path, name, line)
            for path, name, line in (result.functions[number] for number in report.enters)
            if path.startswith("src/") and name not in {"Stack", "MeanTest"}
        )
        for report in result.reports
    }


@pytest.mark.parametrize("which", [0, -1], ids=["oldest", "newest"])
def test_the_oldest_and_the_newest_python(engine, calc, calc_protected, bubblewrap, cache, which):
    python = minors()[which]
    # Without a build system: the oldest Python has no backend that reads today's metadata.
    bare = Snapshot(tree=calc.tree.with_changes({"pyproject.toml": None}), provenance=calc.provenance)
    environment = environments.build(bare, backend=bubblewrap, cache=cache, python=python, log=print)[1]
    assert environment.python.startswith(python + ".")
    result = run(engine, environment, bare, calc_protected)
    assert (result.ended, result.exit_code, result.evidence) == ("done", 0, ())
    assert len(result.collected) == len(result.reports) == 12
    assert {report.outcome for report in result.reports} == {"passed"}


def test_both_recorders_tell_the_same(engine, calc, calc_protected, calc_environment, bubblewrap, cache):
    older = [minor for minor in minors() if int(minor.split(".")[1]) < 12][-1]
    environment = environments.build(calc, backend=bubblewrap, cache=cache, python=older, log=print)[1]
    by_coverage = run(engine, environment, calc, calc_protected, record="coverage")
    by_monitoring = run(engine, calc_environment, calc, calc_protected, record="monitoring")
    assert by_coverage.ended == by_monitoring.ended == "done"
    told = entered(by_monitoring)
    assert ("src/calc/core.py", "Stack.push", 20) in told["tests/test_core.py::test_push_and_pop"]
    assert entered(by_coverage) == told
    imported = [by_monitoring.functions[number][1] for number in by_monitoring.unattributed]
    assert "_defaults" in imported
