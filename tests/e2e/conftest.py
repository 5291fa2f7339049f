"""One generated corpus and a runner of the command line, shared by the tests of what people type."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from taskforge.generate.pipeline import Options, generate
from taskforge.model import Source
from taskforge.sandbox import Backend
from taskforge.sandbox.bubblewrap import executable
from taskforge.settings import Settings
from tests.conformance.daemons import second_daemon

__all__ = ["second_daemon"]

REPO = Path(__file__).parents[1] / "repos" / "calc"
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def calc_corpus(tmp_path_factory: pytest.TempPathFactory, cache: Path, bubblewrap: Backend) -> Path:
    """A corpus of two tasks. Copy it before changing it."""
    out = tmp_path_factory.mktemp("calc") / "corpus"
    options = Options(max_tasks=2, jobs=2, baseline_runs=1, seed=1)
    generate(Source.parse(str(REPO)), out, options, settings=Settings(cache_dir=cache), backend=bubblewrap)
    return out


@pytest.fixture
def cli(cache: Path) -> Cli:
    """Runs ``taskforge`` and asserts its exit code; errors must come without a traceback and with a hint.

    ``within`` are bwrap's options for a machine where something is missing.
    """

    def run(
        *argv: object, code: int, within: tuple[str, ...] = (), stdin: str = "", hint: bool = True, **env: str
    ) -> subprocess.CompletedProcess[str]:
        program = executable()
        assert program is not None
        outer = [program, "--unshare-user", "--dev-bind", "/", "/", *within, "--"] if within else []
        done = subprocess.run(
            [*outer, sys.executable, "-m", "taskforge", *map(str, argv)],
            env={**os.environ, "TASKFORGE_CACHE_DIR": str(cache), **env},
            input=stdin, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done
        assert "Traceback" not in done.stdout + done.stderr
        if code > 1 and hint and "--json" not in argv:
            assert "error: " in done.stderr.lower(), done
            assert "\nhint: " in done.stderr or "Try '" in done.stderr, done
        return done

    return run
