"""Stage two: what a snapshot's tests need to run, resolved, locked, and laid in the cache of this host.

Wheels are all that is installed on the host. The project's own build runs in a sandbox, and what it hands back is
unpacked as data. The environment holds no source of the project: its editable install points to ``/workspace``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from taskforge.errors import EnvironmentBuildError, StoreFault, TaskRejected
from taskforge.generate import environment_venv as venv
from taskforge.generate.acquire import Snapshot
from taskforge.generate.acquire_metadata import declared
from taskforge.generate.detect import Detected, detect, test_extras
from taskforge.generate.environment_project import Built, build_project
from taskforge.generate.environment_requirements import Metadata, metadata_of, runtime
from taskforge.generate.environment_tests import resolve_tests
from taskforge.generate.interpreters import Interpreter, available, find
from taskforge.generate.lock import Lock, compile_lock, install
from taskforge.model import Recipe, Tree, digest_of
from taskforge.sandbox import Backend, Environment, environments

__all__ = ["build", "ensure"]

log = logging.getLogger("taskforge.environment")

#: Part of the key under which a snapshot's recipe is remembered; raise it when the same snapshot would give another.
_FORMAT = 1

#: Where a recipe keeps the version that was told to the build, when the tree alone does not say it.
_TOLD = "SETUPTOOLS_SCM_PRETEND_VERSION"


def build(
    snapshot: Snapshot, *, backend: Backend, cache: Path, python: str | None = None, log: Callable[[str], None]
) -> tuple[Recipe, Environment]:
    """The recipe of a snapshot's environment, and the environment itself, from the cache when it was built before.

    Args:
        backend: where the project's build backend runs.
        cache: folder of this host; environments lie in ``environments/<digest of the recipe>``.
        python: a version or path that overrides the choice of interpreter.
        log: told one line for each step that takes time, and for each requirement that was given up.

    Raises:
        EnvironmentBuildError: no interpreter, unsatisfiable requirements, no network, or a failing build; the message
            names the step and ends with what was said last.
        TaskRejected: ``runner_dependency``, when pytest, the tests' requirements or the build backend need the project.
        StoreFault: when the cache cannot be written.
    """
    key = digest_of([_FORMAT, snapshot.digest, python or "", snapshot.provenance.version])
    with _storing(cache), _locked(cache, key):
        note = cache / "environments" / "recipes" / f"{key}.json"
        known = _remembered(note, cache)
        if known is not None:
            return known
        detected = detect(snapshot.tree)
        for line in detected.notes:
            log(line)
        interpreter = find(detected.requires_python, python)
        log(f"Python {interpreter.version}")
        recipe, built = _resolve(snapshot, detected, interpreter, backend, cache, log)
        log(f"installing {len(recipe.lock)} packages")
        environment = _lay(recipe, built, snapshot.tree, interpreter, cache)
        note.parent.mkdir(parents=True, exist_ok=True)
        _write(note, recipe.model_dump_json())
        return recipe, environment


def ensure(recipe: Recipe, tree: Callable[[], Tree], *, backend: Backend, cache: Path) -> Environment:
    """The environment of a recipe: from the cache, else rebuilt from the recipe's locks alone.

    Args:
        tree: gives the snapshot's tree; called only when the project has to be built again.

    Raises:
        EnvironmentBuildError: as for :func:`build`, and when the build gives another overlay than the recipe's.
        StoreFault: when the cache cannot be written.
    """
    with _storing(cache), _locked(cache, recipe.digest):
        found = environments.load(cache, recipe.digest)
        if found is not None:
            return found
        interpreter = _interpreter_of(recipe)
        whole = tree()
        detected = detect(whole)
        built = None
        if recipe.editable:
            version = _version(whole, recipe.variables.get(_TOLD, ""))
            built = build_project(
                whole, detected, interpreter, version=version, backend=backend, cache=cache, lock=recipe.build_lock
            )
            overlay = built.overlay.digest if built.overlay else ""
            if overlay != recipe.overlay:
                raise EnvironmentBuildError(
                    f"environment {recipe.digest[:12]} cannot be built again: its build wrote other files than before",
                    hint="the project's build is not reproducible; copy the environment from the host that made it",
                )
        return _lay(recipe, built, whole, interpreter, cache)


def _resolve(
    snapshot: Snapshot,
    detected: Detected,
    python: Interpreter,
    backend: Backend,
    cache: Path,
    log: Callable[[str], None],
) -> tuple[Recipe, Built | None]:
    built: Built | None = None
    metadata = Metadata(name=detected.name, version="", requires=(), extras=())

    def check_build(lock: Lock) -> None:
        _refuse_dependency(detected.name or snapshot.provenance.name, lock, "the build")

    if detected.installable:
        log(f"building the project with {detected.backend}")
        version = _version(snapshot.tree, snapshot.provenance.version)
        built = build_project(
            snapshot.tree, detected, python, version=version, backend=backend, cache=cache, check=check_build
        )
        metadata = metadata_of(built.wheel)
    extras = dict.fromkeys((*detected.extras, *test_extras(metadata.extras, dev=detected.dev)))
    # A test group may name the project itself with an extra.
    asked = [Requirement(line) for line in (*detected.groups, *detected.pinned)]
    for one in asked:
        if canonicalize_name(one.name) == metadata.name:
            extras |= dict.fromkeys(one.extras)
    needed = runtime(metadata, [], python)
    for_tests = runtime(metadata, [str(canonicalize_name(extra)) for extra in extras], python)
    log("resolving the tests' requirements")
    lock = resolve_tests(needed, for_tests, detected, python, log, project=metadata.name)
    _refuse_dependency(metadata.name, lock, "the tests")
    for name in sorted(lock.names & {"pip", "setuptools", "wheel"}):
        log(f"{name} is in the environment, because {lock.via.get(name, 'the project')} requires it")
    return (
        Recipe(
            snapshot=snapshot.digest,
            python=python.version,
            lock=lock.lines,
            build_lock=built.build_lock if built is not None else (),
            editable=built is not None,
            overlay=built.overlay.digest if built is not None and built.overlay else "",
            variables=_told(snapshot, metadata, built),
        ),
        built,
    )


def _refuse_dependency(project: str, lock: Lock, whose: str) -> None:
    """A project that the runner or the build needs has its answer in every environment."""
    if not project or project not in lock.names:
        return
    asker = lock.via.get(project)
    chain = f"{project} is required by {asker}" if asker else f"{project} is itself a requirement of {whose}"
    # pytest is asked for by us, whoever else does.
    above = lock.via.get(asker) if asker and asker != "pytest" else None
    if above:
        chain += f", which {above} requires"
    raise TaskRejected(
        "runner_dependency",
        f"no task can be made of {project}: {chain}, so that every environment holds its source",
        hint="choose a project that neither pytest, its own test requirements nor its build backend need",
    )


def _lay(
    recipe: Recipe, built: Built | None, tree: Tree, python: Interpreter, cache: Path
) -> Environment:
    """Install a recipe in a folder of its own, and move it in place when it is complete."""
    found = environments.load(cache, recipe.digest)
    if found is not None:
        return found
    place = environments.folder(cache, recipe.digest)
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=place.parent, prefix=".partial-"))
    try:
        root = temporary / "env"
        site = venv.create(root, recipe.lock, python, step="installing the tests' requirements")
        source = "src" if any(path.startswith("src/") and path.endswith(".py") for path in tree) else ""
        if built is None:
            venv.workspace_path(site, source=source)
        else:
            venv.add_wheel(built.wheel, root, site, python=python, metadata_only=not built.editable)
            if not built.editable:
                venv.workspace_path(site, source=source)
            if built.overlay:
                (temporary / environments.OVERLAY).write_bytes(environments.pack(built.overlay))
        if int(python.minor.split(".")[1]) < 12:
            tools = compile_lock(["coverage"], python, step="resolving the recorder's requirements")
            install(tools.lines, temporary / "tools", python, step="installing the recorder's requirements")
            shutil.rmtree(temporary / "tools" / "bin", ignore_errors=True)
        (temporary / "recipe.json").write_text(recipe.model_dump_json(indent=1), encoding="utf-8")
        (temporary / "lock.txt").write_text("".join(f"{line}\n" for line in recipe.lock), encoding="utf-8")
        (temporary / "build-lock.txt").write_text("".join(f"{line}\n" for line in recipe.build_lock), encoding="utf-8")
        (temporary / "manifest.json").write_text(json.dumps(venv.manifest(root), indent=0), encoding="utf-8")
        environments.record(
            temporary,
            interpreter=python.path,
            base_prefix=python.base_prefix,
            python=python.version,
            variables=recipe.variables,
            pytest_args=recipe.pytest_args,
        )
        temporary.chmod(0o755)
        shutil.rmtree(place, ignore_errors=True)  # one that load() would not have: damaged, or of a lost interpreter
        temporary.rename(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    laid = environments.load(cache, recipe.digest)
    if laid is None:
        raise StoreFault(f"the environment {place} cannot be read back", hint="check the disk")
    return laid


def _remembered(note: Path, cache: Path) -> tuple[Recipe, Environment] | None:
    try:
        recipe = Recipe.model_validate_json(note.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    found = environments.load(cache, recipe.digest)
    return None if found is None else (recipe, found)


def _interpreter_of(recipe: Recipe) -> Interpreter:
    """The recipe's own Python, else another patch of it: wheels and locks are good for all of a minor version."""
    minor = ".".join(recipe.python.split(".")[:2])
    exact = next((one for one in available() if one.version == recipe.python), None)
    if exact is None:
        other = find(None, minor)
        log.info("no Python %s here: environment %s is built with %s", recipe.python, recipe.digest[:12], other.version)
        return other
    return exact


def _version(tree: Tree, known: str) -> str:
    return declared(tree).version or known


def _told(snapshot: Snapshot, metadata: Metadata, built: Built | None) -> dict[str, str]:
    """The version that the build was told, where its result shows it: a rebuild has to be told it as well."""
    known = snapshot.provenance.version
    if not known or built is None or declared(snapshot.tree).version:
        return {}
    written = any(known.encode() in entry.data for entry in built.overlay.values())
    return {_TOLD: known} if written or metadata.version == known else {}


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".partial")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


@contextlib.contextmanager
def _storing(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFault(
            f"the environment cannot be stored in {cache}: {error}",
            kind="cache_unwritable",
            hint="make room in it, permit writing to it, or set TASKFORGE_CACHE_DIR",
        ) from error


@contextlib.contextmanager
def _locked(cache: Path, key: str) -> Iterator[None]:
    """One builder at a time for the same key; the lock falls with its process."""
    folder = cache / "environments" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / key).open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
