"""Two users in one sandbox, where the backend's PID 1 is root: the machinery stays root, what is submitted does not.

``identity`` is ``{"uid": int, "gid": int}``, or None where there is one user only and nothing to change.
"""
# mypy: disallow-any-generics=False, warn-unreachable=False, warn-return-any=False

import contextlib
import ctypes
import errno
import os
from typing import Any, Iterator  # noqa: F401 - in type comments, for Python 3.8

from . import processes

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522


def drop(identity):
    # type: (Any) -> None
    """Become that user for good, without a group, a capability, or the right to any.

    Raises:
        OSError: when any of it is refused; nothing of a submission may run then.
    """
    if identity is None:
        return
    for number in range(64):
        # Not every kernel knows every capability.
        if _LIBC.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) < 0:
            break
        _check(_LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), "PR_CAPBSET_DROP")
    if _LIBC.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0) != 0 and ctypes.get_errno() != errno.EINVAL:
        _check(-1, "PR_CAP_AMBIENT")
    os.setgroups([])
    os.setresgid(identity["gid"], identity["gid"], identity["gid"])
    os.setresuid(identity["uid"], identity["uid"], identity["uid"])
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_LIBC.capset(header, none), "capset")


def _check(result, what):
    # type: (int, str) -> None
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


@contextlib.contextmanager
def acting_as(identity):
    # type: (Any) -> Iterator[None]
    """Touch files as that user does, since root holds no right over them here: neither to read what is not readable,
    nor to follow where the user may not go."""
    if identity is None:
        yield
        return
    os.setegid(identity["gid"])
    os.seteuid(identity["uid"])
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        # A change of user sets it anew, to what the machine's settings say.
        processes.set_dumpable(0)


def open_up(root, folders):
    # type: (str, list) -> None
    """Let everybody create in ``folders``, and nobody rename or remove what is not theirs: root's, in root's."""
    for folder in folders:
        os.chmod(os.path.join(root, folder), 0o1777)  # noqa: S103
