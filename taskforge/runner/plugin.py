"""pytest hooks in the worker: what was collected, how each test ended, in its own words over a pipe.

What this process says is a claim. The supervisor keeps the clock and the wait status, the host keeps the list of what
must be heard.
"""
# ruff: noqa: ARG002, ARG005, S311
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import os
import random
import sys
import time
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

from . import definitions, frames

REASON_CAP = 4096


class Reporter:
    """One run. ``job``: files, ids, exclude, shuffle, record, args, collect_only, max_failures, generation."""

    def __init__(self, job, fd):
        # type: (dict, int) -> None
        self.job = job
        self.fd = fd
        self.pid = os.getpid()
        self.generation = job["generation"]
        self.phases = {}  # type: dict
        self.items = {}  # type: dict
        self.began = 0.0
        self.recorder = None  # type: Any

    @staticmethod
    def now(clock=time.monotonic):
        # type: (Any) -> float
        """By the clock as it was before a test put another in its place, under whatever name it looked for it."""
        return clock()

    def emit(self, **event):
        # type: (Any) -> None
        # A test that forks may let its child run on into pytest's own loop: one process speaks.
        if os.getpid() != self.pid:
            return
        event["generation"] = self.generation
        frames.write(self.fd, event)

    def pytest_configure(self, config):
        # type: (Any) -> None
        import importlib.util

        if importlib.util.find_spec("hypothesis") is not None:
            import hypothesis

            hypothesis.settings.register_profile(
                "taskforge",
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=[hypothesis.HealthCheck.too_slow],
            )
            hypothesis.settings.load_profile("taskforge")
        if self.job["record"]:
            from . import recorder

            self.recorder = recorder.start(self.job["record"], self.emit)

    def pytest_collectreport(self, report):
        # type: (Any) -> None
        if report.failed:
            self.emit(event="collection_error", id=report.nodeid, reason=_tail(str(report.longrepr)))

    def choose(self, items):
        # type: (list) -> None
        where = [[item.nodeid, os.path.relpath(str(item.path), "/workspace")] for item in items]
        self.emit(event="collected", items=where)
        if self.job["record"]:
            self.emit(event="defined", items=[[item.nodeid, definitions.places(item)] for item in items])
        ids = self.job["ids"]
        wanted = None if ids is None else set(ids)
        gone = set(self.job["exclude"])
        items[:] = [item for item in items if (wanted is None or item.nodeid in wanted) and item.nodeid not in gone]
        if self.job["shuffle"] is not None:
            items[:] = _shuffled(items, random.Random(self.job["shuffle"]))

    def pytest_runtest_makereport(self, item, call):
        # type: (Any, Any) -> None
        if call.excinfo is not None:
            self.items.setdefault(item.nodeid, {})["cause"] = call.excinfo.type.__name__

    def pytest_runtest_logstart(self, nodeid, location):
        # type: (str, tuple) -> None
        self.phases[nodeid] = []
        self.items[nodeid] = {}
        self.began = self.now()
        self.emit(event="start", id=nodeid)
        if self.recorder is not None:
            self.recorder.enter(nodeid)

    def pytest_runtest_logreport(self, report):
        # type: (Any) -> None
        # A subtest's report carries a context and is a part of the call, never the call itself.
        part = "subtest" if hasattr(report, "context") else report.when
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xpassed" if outcome == "passed" else "xfailed"
        self.phases.setdefault(report.nodeid, []).append((part, outcome))
        if outcome not in ("passed",) and (part != "subtest" or outcome == "failed"):
            self.items.setdefault(report.nodeid, {}).setdefault("reason", _tail(_text(report)))

    def pytest_runtest_logfinish(self, nodeid, location):
        # type: (str, tuple) -> None
        seconds = self.now() - self.began
        entered = self.recorder.leave() if self.recorder is not None else []
        facts = self.items.pop(nodeid, {})
        outcome = judge(self.phases.pop(nodeid, []))
        failed = outcome != "passed"
        self.emit(
            event="report",
            id=nodeid,
            outcome=outcome,
            seconds=seconds,
            reason=facts.get("reason", "") if failed else "",
            cause=facts.get("cause", "") if failed else "",
            enters=entered,
        )

    def pytest_internalerror(self, excrepr):
        # type: (Any) -> None
        self.emit(event="internal_error", reason=_tail(str(excrepr)))

    def finish(self, status):
        # type: (int) -> None
        if self.recorder is not None:
            for event in self.recorder.stop():
                self.emit(**event)
        self.emit(event="finish", status=status)


def judge(phases):
    # type: (list) -> str
    """One outcome of all reports of one test: passed only by setup, call and teardown, once each, all passed."""
    whole = [(part, outcome) for part, outcome in phases if part != "subtest"]
    by_part = dict(whole)
    if len(by_part) != len(whole):
        return "duplicated"
    if by_part.get("setup") == "failed" or by_part.get("teardown") == "failed":
        return "error"
    if any(outcome == "failed" for part, outcome in phases):
        return "failed"
    for _part, outcome in whole:
        if outcome in ("xfailed", "xpassed", "skipped"):
            return outcome
    if [part for part, outcome in whole if outcome == "passed"] == ["setup", "call", "teardown"]:
        return "passed"
    return "error"


def _shuffled(items, rng):
    # type: (list, random.Random) -> list
    """Files, then classes within a file, then tests: a whole shuffle would rebuild module fixtures for every test."""
    groups = {}  # type: dict
    for item in items:
        owner = item.cls.__qualname__ if getattr(item, "cls", None) is not None else ""
        groups.setdefault(str(item.path), {}).setdefault(owner, []).append(item)
    out = []
    for path in rng.sample(sorted(groups), len(groups)):
        for owner in rng.sample(sorted(groups[path]), len(groups[path])):
            members = groups[path][owner]
            rng.shuffle(members)
            out += members
    return out


def _text(report):
    # type: (Any) -> str
    longrepr = report.longrepr
    if isinstance(longrepr, tuple):
        return str(longrepr[-1])
    return str(longrepr) if longrepr is not None else ""


def _tail(text):
    # type: (str) -> str
    return text if len(text) <= REASON_CAP else "…" + text[-REASON_CAP:]


def run(job, fd):
    # type: (dict, int) -> int
    import pytest

    reporter = Reporter(job, fd)

    class Plugin:
        """Wraps the reporter, since hook markers need pytest, which the module must not import at its top."""

        pytest_configure = pytest.hookimpl(tryfirst=True)(lambda self, config: reporter.pytest_configure(config))

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items):
            # type: (list) -> None
            reporter.choose(items)

        def pytest_collectreport(self, report):
            # type: (Any) -> None
            reporter.pytest_collectreport(report)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            # type: (Any, Any) -> Any
            # Afterwards: for unittest's tests the exception is put into the call by another hook.
            yield
            reporter.pytest_runtest_makereport(item, call)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logstart(self, nodeid, location):
            # type: (str, tuple) -> None
            reporter.pytest_runtest_logstart(nodeid, location)

        def pytest_runtest_logreport(self, report):
            # type: (Any) -> None
            reporter.pytest_runtest_logreport(report)

        @pytest.hookimpl(trylast=True)
        def pytest_runtest_logfinish(self, nodeid, location):
            # type: (str, tuple) -> None
            reporter.pytest_runtest_logfinish(nodeid, location)

        def pytest_internalerror(self, excrepr):
            # type: (Any) -> None
            reporter.pytest_internalerror(excrepr)

    os.chdir("/workspace")
    # As `python -m pytest` has it: many suites import their own package or helpers from the root.
    sys.path.insert(0, "/workspace")
    args = ["-q", "-p", "no:cacheprovider", "--rootdir=/workspace", "--continue-on-collection-errors", "--color=no"]
    if job["collect_only"]:
        args.append("--collect-only")
    if job["max_failures"] is not None:
        args.append("--maxfail=%d" % job["max_failures"])
    sys.argv = ["pytest", *args]
    status = int(pytest.main(args + job["args"] + job["files"], plugins=[Plugin()]))
    reporter.finish(status)
    return status
