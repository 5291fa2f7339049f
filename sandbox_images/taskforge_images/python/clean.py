"""Runs INSIDE a container of a base image, as a step of the Dockerfile beside it.

It removes what vendors other projects (a solver could read an answer there) and what no test needs, and writes, as one
JSON object, which interpreter it ran on. Standard library only, Python 3.8 on.
"""

from __future__ import annotations

import compileall
import glob
import json
import os
import platform
import py_compile
import shutil
import sys

#: All of /etc that stays: the same as in the other sandbox.
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "mime.types", "passwd", "group", "nsswitch.conf")
#: What the runtime itself mounts.
MOUNTED = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")

#: The time of all that is written here: no host's image differs by it.
EPOCH = 946684800
FOLDERS = (
    "/usr/lib/python3*/{dist-packages,site-packages}",
    "/usr/local/lib/python3*/{dist-packages,site-packages}",
    "{stdlib}/{dist-packages,site-packages}",
    "{stdlib}/ensurepip/_bundled",
    "{stdlib}/test",
    "/usr/lib/python3*/ensurepip/_bundled",
    "/usr/share/python-wheels",
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/info",
    "/usr/src",
)
PROGRAMS = ("pip*", "wheel*", "easy_install*", "idle*", "pydoc*")


def expand(pattern: str, stdlib: str) -> list[str]:
    """The paths that a pattern with one level of braces matches."""
    pattern = pattern.replace("{stdlib}", glob.escape(stdlib))
    if "{" not in pattern:
        return glob.glob(pattern)
    head, _, rest = pattern.partition("{")
    names, _, tail = rest.partition("}")
    return [path for name in names.split(",") for path in glob.glob(head + name + tail)]


def remove(path: str) -> None:
    """Remove a file or a folder, and go on where a mount point does not let go."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError as error:
        if path not in MOUNTED:
            raise SystemExit("cannot remove %s: %s" % (path, error)) from error


def main() -> None:
    """Clean, then say on what."""
    stdlib = os.path.dirname(os.__file__)
    executable = os.path.realpath(sys.executable)
    for pattern in FOLDERS:
        for path in expand(pattern, stdlib):
            remove(path)
    for folder in ("/usr/bin", "/usr/local/bin", os.path.dirname(executable)):
        for pattern in PROGRAMS:
            for path in glob.glob(os.path.join(folder, pattern)):
                remove(path)
    for name in os.listdir("/etc"):
        if name not in ETC:
            remove(os.path.join("/etc", name))
    for folder in ("/var", "/root", "/home", "/srv", "/mnt", "/media", "/boot", "/run"):
        if os.path.lexists(folder) and not executable.startswith(folder + "/"):
            remove(folder)
    # An interpreter looks for this name at its start, and shall not find a submission's.
    custom = os.path.join(stdlib, "sitecustomize.py")
    if os.path.lexists(custom):
        os.unlink(custom)
    with open(custom, "w", encoding="ascii"):
        pass
    os.utime(custom, (EPOCH, EPOCH))
    if not os.path.isdir(os.path.join(stdlib, "__pycache__")):
        # Official images have no bytecode, and no sandbox could keep what it compiles.
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(stdlib, quiet=2, workers=1, invalidation_mode=unchecked)
        for path in glob.glob(os.path.join(glob.escape(stdlib), "**", "__pycache__", "*.pyc"), recursive=True):
            os.utime(path, (EPOCH, EPOCH))
    facts = {"python": platform.python_version(), "interpreter": executable, "machine": platform.machine()}
    here = os.path.dirname(os.path.abspath(__file__))
    for name in os.listdir(here):
        os.unlink(os.path.join(here, name))
    with open(os.path.join(here, "facts.json"), "w", encoding="ascii") as stream:
        json.dump(facts, stream)


if __name__ == "__main__":
    main()
