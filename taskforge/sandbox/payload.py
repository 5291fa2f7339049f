"""What is sent into a sandbox before anything else: the runner's source, since no image and no environment holds it,
and the variables of its processes."""

from __future__ import annotations

import functools
import json
from importlib.resources import files

from taskforge.sandbox import SandboxSpec

__all__ = ["BOOTSTRAP", "sources", "variables_of"]

#: Given to ``python -I -S -c``: reads the runner's sources, the first frame, and becomes the supervisor.
BOOTSTRAP = (
    "import json, os\n"
    "def take(n):\n"
    "    b = b''\n"
    "    while len(b) < n:\n"
    "        c = os.read(0, n - len(b))\n"
    "        if not c: os._exit(0)\n"
    "        b += c\n"
    "    return b\n"
    "b = take(int.from_bytes(take(8), 'big'))\n"
    "s = json.loads(b)\n"
    "exec(compile(s['bootstrap'], '<bootstrap>', 'exec'), {'SOURCES': s, 'MAIN': 'supervisor', 'BLOB': b})\n"
)


@functools.cache
def sources() -> bytes:
    """The runner's modules as one JSON object, name -> source."""
    folder = files("taskforge.runner")
    found = {
        item.name.removesuffix(".py"): item.read_text(encoding="utf-8")
        for item in folder.iterdir()
        if item.name.endswith(".py") and item.name != "__init__.py"
    }
    return json.dumps(found, sort_keys=True).encode("ascii")


def variables_of(spec: SandboxSpec) -> dict[str, str]:
    """The whole environment of processes inside: fixed, so that no test depends on who grades."""
    return {
        "PATH": "/env/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp/home",  # noqa: S108 - a path inside the sandbox
        "TMPDIR": "/tmp",  # noqa: S108
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "USER": "solver",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "VIRTUAL_ENV": "/env",
        **spec.environment.variables,
    }
