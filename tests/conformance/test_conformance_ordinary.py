"""The core of the suite once more, as an ordinary user: with no control group and no root on either side, and with a
daemon that this user's group may speak to."""

from __future__ import annotations

import json
import os
import shutil
import site
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from taskforge.generate import environment as environments
from taskforge.process import run

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CORE = ("exec", "files", "identity", "limits", "protected")
#: What the same tests show as well without: every limit is polled for here, so that the variants are one.
LEFT_OUT = "not polling and not hundred and not thousand and not tmp and not shm and not fork_bomb_in and not signals_to"
CHOSEN = {"bubblewrap": f"{LEFT_OUT} and not docker", "docker": f"{LEFT_OUT} and docker"}
SOCKET = Path("/var/run/docker.sock")
NOBODY = 65534

AS_NOBODY = """
import os, sys
if os.getuid() == 0:
    os.setgroups({groups}); os.setgid({nobody}); os.setuid({nobody})
os.environ.update(TMPDIR={tmp!r}, HOME={tmp!r})
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def open_to_all(path: Path) -> bool:
    """Whether anyone may go to ``path`` and read it."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents) if folder.is_dir())


def shared(path: Path, copies: Path) -> Path:
    """``path``, or a copy of it that everyone can read."""
    if open_to_all(path):
        return path
    unneeded = ("__pycache__", "test", "site-packages", "ensurepip", "idlelib", "config-*", "*.a", "include", "share")
    target = copies / path.name
    ignored = () if path.name == "site-packages" else unneeded
    shutil.copytree(path, target, symlinks=True, ignore=shutil.ignore_patterns(*ignored))
    return target


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_as_an_ordinary_user(calc, bubblewrap, cache, name):
    # The interpreter of this very run also serves inside, so that one copy of it is enough.
    base = Path(os.path.realpath(sys.executable))
    prefix = Path(sys.base_prefix).resolve()
    built = environments.build(calc, backend=bubblewrap, cache=cache, python=str(base), log=print)[1]
    # Not in /tmp, whose content the suite looks at.
    with tempfile.TemporaryDirectory(prefix="taskforge-ordinary-", dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        (copies := place / "copies").mkdir()
        (tmp := place / "tmp").mkdir()
        interpreter = shared(prefix, copies) / base.relative_to(prefix)
        env = place / "env"
        shutil.copytree(built.root, env, symlinks=True)
        (env / "bin" / "python").unlink()
        (env / "bin" / "python").symlink_to(interpreter)
        for folder in (env, *env.rglob("*")):
            if not folder.is_symlink():
                folder.chmod(folder.stat().st_mode | 0o044 | (0o011 if folder.is_dir() else 0))
        cfg = env / "pyvenv.cfg"
        cfg.write_text(cfg.read_text().replace(str(prefix), str(interpreter.parent.parent)))
        home = interpreter.parent.parent
        told = {"root": env, "interpreter": interpreter, "base_prefix": home, "python": built.python}
        given = place / "environment.json"
        given.write_text(json.dumps({key: str(value) for key, value in told.items()}))
        packages = [shared(Path(folder), copies) for folder in site.getsitepackages()]
        code = copies
        if not open_to_all(ROOT):
            shutil.copytree(ROOT / "taskforge", code / "taskforge")
            shutil.copytree(ROOT / "tests", code / "tests")
            shutil.copytree(ROOT / "sandbox_images", code / "sandbox_images")
            shutil.copy(ROOT / "pyproject.toml", code)
        root = ROOT if open_to_all(ROOT) else code
        if os.getuid() == 0:
            os.chown(tmp, NOBODY, NOBODY)
        files = [str(root / "tests" / "conformance" / f"test_conformance_{part}.py") for part in CORE]
        # The daemon's group, where that is what its user is in.
        groups = [SOCKET.stat().st_gid] if name == "docker" else []
        done = run(
            [str(interpreter), "-B", "-c", AS_NOBODY.format(nobody=NOBODY, tmp=str(tmp), groups=groups),
             "-q", "-p", "no:cacheprovider", "-k", CHOSEN[name],
             "-c", str(root / "pyproject.toml"), "--rootdir", str(root), *files],
            timeout=400,
            cwd=tmp,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": os.pathsep.join(map(str, [root, root / "sandbox_images", *packages])),
                "TASKFORGE_CONFORMANCE_ENVIRONMENT": str(given),
                "TASKFORGE_CACHE_DIR": str(tmp / "cache"),
            },
        )  # fmt: skip
        assert done.returncode == 0, done.text[:9000]
        assert " passed" in done.text
        assert list(tmp.glob("taskforge-box-*")) == []
