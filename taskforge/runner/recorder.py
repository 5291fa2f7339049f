"""Which functions of the workspace each test entered.

``monitoring`` uses ``sys.monitoring`` (3.12 and later): a start event that disables itself until the next test, so that
a hot function costs once a test. ``coverage`` uses coverage.py's contexts on older interpreters.
"""
# ruff: noqa: ARG002
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import sys
from typing import Any  # noqa: F401 - in type comments, for Python 3.8

PREFIX = "/workspace/"


def start(kind, emit):
    # type: (str, Any) -> Any
    return Monitoring(emit) if kind == "monitoring" else Coverage(emit)


class _Functions:
    """Numbers for functions; each is told once."""

    def __init__(self, emit):
        # type: (Any) -> None
        self.emit = emit
        self.numbers = {}  # type: dict

    def number(self, path, qualname, line):
        # type: (str, str, int) -> int
        key = (path, qualname, line)
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.emit(event="function", number=self.numbers[key], function=list(key))
        return self.numbers[key]


class Monitoring:
    TOOL = 4

    def __init__(self, emit):
        # type: (Any) -> None
        self.functions = _Functions(emit)
        self.entered = set()  # type: set
        self.outside = set()  # type: set
        self.inside = False
        self.api = getattr(sys, "monitoring")  # noqa: B009 - it is new in 3.12
        self.api.use_tool_id(self.TOOL, "taskforge")
        self.api.register_callback(self.TOOL, self.api.events.PY_START, self.seen)
        self.api.set_events(self.TOOL, self.api.events.PY_START)

    def seen(self, code, offset):
        # type: (Any, int) -> Any
        if code.co_filename.startswith(PREFIX):
            (self.entered if self.inside else self.outside).add(code)
        return self.api.DISABLE

    def enter(self, nodeid):
        # type: (str) -> None
        self.entered.clear()
        self.inside = True
        self.api.restart_events()

    def leave(self):
        # type: () -> list
        self.inside = False
        return self._numbers(self.entered)

    def stop(self):
        # type: () -> list
        self.api.set_events(self.TOOL, 0)
        self.api.free_tool_id(self.TOOL)
        return [{"event": "unattributed", "functions": self._numbers(self.outside)}]

    def _numbers(self, codes):
        # type: (set) -> list
        return sorted(
            {
                self.functions.number(code.co_filename[len(PREFIX) :], code.co_qualname, code.co_firstlineno)
                for code in list(codes)
                if not code.co_name.startswith("<") or code.co_name == "<lambda>"
            }
        )


class Coverage:
    def __init__(self, emit):
        # type: (Any) -> None
        sys.path.append("/tools")
        import coverage  # type: ignore[import-not-found]

        self.functions = _Functions(emit)
        self.coverage = coverage.Coverage(data_file=None, config_file=False, include=[PREFIX + "*"], messages=False)
        self.coverage.start()

    def enter(self, nodeid):
        # type: (str) -> None
        self.coverage.switch_context(nodeid)

    def leave(self):
        # type: () -> list
        self.coverage.switch_context("")
        return []

    def stop(self):
        # type: () -> list
        self.coverage.stop()
        data = self.coverage.get_data()
        by_test = {}  # type: dict
        for filename in data.measured_files():
            try:
                owners = _owners(filename)
            except (OSError, SyntaxError, ValueError):
                continue  # Written and removed by a test, or no source of its own.
            for line, contexts in data.contexts_by_lineno(filename).items():
                if line not in owners:
                    continue
                number = self.functions.number(filename[len(PREFIX) :], *owners[line])
                for context in contexts:
                    by_test.setdefault(context, set()).add(number)
        outside = sorted(by_test.pop("", set()))
        events = [{"event": "entered", "id": test, "enters": sorted(found)} for test, found in by_test.items()]
        return [*events, {"event": "unattributed", "functions": outside}]


def _owners(filename):
    # type: (str) -> dict
    """Line -> ``(qualname, first line)`` of the innermost function whose body holds it."""
    import ast

    owners = {}  # type: dict
    with open(filename, "rb") as stream:
        tree = ast.parse(stream.read())

    def visit(node, prefix):
        # type: (ast.AST, str) -> None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([child.lineno] + [decorator.lineno for decorator in child.decorator_list])
                for line in range(child.body[0].lineno, (child.end_lineno or child.lineno) + 1):
                    owners[line] = (prefix + child.name, first)
                visit(child, prefix + child.name + ".<locals>.")
            elif isinstance(child, ast.ClassDef):
                visit(child, prefix + child.name + ".")
            else:
                visit(child, prefix)

    visit(tree, "")
    return owners
