"""Runs INSIDE a build sandbox, as ``python -I -c <this text> <json>``: asks a build backend for an editable install.

Standard library only, Python 3.8 on. The argument is ``{"backend": "module:object", "backend_path": [...],
"asked": [requirement, ...], "final": bool}``; ``final`` builds whatever the backend asks for more. What it finds goes
to /tmp/out: ``answer.json``, and the wheel that it names.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

OUT = Path("/tmp/out")  # noqa: S108 - the sandbox has a /tmp of its own


def answer(**facts: object) -> None:
    """Leave ``facts`` where the host reads them."""
    (OUT / "answer.json").write_text(json.dumps(facts), encoding="utf-8")


def main() -> None:
    """Ask for requirements, then build; both in one go when nothing more is required."""
    told = json.loads(sys.argv[1])
    sys.argv[1:] = []
    OUT.mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(Path(path).absolute()) for path in told["backend_path"]]
    module, _, attributes = told["backend"].partition(":")
    backend: Any = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        backend = getattr(backend, attribute)
    editable = hasattr(backend, "build_editable")
    kind = "editable" if editable else "wheel"
    asks = getattr(backend, "get_requires_for_build_" + kind, None)
    requires = asks(None) if asks is not None else []
    missing = sorted(set(map(str, requires)) - set(told["asked"]))
    if missing and not told["final"]:
        answer(requires=missing)
        return
    name = getattr(backend, "build_" + kind)(str(OUT), None)
    answer(wheel=Path(name).name, editable=editable)


if __name__ == "__main__":
    main()
