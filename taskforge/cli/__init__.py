"""The command line: a file a command, and errors turned into exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from taskforge.cli.demo import demo
from taskforge.cli.doctor import doctor
from taskforge.cli.generate import generate
from taskforge.cli.grade import grade
from taskforge.cli.images import images
from taskforge.cli.list import list_tasks
from taskforge.cli.show import show
from taskforge.cli.validate import validate
from taskforge.errors import TaskforgeError, UsageError
from taskforge.version import __version__

__all__ = ["app", "main"]

EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

app = typer.Typer(
    name="taskforge",
    help="Verified re-implementation tasks from real repositories.",
    no_args_is_help=True,
    # Help by rich costs more time to import than all the rest.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: Name -> function. One line makes a command.
_COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "generate": generate,
    "validate": validate,
    "grade": grade,
    "list": list_tasks,
    "show": show,
    "doctor": doctor,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(images, name="images")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"taskforge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Log everything, and show tracebacks.")] = False,
    verbose: Annotated[int, typer.Option("-v", count=True, help="Log more; twice for debugging.")] = 0,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    import logging

    level = logging.DEBUG if debug or verbose > 1 else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # What the libraries below log at DEBUG drowns what we say.
    for name in ("httpcore", "httpx"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING if not debug else logging.INFO))
    named = os.environ.get("TASKFORGE_CONFIG")
    # The settings take a missing file for an empty one.
    if named and not os.path.isfile(named):  # noqa: PTH113
        raise UsageError(f"TASKFORGE_CONFIG names {named}, which is no file", hint="mend the variable, or unset it")


def main() -> None:
    """The entry point: runs one command and ends the process."""
    signal.signal(signal.SIGTERM, _terminated)
    # Before anything is parsed, so that an error in parsing can be debugged, too.
    sys.exit(_run(debug="--debug" in sys.argv[1:]))


def _terminated(_number: int, _frame: FrameType | None) -> None:
    """End as on Ctrl-C: sandboxes, folders and control groups go, what is done stays. A second one ends at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def _run(*, debug: bool) -> int:
    try:
        result = app(standalone_mode=False)
        sys.stdout.flush()
        if result == EXIT_INTERRUPTED:
            # Typer's answer to Ctrl-C, whatever the mode; it does not say how to resume.
            return _interrupted(debug=debug)
    except TaskforgeError as error:
        return _complain(error.message, error.hint, error.exit_code, debug=debug)
    except KeyboardInterrupt:
        return _interrupted(debug=debug)
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:
        # So does Typer end on a broken pipe.
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except Exception as error:  # noqa: BLE001 - the last stop before the user
        return _last_stop(error, debug=debug)
    return result if isinstance(result, int) else 0


def _interrupted(*, debug: bool) -> int:
    return _complain("interrupted: run the same command again to resume", "", EXIT_INTERRUPTED, debug=debug)


def _reader_gone() -> int:
    # A later flush at exit would complain about it once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _last_stop(error: Exception, *, debug: bool) -> int:
    if type(error).__name__ == "Abort":
        return _interrupted(debug=debug)
    from taskforge.corpus.atomic import store_fault

    show = getattr(error, "show", None)
    code = getattr(error, "exit_code", None)
    # Typer's own complaints about options; which library they come from depends on its version.
    if callable(show) and isinstance(code, int):
        show()
        return code
    if getattr(error, "title", "") == "Settings" and hasattr(error, "errors"):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _complain(f"{where}: {first['msg']}", "check TASKFORGE_* variables and taskforge.toml", 2, debug=debug)
    if isinstance(error, OSError) and error.errno in _DISK:
        # Nobody down there has told what it was doing, but it is the disk, and no mistake of ours.
        fault = store_fault(error, Path(error.filename or tempfile.gettempdir()))
        return _complain(fault.message, fault.hint, fault.exit_code, debug=debug)
    if isinstance(error, tomllib.TOMLDecodeError) and os.environ.get("TASKFORGE_CONFIG"):
        return _complain(f"{os.environ['TASKFORGE_CONFIG']}: {error}", "mend that file", 2, debug=debug)
    text = " ".join(str(error).split()) or "no message"
    return _complain(
        f"{type(error).__name__}: {text}", "run again with --debug for the traceback", EXIT_INTERNAL, debug=debug
    )


def _complain(message: str, hint: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    lines = [f"error: {message}" if code != EXIT_INTERRUPTED else message, *([f"hint: {hint}"] if hint else [])]
    sys.stderr.buffer.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
    return code
