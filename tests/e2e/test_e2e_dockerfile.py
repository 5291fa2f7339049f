"""The exported Dockerfile builds, and its image is the environment: the same packages, the same verdicts of pytest."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest
import uv

from taskforge.corpus import Corpus
from taskforge.generate.acquire import Snapshot
from taskforge.generate.environment_dockerfile import environment_files
from taskforge.generate.pipeline import Options, generate
from taskforge.model import Changes, Entry, Source, Tree
from taskforge.sandbox import Backend, Environment
from taskforge.sandbox.environments import folder, unpack
from taskforge.settings import Settings
from tests.e2e.layers import layer_files

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
#: Prints SHA-256, or a link's target, of all below /env.
MANIFEST = """
import hashlib, json, os
found = {}
for top, folders, names in os.walk("/env"):
    for name in [*names, *folders]:
        path = os.path.join(top, name)
        if os.path.islink(path):
            found[path[5:]] = "link:" + os.readlink(path)
        elif os.path.isfile(path):
            found[path[5:]] = hashlib.sha256(open(path, "rb").read()).hexdigest()
print(json.dumps(found))
"""
#: Who installed it, in whose words: pip in the image, uv on the host. RECORD has the digests of the other two.
INSTALLERS = re.compile(r"lib/python[\d.]+/site-packages/[^/]+\.dist-info/(?:RECORD|INSTALLER)")
#: The interpreter, which is the base's.
BASES = re.compile(r"pyvenv\.cfg|bin/python")
#: Packages outside of the environment, and what carries packages within it.
VENDORS = re.compile(r"(?:/|^)(?:pip|setuptools|pkg_resources|wheel|_distutils_hack|ensurepip/_bundled|dist-packages)/")


def packed(files: Mapping[str, bytes], *, user: int = 0, modes: Mapping[str, int] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            parts = name.split("/")
            for depth in range(1, len(parts)):
                member = tarfile.TarInfo("/".join(parts[:depth]))
                member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o755, user, user
                archive.addfile(member)
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = len(data), (modes or {}).get(name, 0o644), user, user
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Daemon:
    """The real one; what it makes here is removed by id."""

    def __init__(self) -> None:
        self.api: Any = docker.from_env(timeout=120).api
        self.made: list[str] = []

    def build(self, context: Mapping[str, bytes], tag: str, **buildargs: str) -> str:
        arguments = {name: os.environ[name] for name in PROXIES if name in os.environ} | buildargs
        deadline = time.monotonic() + 300
        said = ""
        for line in self.api.build(
            fileobj=io.BytesIO(packed(context)), custom_context=True, tag=tag, buildargs=arguments, decode=True,
            rm=True, forcerm=True, network_mode="host",
        ):  # fmt: skip
            assert "error" not in line, said[-3000:] + str(line)
            said += line.get("stream", "")
            assert time.monotonic() < deadline, said[-3000:]
        self.made.append(tag)
        return tag

    def close(self) -> None:
        for image in reversed(self.made):
            self.api.remove_image(image, noprune=True)
        self.api.close()


class Box:
    """A container of an image, as an ordinary user without a network."""

    def __init__(self, daemon: Daemon, image: str) -> None:
        self.api = daemon.api
        made = self.api.create_container(
            image, ["sleep", "300"], host_config=self.api.create_host_config(network_mode="none")
        )
        self.id = made["Id"]
        self.api.start(self.id)

    def run(self, *argv: str) -> tuple[int, str]:
        made = self.api.exec_create(self.id, ["timeout", "-s", "KILL", "100", *argv])
        said = self.api.exec_start(made["Id"]).decode()
        return self.api.exec_inspect(made["Id"])["ExitCode"], said

    def lay(self, changes: Changes) -> None:
        entries = {path: entry for path, entry in changes.items() if entry is not None}
        modes = {path: 0o755 for path, entry in entries.items() if entry.kind == "exec"}
        data = packed({path: it.data for path, it in entries.items()}, user=1000, modes=modes)
        assert self.api.put_archive(self.id, "/workspace", data)

    def pytest(self, *ids: str) -> tuple[int, str]:
        """pytest's exit code and its last line."""
        code, said = self.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *ids)
        return code, said.strip().splitlines()[-1]

    def close(self) -> None:
        self.api.remove_container(self.id, force=True)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    yield made
    made.close()


@pytest.fixture(scope="module")
def base(daemon: Daemon, calc_environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The base image, with pip and with what this host needs to reach its package index."""
    minor, place = minor_of(calc_environment.python), tmp_path_factory.mktemp("base")
    argv = [uv.find_uv_bin(), "pip", "install", "--quiet", "--target", str(place / "pip"), "--python-version", minor]
    subprocess.run([*argv, "--only-binary", ":all:", "pip"], check=True, timeout=120)
    context = {
        f"pip/{path.relative_to(place / 'pip')}": path.read_bytes() for path in place.rglob("*") if path.is_file()
    }
    # pip's folder is an odd one on purpose: packages are found and removed wherever a base has them.
    lines = [f"FROM taskforge-base:{minor}", "COPY pip /opt/odd", "ENV PYTHONPATH=/opt/odd"]
    bundle = next((os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE") if os.environ.get(name)), "")
    if bundle:
        context["authorities.pem"] = Path(bundle).read_bytes()
        lines += ["COPY authorities.pem /etc/authorities.pem", "ENV PIP_CERT=/etc/authorities.pem"]
    context["Dockerfile"] = "\n".join(lines).encode()
    return daemon.build(context, f"taskforge-test-base:{minor}")


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def index() -> dict[str, str]:
    named = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    found = next((os.environ[name] for name in named if os.environ.get(name)), "")
    return {"PIP_INDEX_URL": found} if found else {}


@pytest.fixture(scope="module")
def h11_corpus(tmp_path_factory: pytest.TempPathFactory, cache: Path, bubblewrap: Backend) -> Path:
    out = tmp_path_factory.mktemp("h11") / "corpus"
    settings = Settings(cache_dir=cache)
    options = Options(max_tasks=1, jobs=2, baseline_runs=1)
    generate(Source.parse("pypi:h11==0.16.0"), out, options, settings=settings, backend=bubblewrap)
    return out


def same_files(box: Box, place: Path, whole: Path) -> None:
    """Name by name and hash by hash; ``whole`` is the manifest on this host, which has the bytecode as well."""
    code, said = box.run("python", "-c", MANIFEST)
    assert code == 0, said
    made, here, told = json.loads(said), json.loads(whole.read_bytes()), json.loads((place / "manifest.json").read_bytes())
    project = set(unpack((place / "project.tar").read_bytes()))
    # Bytecode of what points to the workspace, which the environment on this host goes without.
    more = {name for name in set(made) - set(here) if name.endswith(".pyc")}
    assert {f"{Path(name).parents[1]}/{Path(name).name.split('.')[0]}.py" for name in more} <= project
    assert set(made) - more == set(here)
    assert {name: digest for name, digest in here.items() if name in told} == told
    assert not any(BASES.match(name) or name.endswith(".pyc") for name in told)
    different = {name for name in here if made[name] != here[name]}
    launchers = {name for name in different - project if re.fullmatch(r"bin/[^/]+", name) and name in told}
    explained = {name for name in different if INSTALLERS.fullmatch(name) or BASES.match(name)} | launchers
    if box.run("python", "-V")[1].strip() != f"Python {json.loads((place / 'recipe.json').read_bytes())['python']}":
        # Another patch release may compile otherwise.
        explained |= {name for name in different if name.endswith(".pyc")}
    assert different == explained
    assert not project & different
    for name in launchers:
        assert box.run("head", "-1", f"/env/{name}") == (0, "#!/env/bin/python\n")


def solvable(box: Box, corpus: Corpus, task: str) -> None:
    """The visible tests pass, the hidden ones fail without the feature, and pass with the reference patch."""
    bundle = corpus.bundle(task)
    tests = bundle.tests
    visible = [one for one in tests.pass_to_pass if tests.files[one] in bundle.workspace]
    assert visible
    box.lay(bundle.workspace)
    assert box.run("sh", "-c", "id -u && touch ok && rm ok && git --version") == (0, "1000\ngit version 2.39.5\n")
    assert passed(box.pytest(*visible)) == len(visible)
    box.lay(bundle.hidden)
    for one in tests.fail_to_pass[:3]:
        assert box.pytest(one)[0] == 1
    box.lay({"reference.patch": Entry(bundle.reference_patch)})
    assert box.run("git", "apply", "reference.patch") == (0, "")
    every = {*tests.fail_to_pass, *tests.pass_to_pass}
    assert passed(box.pytest(*every)) == len(every)


def passed(ended: tuple[int, str]) -> int:
    code, last = ended
    found = re.search(r"(\d+) passed", last)
    assert code == 0, last
    assert found is not None, last
    return int(found[1])


def no_answer(daemon: Daemon, box: Box, image: str, snapshot: Tree) -> None:
    """No layer has a file of the product, nor what vendors other projects."""
    for module in ("pip", "setuptools", "wheel", "pkg_resources"):
        code, said = box.run("python", "-c", f"import {module}")
        assert (code, said.strip().splitlines()[-1]) == (1, f"ModuleNotFoundError: No module named '{module}'")
    assert box.run("python", "-m", "venv", "/tmp/new")[0] == 1
    sources = {it.data: path for path, it in snapshot.items() if path.endswith(".py") and len(it.data) > 100}
    assert sources
    seen, own = 0, 0
    for name, data in layer_files(daemon.api, image):
        seen += 1
        own += name.startswith("env/")
        assert data not in sources, (name, sources[data])
        assert not VENDORS.search(name), name
        assert name.startswith("env/") or not re.search(r"/site-packages/|\.dist-info/", name), name
        assert not name.endswith((".whl", ".egg", ".pyz", ".zip")), name
    assert seen > own > 100


@pytest.mark.parametrize("name", ["calc", "h11"])
def test_the_exported_dockerfile_is_the_environment(
    name: str, daemon: Daemon, base: str, cache: Path, request: pytest.FixtureRequest
) -> None:
    corpus = Corpus.open(request.getfixturevalue(f"{name}_corpus"))
    task = corpus.task_ids()[0]
    recipe = corpus.recipe(corpus.card(task).environment)
    place = corpus.public / "environments" / recipe.digest
    assert base.endswith(f":{minor_of(recipe.python)}")
    context = {path.name: path.read_bytes() for path in place.iterdir()}
    image = daemon.build(context, f"taskforge-test-equivalent:{name}", BASE=base, **index())
    box = Box(daemon, image)
    try:
        same_files(box, place, folder(cache, recipe.digest) / "manifest.json")
        solvable(box, corpus, task)
        no_answer(daemon, box, image, corpus.snapshot(recipe.snapshot))
    finally:
        box.close()


def test_another_interpreter_may_have_the_pip(
    daemon: Daemon, base: str, calc_corpus: Path, calc: Snapshot, calc_environment: Environment
) -> None:
    minor = minor_of(calc_environment.python)
    # As in a base of Debian with a second Python: what installs cannot run in the one that it installs for.
    other = b'#!/bin/sh\nPYTHONPATH=/opt/odd exec /usr/local/bin/the-other "$@"\n'
    lines = [
        f"FROM {base}", "ENV PYTHONPATH=", "COPY python3 /tmp/",
        f"RUN cd /usr/local/bin && ln -s $(command -v python{minor}) the-other && install -m 755 /tmp/python3 python3",
    ]  # fmt: skip
    files = {"python3": other, "Dockerfile": "\n".join(lines).encode()}
    split = daemon.build(files, f"taskforge-test-base:{minor}-split")
    context = environment_files(Corpus.open(calc_corpus).recipe(calc_environment.digest), calc_environment, calc.tree)
    box = Box(daemon, daemon.build(context, "taskforge-test-equivalent:split", BASE=split, **index()))
    try:
        found = box.run("python", "-c", "import pytest; print(pytest.__file__)")
        assert found == (0, f"/env/lib/python{minor}/site-packages/pytest/__init__.py\n")
    finally:
        box.close()


def test_what_the_build_wrote_lies_in_the_workspace(
    daemon: Daemon, base: str, calc_corpus: Path, calc: Snapshot, calc_environment: Environment
) -> None:
    corpus = Corpus.open(calc_corpus)
    overlay = Tree({"src/calc/_made.py": Entry(b"x = 1\n"), "run": Entry(b"#!/bin/sh\necho ran\n", "exec")})
    with_overlay = dataclasses.replace(calc_environment, overlay=overlay)
    context = environment_files(corpus.recipe(calc_environment.digest), with_overlay, calc.tree)
    image = daemon.build(context, "taskforge-test-equivalent:overlay", BASE=base, **index())
    box = Box(daemon, image)
    try:
        box.lay(corpus.workspace(corpus.task_ids()[0]))
        assert box.run("python", "-c", "import calc._made; print(calc._made.__file__)") == (
            0, "/workspace/src/calc/_made.py\n",
        )  # fmt: skip
        assert box.run("./run") == (0, "ran\n")
        found = box.run("find", "/workspace", "!", "-user", "solver", "-o", "!", "-group", "solver")
        assert found == (0, "")
    finally:
        box.close()
