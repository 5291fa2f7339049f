"""``taskforge images base``: what environment images stand on, on a machine without a hub, too."""

from __future__ import annotations

import re
from typing import Annotated

import typer

__all__ = ["make_bases"]

_MINOR = re.compile(r"3\.\d{1,2}")


def make_bases(
    python: Annotated[
        list[str] | None, typer.Option(help="Such as 3.12; repeatable. By default each that this host has.")
    ] = None,
    how: Annotated[
        str, typer.Option("--from", help="hub, debian (its own Python), host (this host's), or auto: what works first.")
    ] = "auto",
) -> None:
    """Make base images, taskforge-base:3.12 and so on. One that is there stays as it is, unless --from says how."""
    from typing import get_args

    from taskforge.cli.common import console
    from taskforge.cli.images_common import docker
    from taskforge.errors import UsageError
    from taskforge.generate.interpreters import available
    from taskforge.sandbox.docker_makebase import How, make_base

    known: dict[str, How] = {name: name for name in get_args(How)}
    if how not in known:
        raise UsageError(f"there is no way {how!r} to make a base", hint=f"choose one of {', '.join(known)}")
    for minor in python or ():
        if not _MINOR.fullmatch(minor):
            raise UsageError(f"{minor!r} is no version of Python", hint="write it as in --python 3.12")
    found = python or sorted({one.minor for one in available()}, key=lambda minor: int(minor[2:]))
    if not found:
        raise UsageError("this host has no Python to make bases for", hint="say which with --python 3.12")
    daemon = docker().daemon
    say = console()
    for minor in dict.fromkeys(found):
        name = make_base(
            daemon, minor, how=known[how], log=lambda text: say.print(text, style="dim", markup=False, soft_wrap=True)
        )
        say.print(name)
