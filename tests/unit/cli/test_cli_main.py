"""The command line as a whole: help, version, and how every error ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskforge.corpus import Corpus
from taskforge.version import __version__


def cli(*argv: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "taskforge", *map(str, argv)],
        env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_version() -> None:
    done = cli("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"taskforge {__version__}\n", "")


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["grade", "--help"]])
def test_help(argv: list[str]) -> None:
    done = cli(*argv)
    assert done.returncode == 0
    for word in ("generate", "grade", "doctor") if len(argv) == 1 else ("--reference", "--strict", "2 usage"):
        assert word in done.stdout


def test_help_needs_no_heavy_library() -> None:
    code = "import sys; sys.argv[1:] = ['--help']\ntry:\n import taskforge.cli; taskforge.cli.main()\nfinally:\n"
    code += " heavy = {'rich', 'httpx', 'libcst', 'pydantic', 'zstandard', 'markdown_it'} & set(sys.modules)\n"
    code += " print(heavy, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == "set()"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["list"], "Missing argument 'corpus'"),
        (["list", "/nowhere", "--frobnicate"], "No such option: --frobnicate"),
        (["list", "/nowhere"], "error: /nowhere is no corpus"),
        (["list", "/nowhere", "--sort", "size"], "error: there is no order 'size'\nhint: sort by difficulty, lines, tests or id"),
        (["show", "nothing"], "error: there is no task folder 'nothing'\nhint: "),
        (["show", "nothing", "--corpus", "/nowhere"], "error: /nowhere is no corpus"),
        (["generate", "x", "--out", "y", "--jobs", "many"], "Invalid value for '--jobs'"),
        (["generate", "x", "--out", "y", "--max", "0"], "Invalid value for '--max'"),
    ],
)
def test_bad_usage_ends_with_2_and_no_traceback(argv: list[str], message: str) -> None:
    done = cli(*argv)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_no_command_is_help(tmp_path: Path) -> None:
    done = cli()
    assert done.returncode in (0, 2)
    assert "generate" in done.stdout + done.stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = cli("--debug", "list", tmp_path)
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-2].startswith(f"error: {tmp_path} is no corpus")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TASKFORGE_JOBS", "many", "error: jobs: "),
        ("TASKFORGE_JOBS", "0", "error: jobs: "),
        ("TASKFORGE_SANDBOX", "chroot", "error: sandbox: "),
    ],
)
def test_a_bad_setting_is_named(name: str, value: str, message: str) -> None:
    done = cli("doctor", env={name: value})
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint: check TASKFORGE_* variables" in done.stderr


@pytest.mark.parametrize("text", ["jobs = [", "colour = 1\n", None])
def test_a_bad_settings_file_is_named(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "taskforge.toml"
    if text is not None:
        file.write_text(text)
    done = cli("doctor", env={"TASKFORGE_CONFIG": str(file)})
    assert done.returncode == 2, done.stderr
    assert "taskforge.toml" in done.stderr
    assert "Traceback" not in done.stderr


#: A fault in the program itself, such as nobody has thought of.
BROKEN = (
    "import sys, taskforge.cli, taskforge.corpus\n"
    "def broken(*args): raise ZeroDivisionError('first\\nsecond')\n"
    "taskforge.corpus.Corpus.open = broken\n"
    "taskforge.cli.main()"
)


def test_an_error_of_ours_ends_with_70() -> None:
    argv = [sys.executable, "-c", BROKEN, "list", "x"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 70
    assert done.stderr == (
        "error: ZeroDivisionError: first second\nhint: run again with --debug for the traceback\n"
    )
    done = subprocess.run([*argv[:3], "--debug", *argv[3:]], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 70
    assert "Traceback" in done.stderr


def test_a_message_that_is_not_utf8_is_still_printed(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff"
    done = subprocess.run(
        [sys.executable, "-m", "taskforge", "list", name], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"\\udcff is no corpus" in done.stderr


def test_an_interrupt_ends_with_130() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import taskforge.cli, taskforge.corpus, time\n"
         "def wait(*a): print('ready', flush=True); time.sleep(30)\n"
         "taskforge.corpus.Corpus.open = wait\ntaskforge.cli.main()", "list", "x"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err == "interrupted: run the same command again to resume\n"


def test_a_corpus_that_may_not_be_read_ends_with_4(corpus: Corpus, confined: Callable[..., Any]) -> None:
    corpus.public.chmod(0)
    done = confined([], "-m", "taskforge", "list", str(corpus.path))
    corpus.public.chmod(0o755)
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: cannot read {corpus.path}")
    assert "\nhint: " in done.stderr


def test_help_is_fast() -> None:
    took = []
    for _ in range(2):
        began = time.monotonic()
        assert cli("--help").returncode == 0
        took.append(time.monotonic() - began)
    assert min(took) < 1
