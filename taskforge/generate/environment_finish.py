"""Runs INSIDE ``docker build``, from the Dockerfile that is exported with an environment: ``python -I -S finish.py
STEP``. Standard library only, Python 3.8 on; it runs with the interpreter that the environment then has.

``environment`` turns a folder of installed wheels into ``/env``, and hands the workspace to its user; ``system`` makes
that user, and removes what vendors other projects: a solver could read an answer there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

SHEBANG = b"#!/env/bin/python\n"
MINOR = "python%d.%d" % sys.version_info[:2]
SITE = "/env/lib/%s/site-packages" % MINOR
USER = "solver:x:1000:1000:solver:/tmp/home:/bin/sh\n"

#: Not searched: the kernel's, and what the environment is.
KEPT = ("/proc", "/sys", "/dev", "/env", "/workspace")
#: Removed wherever they are. Python's own tests vendor wheels, too.
FOLDERS = re.compile(r"/(?:site-packages|dist-packages|python-wheels|ensurepip/_bundled|python3[^/]*/test)$")
FILES = re.compile(r"\.(?:whl|pyz|egg)$|/bin/(?:pip|wheel|easy_install|virtualenv)[^/]*$|/get-pip\.py$")
#: What installing left.
LEFT = ("/build", "/root/.cache", "/var/lib/apt/lists", "/var/cache/apt", "/var/log", "/tmp", "/var/tmp")  # noqa: S108


def link_interpreter() -> None:
    """Make ``/env`` the virtual environment of this interpreter."""
    executable = os.path.realpath(sys.executable)
    os.makedirs("/env/bin", exist_ok=True)
    for name, target in (("python", executable), ("python3", "python"), (MINOR, "python")):
        os.symlink(target, "/env/bin/" + name)
    version = "%d.%d.%d" % sys.version_info[:3]
    with open("/env/pyvenv.cfg", "w", encoding="utf-8") as stream:
        stream.write("home = %s\n" % os.path.dirname(executable))
        stream.write("include-system-site-packages = false\nversion = %s\n" % version)


def move_scripts() -> None:
    """Console scripts go from where pip leaves them to ``/env/bin``; one that the project has is not replaced."""
    scripts = os.path.join(SITE, "bin")
    for name in sorted(os.listdir(scripts)) if os.path.isdir(scripts) else ():
        path, target = os.path.join(scripts, name), os.path.join("/env/bin", name)
        if os.path.islink(path) or not os.path.isfile(path) or os.path.lexists(target):
            continue
        with open(path, "rb") as stream:
            data = stream.read()
        data = re.sub(rb"\A#!/bin/sh\n'''exec' [^\n]*\n' '''\n", SHEBANG, data)
        data = re.sub(rb"\A#![^\n]*python[^\n]*\n", SHEBANG, data)
        with open(target, "wb") as stream:
            stream.write(data)
        os.chmod(target, 0o755)  # noqa: S103 - a program
    shutil.rmtree(scripts, ignore_errors=True)


def precompile() -> None:
    """Write the bytecode that an ordinary user cannot. Templates for other Pythons do not compile: no fault."""
    argv = [sys.executable, "-I", "-S", "-m", "compileall", "-q", "-d", SITE, "--invalidation-mode", "unchecked-hash"]
    subprocess.call([*argv, SITE], stdout=subprocess.DEVNULL)


def clean() -> None:
    """Remove every other place with packages, their programs, and what installing left."""
    for top, folders, names in os.walk("/"):
        if any(name.endswith(".dist-info") for name in folders):
            # Packages, whatever the folder is called.
            folders.clear()
            shutil.rmtree(top)
            continue
        for name in list(folders):
            path = os.path.join(top, name)
            if path in KEPT or os.path.islink(path):
                folders.remove(name)
            elif FOLDERS.search(path):
                folders.remove(name)
                shutil.rmtree(path)
        for name in names:
            path = os.path.join(top, name)
            if FILES.search(path):
                os.unlink(path)
    for place in LEFT:
        shutil.rmtree(place, ignore_errors=True)
    for place in ("/var/log", "/var/lib/apt/lists/partial", "/var/cache/apt/archives/partial"):
        os.makedirs(place, exist_ok=True)


def add_user() -> None:
    """An ordinary user with a home and folders to write in."""
    for path, line in (("/etc/passwd", USER), ("/etc/group", "solver:x:1000:\n")):
        with open(path, "a+", encoding="utf-8") as stream:
            stream.seek(0)
            if not re.search(r"(?m)^(?:solver:|(?:[^:\n]*:){2}1000:)", stream.read()):
                stream.write(line)
    for place, mode in (("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/tmp/home", 0o755)):  # noqa: S108
        os.makedirs(place, exist_ok=True)
        os.chmod(place, mode)
    os.chown("/tmp/home", 1000, 1000)  # noqa: S108


def hand_over() -> None:
    """The workspace, with what the project's build has left in it, is the user's."""
    os.makedirs("/workspace", exist_ok=True)
    for top, folders, names in os.walk("/workspace"):
        for path in (top, *(os.path.join(top, name) for name in (*folders, *names))):
            os.lchown(path, 1000, 1000)


STEPS = {"system": (clean, add_user, hand_over), "environment": (link_interpreter, move_scripts, precompile, hand_over)}

if __name__ == "__main__":
    for step in STEPS[sys.argv[1]]:
        step()
