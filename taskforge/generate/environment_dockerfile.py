"""The equivalent Dockerfile of an environment: for people who run solvers in images, and have no taskforge.

``docker build`` of the folder gives what a solver's sandbox has: ``/env`` with the same packages by hash, the same
variables, an ordinary user, git, a shell; and, like it, no source of the project and no package that vendors others.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from packaging.utils import canonicalize_name

from taskforge.errors import EnvironmentBuildError, StoreFault
from taskforge.generate.environment_venv import manifest
from taskforge.generate.lock import locked_names
from taskforge.model import Entry, Recipe, Tree
from taskforge.sandbox import Environment, SandboxSpec
from taskforge.sandbox.environments import pack
from taskforge.sandbox.payload import variables_of

__all__ = ["environment_files", "equivalent_dockerfile", "project_part"]

#: Of this host, or of its interpreter: remade where the image is built.
_HOST = re.compile(r"bin/python[\d.]*|pyvenv\.cfg|(?:.*/)?__pycache__/.*|.*\.pyc")
_SOURCE = re.compile(r"\.(?:py|pyi|pyx|pxd|pxi|c|h|cc|cpp|hpp|rs|f|f90|go|js|ts)$")

_DOCKERFILE = """\
# The environment {digest} as an image. In this folder:
#
#   docker build --tag NAME .
#
# BASE may be any Debian-like image with {python}. What else shall be in the image belongs there, for example a
# certificate of your package index, which is named by --build-arg PIP_INDEX_URL=...
#
# A task's workspace.tar.zst goes into /workspace, owned by user 1000; then `python -m pytest` there runs its tests.
{overlay}#
# The image's layers are copies of what two stages end with: what they removed, pip and all that vendors other projects,
# is in none of them. The first is the same for every environment of a BASE, so that many images share it.
ARG BASE=python:{minor}-slim
FROM ${{BASE}} AS clean
USER root
RUN command -v git >/dev/null || \\
    (apt-get update && apt-get install --yes --no-install-recommends git)
COPY finish.py /build/
RUN {python} -I -S /build/finish.py system

FROM ${{BASE}} AS install
USER root
RUN {python} -m pip --version || python3 -m pip --version || \\
    (apt-get update && apt-get install --yes --no-install-recommends python3-pip)
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY lock.txt finish.py /build/
RUN if {python} -m pip --version >/dev/null 2>&1; then pip="{python} -m pip install"; \\
    else pip="python3 -m pip install --python-version {minor} --implementation cp"; fi; \\
    $pip --target {site} --require-hashes --no-deps --only-binary :all: \\
    --no-compile --no-cache-dir --disable-pip-version-check --requirement /build/lock.txt
ADD project.tar /env/
{lay}RUN {python} -I -S /build/finish.py environment

FROM scratch
COPY --from=clean / /
COPY --from=install /env /env
{copy}ENV {variables}
WORKDIR /workspace
USER 1000:1000
CMD ["/bin/sh"]
"""

_OVERLAY = """\
# What the project's build writes there, overlay.tar, lies in /workspace already, and no workspace has files of the same
# names. A volume mounted at /workspace hides it: unpack overlay.tar into the volume, too.
"""


def environment_files(recipe: Recipe, environment: Environment, tree: Tree) -> dict[str, bytes]:
    """The files of an environment's public folder, the recipe apart: the same bytes on every host.

    ``Dockerfile``; what it copies: ``lock.txt``, ``project.tar`` (the project's metadata and what points to the
    workspace, below ``/env``), ``overlay.tar`` where the build writes into the workspace, ``finish.py``; and
    ``manifest.json``, SHA-256 by path below ``/env``, without bytecode.

    Args:
        tree: the snapshot, none of whose source may be in them.

    Raises:
        EnvironmentBuildError: when the environment holds source of the project, or a variable cannot be written.
        StoreFault: when the environment cannot be read.
    """
    told = {name: digest for name, digest in manifest(environment.root).items() if not _HOST.fullmatch(name)}
    found = {
        "Dockerfile": equivalent_dockerfile(recipe, environment).encode(),
        "lock.txt": "".join(f"{line}\n" for line in recipe.lock).encode(),
        "manifest.json": (json.dumps(told, indent=0, sort_keys=True) + "\n").encode(),
        "project.tar": pack(project_part(recipe, environment, tree)),
        "finish.py": files("taskforge.generate").joinpath("environment_finish.py").read_bytes(),
    }
    if environment.overlay:
        found["overlay.tar"] = pack(environment.overlay)
    return found


def equivalent_dockerfile(recipe: Recipe, environment: Environment) -> str:
    """The text of the Dockerfile, for the classic builder as well as for BuildKit.

    Raises:
        EnvironmentBuildError: when a variable's value cannot be written in a Dockerfile.
    """
    minor = ".".join(recipe.python.split(".")[:2])
    variables = variables_of(SandboxSpec(environment=environment, tree=Tree({}), profile="solve"))
    return _DOCKERFILE.format(
        digest=recipe.digest,
        minor=minor,
        python=f"python{minor}",
        site=f"/env/lib/python{minor}/site-packages",
        overlay=_OVERLAY if environment.overlay else "",
        lay="ADD overlay.tar /workspace/\n" if environment.overlay else "",
        copy="COPY --from=install /workspace /workspace\n" if environment.overlay else "",
        variables=" \\\n    ".join(f"{name}={_quoted(name, value)}" for name, value in sorted(variables.items())),
    )


def _quoted(name: str, value: str) -> str:
    if re.search(r"[\0\r\n]", value):
        raise EnvironmentBuildError(
            f"the variable {name} of the environment has a line break, which no Dockerfile can hold",
            hint="give the variable a value of one line",
        )
    return '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'


def project_part(recipe: Recipe, environment: Environment, tree: Tree) -> Tree:
    """What an environment holds beyond its locked wheels, by path below ``/env``: metadata and pointers of the project.

    Raises:
        EnvironmentBuildError: when there is source of the project among it.
        StoreFault: when the environment cannot be read.
    """
    root = environment.root
    try:
        owned = set(_of_wheels(root, locked_names(recipe.lock)))
        entries = {
            name: _entry(root / name)
            for name in manifest(root)
            if name not in owned and not _HOST.fullmatch(name)
        }
    except (OSError, UnicodeError, csv.Error) as error:
        raise StoreFault(
            f"the environment {root} cannot be read: {error}",
            hint="delete it from the cache folder; it is rebuilt on demand",
        ) from error
    sources = {it.data for path, it in tree.items() if _SOURCE.search(path) and it.data.strip()}
    for name, entry in entries.items():
        if entry.data in sources:
            raise EnvironmentBuildError(
                f"the environment holds source of the project: {name} is a file of the snapshot",
                hint="the project's build copies it into its editable install: have it point to the source",
            )
    return Tree(entries)


def _entry(path: Path) -> Entry:
    if path.is_symlink():
        return Entry(str(path.readlink()).encode("utf-8", "surrogateescape"), "link")
    return Entry(path.read_bytes(), "exec" if path.stat().st_mode & 0o100 else "file")


def _of_wheels(root: Path, names: frozenset[str]) -> Iterator[str]:
    """Paths below ``root`` of what the wheels of ``names`` have brought."""
    for record in root.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        if canonicalize_name(record.parent.name.split("-")[0]) not in names:
            continue
        site = record.parents[1].relative_to(root).as_posix()
        with record.open(encoding="utf-8", newline="") as stream:
            for path, *_rest in csv.reader(stream):
                # Scripts were moved when they had been installed, and the record was not told.
                yield path if path.startswith("bin/") else f"{site}/{path}"
