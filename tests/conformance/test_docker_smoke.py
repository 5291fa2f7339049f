"""What only the docker sandbox has: images, a daemon that may go away, and containers that may be left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from taskforge.errors import SandboxFault
from taskforge.generate.acquire import Snapshot
from taskforge.model import Entry, Tree
from taskforge.sandbox import Environment, Limits, PytestJob, SandboxSpec, backend
from taskforge.sandbox.docker import Docker, _open_folders
from taskforge.sandbox.docker_daemon import INSTALLATION, KIND, OWNER


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Docker:
    """A new installation, on the daemon of this machine; without one, this fails and says what to do."""
    backend("docker")
    return Docker(tmp_path_factory.mktemp("docker"))


def running(docker: Docker) -> list[str]:
    label = f"{INSTALLATION}={docker.daemon.labels('sandbox')[INSTALLATION]}"
    return [one["Id"] for one in docker.daemon.client.api.containers(all=True, filters={"label": label})]


def test_the_suite_passes_and_nothing_is_left(docker: Docker, calc_spec: SandboxSpec) -> None:
    with docker.start(calc_spec) as sandbox:
        result = sandbox.run(PytestJob())
        assert len(running(docker)) == 1
    assert [report.outcome for report in result.reports] == ["passed"] * 15
    assert result.ended == "done"
    assert running(docker) == []


def test_an_image_holds_no_source_and_nothing_that_vendors(
    docker: Docker, calc: Snapshot, calc_environment: Environment
) -> None:
    code = """
import os, sys
found = []
for top, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(top, name) not in ("/proc", "/sys", "/dev")]
    for name in names:
        path = os.path.join(top, name)
        if os.path.isfile(path) and sys.argv[1] in open(path, "rb").read().decode("latin-1"): found.append(path)
        if "pip" in (name.split("-")[0], name.split(".")[0]) or name.endswith(".whl"): found.append(path)
    found += [os.path.join(top, name) for name in folders if name in ("pip", "_vendor", "_bundled", "setuptools")]
print(found)
"""
    source = calc.tree["src/calc/core.py"].data.decode()
    line = max(source.splitlines(), key=len).strip()
    with docker.start(SandboxSpec(environment=calc_environment, tree=Tree({}))) as sandbox:
        argv = ["/env/bin/python", "-I", "-c", code, line[:12] + line[12:]]
        assert sandbox.exec(argv, timeout=60).output == b"[]\n"


def test_an_image_is_made_once(docker: Docker, calc_environment: Environment, tmp_path: Path) -> None:
    made = docker.images.ensure(calc_environment, tools=False)
    other = Docker(tmp_path)
    assert other.images.ensure(calc_environment, tools=False) == made
    labels = docker.daemon.client.api.inspect_image(made)["Config"]["Labels"]
    assert labels["taskforge.environment"] == calc_environment.digest
    assert (labels[KIND], labels.get(OWNER)) == ("environment", None)


def test_an_image_that_was_removed_is_made_again(docker: Docker, calc_spec: SandboxSpec) -> None:
    image = docker.images.ensure(calc_spec.environment, tools=False)
    docker.daemon.client.api.remove_image(image, force=True)
    with docker.start(calc_spec) as sandbox:
        assert sandbox.exec(["/bin/echo", "well"], timeout=10).output == b"well\n"


@pytest.mark.parametrize(
    ("base", "says"), [("taskforge-absent:{minor}", "there is no base image taskforge-absent:3"), ("", "has no Python 3.7")]
)
def test_a_base_that_does_not_do_says_what_to_do(
    docker: Docker, calc_environment: Environment, tmp_path: Path, base: str, says: str
) -> None:
    python = calc_environment.python
    if not base:
        # Any image that is there, asked for a Python that it has not.
        base = docker.daemon.client.api.inspect_image(docker.images.ensure(calc_environment, tools=False))["Id"]
        python = "3.7.1"
    fields = {**calc_environment.__dict__, "python": python, "digest": uuid.uuid4().hex * 2}
    with pytest.raises(SandboxFault, match=says) as caught:
        Docker(tmp_path, base=base).images.ensure(Environment(**fields), tools=False)
    assert caught.value.kind == "docker_base"
    assert "TASKFORGE_DOCKER_BASE" in caught.value.hint
    assert not caught.value.retryable


ORPHAN = """
import os, sys
from pathlib import Path
from taskforge.sandbox.docker import Docker
docker = Docker(Path(sys.argv[1]))
made = docker.daemon.client.api.create_container_from_config(
    {"Image": sys.argv[2], "Labels": docker.daemon.labels("sandbox")})
print(made["Id"], flush=True)
if sys.argv[3] == "stay": sys.stdin.read()
os._exit(0)
"""


def test_the_sweep_removes_this_installations_orphans_alone(
    docker: Docker, calc_environment: Environment, tmp_path: Path
) -> None:
    image = docker.images.ensure(calc_environment, tools=False)

    def other(folder: Path, how: str) -> tuple[str, subprocess.Popen[str]]:
        argv = [sys.executable, "-c", ORPHAN, str(folder), image, how]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process.stdout.readline().strip(), process

    # Each sweeps as it starts, so the one that lives is first.
    alive, mine, foreign = other(docker.daemon.folder, "stay"), other(docker.daemon.folder, "go"), other(tmp_path, "go")
    mine[1].communicate()
    foreign[1].communicate()
    assert docker.daemon.sweep() == [mine[0]]
    alive[1].communicate("")
    assert docker.daemon.sweep() == [alive[0]]
    assert Docker(tmp_path).daemon.sweep() == [foreign[0]]


def test_a_supervisor_lost_for_memory_is_told_from_other_ends(docker: Docker, calc_environment: Environment) -> None:
    test = "import os\ndef test_fill():\n    with open('/dev/shm/f', 'wb') as f:\n        while True: f.write(b'x' * 65536)\n"
    spec = SandboxSpec(
        environment=calc_environment,
        tree=Tree({"test_it.py": Entry(test.encode())}),
        limits=Limits(memory_mb=96, disk_mb=400),
    )
    with docker.start(spec) as sandbox:
        assert sandbox.run(PytestJob()).ended == "oom"
    with docker.start(spec) as sandbox:
        sandbox.kill()
        with pytest.raises(SandboxFault) as caught:
            sandbox.exec(["/bin/true"], timeout=5)
    assert "memory" not in caught.value.message


def test_no_daemon_is_a_fault_and_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    found = Docker(tmp_path).probe()
    assert not found.ok
    assert "DOCKER_HOST" in found.remedy


def test_auto_falls_back_on_docker(calc_spec: SandboxSpec, tmp_path: Path) -> None:
    code = (
        "from taskforge.sandbox import backend, bubblewrap\n"
        "bubblewrap.executable = lambda: None\n"
        "print(backend('auto').name)\n"
    )
    env = {**os.environ, "TASKFORGE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "docker\n"


def test_doctor_shows_the_daemon(tmp_path: Path) -> None:
    env = {**os.environ, "TASKFORGE_CACHE_DIR": str(tmp_path)}
    argv = [sys.executable, "-m", "taskforge", "doctor", "--json"]
    checks = json.loads(subprocess.run(argv, env=env, capture_output=True, check=True).stdout)
    assert [one["status"] for one in checks if one["name"] == "sandbox docker"] == ["ok"]


def test_folders_above_what_is_protected() -> None:
    held = ["tests/a/b.py", "pkg/inner/tests/c.py", "pkg/setup.cfg", "conftest.py"]
    protected = ("tests/", "pkg/inner/tests/", "pkg/setup.cfg", "conftest.py")
    assert _open_folders(held, protected) == ["pkg", "pkg/inner"]
