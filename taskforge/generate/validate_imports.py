"""Whether every module of the product that could be imported still can be.

Each module is imported in a process of its own, so that none is helped by what another one imported before it: taking
an import out may break a circle that only one order of imports gets through. The processes share a folder of bytecode,
and what of the standard library the ones before them needed: nothing in it can import a workspace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from taskforge.errors import SandboxFault, TaskRejected
from taskforge.generate.protect import is_protected
from taskforge.languages import Language
from taskforge.model import Tree, Value
from taskforge.sandbox import Environment, ExecResult, Limits, SandboxSpec
from taskforge.sandbox.pool import Pool

__all__ = ["Imports", "importable", "prove_imports"]

#: Seconds for one module, and for all of them.
_ONE, _ALL = 20.0, 600.0
_MARK: Final = b"\n--taskforge-imports--\n"

#: Runs inside. Module numbers and names in; per line ``number name`` for what came from the file it should come from,
#: and ``number ! why`` for what did not.
_PROGRAM: Final = r'''
import importlib, json, os, select, signal, sys
sys.path.insert(0, "/workspace")
stdlib = getattr(sys, "stdlib_module_names", ())
asked, limit = json.loads(sys.argv[1]), float(sys.argv[2])
roots = [os.path.abspath(p) for p in sys.path if os.path.abspath(p).startswith("/workspace")]

def names(path):
    whole = os.path.join("/workspace", path)
    if path.endswith("/__init__.py"):
        whole = os.path.dirname(whole)
    else:
        whole = whole[:-3]
    top = os.path.dirname(whole)
    while os.path.exists(os.path.join(top, "__init__.py")):
        top = os.path.dirname(top)
    found = [whole[len(root) + 1:] for root in [top] + sorted(roots, key=len, reverse=True)
             if root in roots and whole.startswith(root + "/")]
    return [one.replace("/", ".") for one in dict.fromkeys(found) if all(p.isidentifier() for p in one.split("/"))]

def child(path, name, fd):
    out = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(out, number)
    sys.argv = [""]
    why = "is found nowhere on the path"
    for one in [name] if name else names(path):
        try:
            file = importlib.import_module(one).__file__
            if file and os.path.realpath(file) == os.path.realpath(os.path.join("/workspace", path)):
                used = [m for m in sys.modules if m.partition(".")[0] in stdlib and not m.startswith("__")]
                os.write(fd, (one + " " + " ".join(used)).encode()[:60000])
                return
            why = one + " comes from elsewhere"
        except BaseException as error:
            why = type(error).__name__ + ": " + str(error)
    os.write(fd, ("! " + why[:300]).encode("utf-8", "replace"))

lines = []
for number, (path, name) in enumerate(asked):
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        os.setpgid(0, 0)
        try:
            child(path, name, writer)
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    if select.select([reader], [], [], limit)[0]:
        said = os.read(reader, 65536)
    for victim in (lambda: os.killpg(pid, signal.SIGKILL), lambda: os.kill(pid, signal.SIGKILL)):
        try:
            victim()
        except ProcessLookupError:
            pass
    os.waitpid(pid, 0)
    os.close(reader)
    words = said.decode("utf-8", "replace").split() or ["!", "its process ended or hung"]
    if words[0] != "!":
        for used in words[1:]:
            if used not in sys.modules:
                try:
                    importlib.import_module(used)
                except Exception:
                    pass
        words = words[:1]
    lines.append(str(number) + " " + " ".join(words))
sys.stdout.write("\n--taskforge-imports--\n" + "\n".join(lines))
'''
#: Modules in one command: what it prints has to fit into what a sandbox keeps of an output.
_AT_ONCE: Final = 200


class Imports(Value):
    """Baseline of a snapshot."""

    modules: Mapping[str, str]
    """Path -> name by which it was imported from that file."""
    others: Mapping[str, str]
    """Path -> why it could not be, and is not asked for."""
    seconds: float = 0.0
    """Wall time of the command."""


def importable(
    tree: Tree,
    environment: Environment,
    *,
    language: Language,
    pool: Pool,
    protected: tuple[str, ...],
    limits: Limits,
) -> Imports:
    """Learn once for a snapshot which modules of its product can be imported.

    A module counts when it lies in a package or beside one on the path that tests have, so no script in a folder of
    examples. ``__main__`` is never asked for: importing it is running it.

    Raises:
        SandboxFault: when the sandbox broke.
    """
    paths = [
        path
        for path, entry in tree.items()
        if entry.kind != "link"
        and language.is_source(path)
        and not is_protected(path, protected)
        and path.rpartition("/")[2] != "__main__.py"
        and _in_package(path, tree)
    ]
    spec = SandboxSpec(environment=environment, tree=tree, protected=protected, limits=limits)
    try:
        said, seconds = _imported(pool, spec, [(path, "") for path in paths])
    except TaskRejected as hopeless:
        # A product that cannot be imported as a whole within the limits: no module of it is asked for.
        return Imports(modules={}, others=dict.fromkeys(paths, hopeless.message))
    good = {path: name for path, name in said.items() if not name.startswith("!")}
    bad = {path: why.removeprefix("! ") for path, why in said.items() if why.startswith("!")}
    return Imports(modules=good, others=bad, seconds=seconds)


def _in_package(path: str, tree: Tree) -> bool:
    folder = path.rpartition("/")[0]
    return folder in ("", "src") or f"{folder}/__init__.py" in tree


def prove_imports(
    removed: Tree,
    baseline: Imports,
    environment: Environment,
    *,
    pool: Pool,
    protected: tuple[str, ...],
    limits: Limits,
    each: float = _ONE,
) -> float:
    """Import every module of the baseline that is still in the tree. Returns the seconds it took.

    Args:
        each: seconds that one module may take.

    Raises:
        TaskRejected: ``import_breaks``, with the first module and why.
        SandboxFault: when the sandbox broke.
    """
    asked = [(path, name) for path, name in baseline.modules.items() if path in removed]
    spec = SandboxSpec(environment=environment, tree=removed, protected=protected, limits=limits)
    said, seconds = _imported(pool, spec, asked, each=each)
    broken = [(name, said[path]) for path, name in asked if said[path] != name]
    if broken:
        name, why = broken[0]
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise TaskRejected(
            "import_breaks", f"{name} cannot be imported without the feature: {why.removeprefix('! ')}{more}"
        )
    return seconds


def _imported(
    pool: Pool, spec: SandboxSpec, asked: Sequence[tuple[str, str]], *, each: float = _ONE
) -> tuple[dict[str, str], float]:
    """Path -> name, or ``!`` and why not; and the seconds it took."""
    found: dict[str, str] = {}
    seconds = 0.0
    if not asked:
        return found, seconds
    # Without -I: the environment's own site, and the workspace, are where tests find their modules.
    env = {"PYTHONPYCACHEPREFIX": "/tmp/taskforge-bytecode", "PYTHONDONTWRITEBYTECODE": ""}  # noqa: S108
    with pool.take(spec) as sandbox:
        for start in range(0, len(asked), _AT_ONCE):
            part = asked[start : start + _AT_ONCE]
            argv = ["/env/bin/python", "-c", _PROGRAM, json.dumps(part), str(each)]
            done = sandbox.exec(argv, timeout=_ALL, env=env)
            seconds += done.seconds
            for line in _lines(done):
                number, _, text = line.partition(" ")
                found[part[int(number)][0]] = text
    return {path: found.get(path, "! its process ended or hung") for path, _name in asked}, seconds


def _lines(done: ExecResult) -> list[str]:
    head, mark, said = done.output.rpartition(_MARK)
    if not mark or done.ended != "done":
        if done.ended in ("timeout", "oom", "disk_full"):
            raise TaskRejected(f"imports_{done.ended}", f"importing the product's modules ended with {done.ended}")
        what = done.output[-500:].decode("utf-8", "replace") or head.decode("utf-8", "replace")
        raise SandboxFault(f"importing the product's modules ended with {done.ended}: {what}", kind="sandbox_lost")
    return [line for line in said.decode("utf-8", "replace").splitlines() if line]
