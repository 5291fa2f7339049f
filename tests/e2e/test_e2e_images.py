"""``taskforge images`` as people type it: made here, carried to a daemon that has nothing, listed, removed; and whatever
is wrong with what was given."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.images_common import bytes_of, human
from taskforge.corpus import Corpus
from taskforge.errors import UsageError
from taskforge.model import Image

Cli = Callable[..., Any]
PIN = Image(digest="sha256:" + "0" * 64, platform="linux/amd64", layers=("sha256:" + "1" * 64,), python="3.12.1", size=9)


@pytest.fixture(scope="module")
def environment(calc_corpus: Path) -> str:
    return Corpus.open(calc_corpus).environment_digests()[0]


@pytest.fixture
def corpus(calc_corpus: Path, tmp_path: Path) -> Path:
    """A copy to pin."""
    return shutil.copytree(calc_corpus, tmp_path / "corpus")


def pinned(corpus: Path, environment: str) -> Image:
    found = Corpus.open(corpus).image(environment)
    assert found is not None
    return found


def listed(cli: Cli, corpus: Path, **env: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("images", "list", "--corpus", corpus, "--json", code=0, **env).stdout)
    return found


def facts(done: Any) -> dict[str, Any]:
    """A verdict without its times."""
    told: dict[str, Any] = json.loads(done.stdout)
    assert told.pop("phases")
    return told | {"tests": [{key: test[key] for key in ("id", "group", "outcome")} for test in told["tests"]]}


def test_from_one_daemon_to_another(corpus: Path, environment: str, second_daemon: str, cli: Cli, tmp_path: Path) -> None:
    short, there = environment[:12], {"DOCKER_HOST": second_daemon}
    assert f"missing  {short}  pinned to no image" in cli("images", "list", "--corpus", corpus, code=0).stdout
    assert cli("images", "build", corpus, code=0).stdout.startswith(f"pinned    {short}")
    image = pinned(corpus, environment)
    row = next(one for one in listed(cli, corpus)["images"] if one["pinned"])
    assert (row["environment"], row["image"], row["python"]) == (environment, image.digest, image.python)
    assert row["own"] < row["size"] / 2
    assert cli("images", "save", corpus, code=0).stdout.startswith(f"1 image in {corpus}/images.tar, ")

    assert listed(cli, corpus, **there) == {
        "images": [], "bytes": 0,
        "missing": [{"environment": environment, "image": image.digest, "python": image.python, "reference": ""}],
    }  # fmt: skip
    assert cli("images", "load", corpus, code=0, **there).stdout == f"loaded   taskforge-env:{short}\n"
    assert cli("images", "load", corpus / "images.tar", code=0, **there).stdout == f"present  taskforge-env:{short}\n"
    alone = shutil.move(corpus / "images.tar", tmp_path / "images.tar")
    assert "only held against themselves" in cli("images", "load", alone, code=0, **there).stdout
    assert cli("images", "load", alone, "--corpus", corpus, code=0, **there).stdout.startswith("present")

    # Graded in what was loaded: that daemon has nothing to make it of.
    graded = ("grade", Corpus.open(corpus).task_ids()[0], "--corpus", corpus, "--sandbox", "docker", "--json")
    for submission, code in (("--reference", 0), ("--empty", 1)):
        assert facts(cli(*graded, submission, code=code, **there)) == facts(cli(*graded, submission, code=code))

    found = listed(cli, corpus, **there)
    assert (found["images"][0]["image"], found["images"][0]["pinned"], found["missing"]) == (image.digest, True, [])
    table = cli("images", "list", "--corpus", corpus, code=0, **there).stdout.splitlines()
    assert (table[1].split()[0], table[1].split()[-1], table[2][:7]) == (short, "yes", "1 image")
    plan = cli("images", "prune", "--budget", "0", "--dry-run", code=0, **there).stdout
    assert plan.startswith(f"would remove  taskforge-env:{short}")
    assert f"freed {human(found['bytes'])}" not in plan
    assert f"would free {human(found['bytes'])}" in plan
    done = json.loads(cli("images", "prune", "--budget", "1k", "--json", code=0, **there).stdout)
    assert [one["environment"] for one in done["removed"]] == [environment]
    assert (done["budget"], done["freed"], done["after"], done["kept"]) == (1000, found["bytes"], 0, [])
    assert listed(cli, corpus, **there)["images"] == []


def test_another_pin_is_never_replaced_silently(corpus: Path, environment: str, cli: Cli) -> None:
    Corpus.open(corpus).write_image(environment, PIN)
    done = cli("images", "build", corpus, code=4)
    assert "image 000000000000" in done.stderr
    assert "images build --replace" in done.stderr
    assert pinned(corpus, environment) == PIN
    assert cli("images", "build", corpus, "--replace", code=0).stdout.startswith("REPLACED")
    assert pinned(corpus, environment).digest != PIN.digest
    assert cli("images", "build", corpus, code=0).stdout.startswith("same")


def test_a_lost_pin_is_not_made_up(corpus: Path, environment: str, cli: Cli) -> None:
    # The tasks say what they were proven in.
    for place in (corpus / "public" / "tasks").glob("*/task.json"):
        card = json.loads(place.read_text())
        place.write_text(json.dumps(card | {"image": PIN.digest}))
    assert "is pinned to image 000000000000" in cli("images", "build", corpus, code=4).stderr
    assert Corpus.open(corpus).image(environment) is None


# -- what is wrong with what was given --------------------------------------------------------------------------------

COMMANDS = {
    "build": (), "save": (), "load": (), "push": ("127.0.0.1:1/x",), "pull": ("127.0.0.1:1/x",),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_corpus_and_no_such_environment(name: str, corpus: Path, environment: str, cli: Cli, tmp_path: Path) -> None:
    Corpus.open(corpus).write_image(environment, PIN)
    more = COMMANDS[name]
    (tmp_path / "empty").mkdir()
    assert "is no corpus" in cli("images", name, tmp_path / "empty", *more, code=2).stderr
    done = cli("images", name, corpus, *more, "--environment", "zzz", code=2)
    assert "has no environment 'zzz'" in done.stderr
    assert environment[:12] in done.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_daemon(name: str, corpus: Path, environment: str, cli: Cli, tmp_path: Path) -> None:
    Corpus.open(corpus).write_image(environment, PIN)
    (corpus / "images.tar").write_bytes(b"")
    with tarfile.open(corpus / "images.tar", "w"):
        pass
    if name == "load":
        # Refused before the daemon is asked.
        assert "is no OCI image layout" in cli("images", "load", corpus, code=2).stderr
        return
    done = cli("images", name, corpus, *COMMANDS[name], code=2, DOCKER_HOST=f"unix://{tmp_path}/nowhere.sock")
    assert "does not answer" in done.stderr
    assert "DOCKER_HOST" in done.stderr


@pytest.mark.parametrize("argv", [["list"], ["prune", "--budget", "1GB"], ["base", "--python", "3.12"]])
def test_no_daemon_for_the_rest(argv: list[str], cli: Cli, tmp_path: Path) -> None:
    done = cli("images", *argv, code=2, DOCKER_HOST=f"unix://{tmp_path}/nowhere.sock")
    assert "does not answer" in done.stderr


def test_bad_options(corpus: Path, environment: str, cli: Cli, tmp_path: Path) -> None:
    for argv, says in (
        (["prune", "--budget", "much"], "'much' is no size"),
        (["prune"], "Missing option '--budget'"),
        (["base", "--python", "2.7"], "'2.7' is no version of Python"),
        (["base", "--from", "magic"], "there is no way 'magic'"),
        (["build", corpus, "--sandbox", "bubblewrap"], "has no images"),
        (["build", corpus, "--sandbox", "chroot"], "there is no sandbox 'chroot'"),
        (["save", corpus], "is pinned to no image"),
        (["load", corpus], "is pinned to no image"),
        (["load", tmp_path / "nowhere.tar"], "No such file or directory"),
        (["load", tmp_path / "nowhere.tar", "--environment", environment], "--environment needs a corpus"),
        (["list", "--corpus", tmp_path / "nowhere"], "is no corpus"),
    ):
        assert says in cli("images", *argv, code=2).stderr
    Corpus.open(corpus).write_image(environment, PIN)
    os.mkfifo(tmp_path / "pipe")
    for argv, says, code in (
        (["save", corpus], "is pinned to image 000000000000, but the daemon has", 4),
        (["save", corpus, "--to", tmp_path], "is a folder", 2),
        (["save", corpus, "--to", tmp_path / "pipe"], "is no regular file", 2),
        (["load", corpus], "No such file or directory", 2),
        (["push", corpus, "r/a:tag"], "'r/a:tag' is no repository", 2),
        (["pull", corpus, "r"], "'r' is no repository", 2),
        (["pull", corpus], "nobody pushed the image", 2),
        (["pull", corpus, "127.0.0.1:1/x"], "connection refused", 4),
    ):
        assert says in cli("images", *argv, code=code).stderr
    assert pinned(corpus, environment) == PIN


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("50GB", 50 * 10**9), ("50G", 50 * 10**9), ("50 gb", 50 * 10**9), ("1.5T", 1_500_000_000_000),
        ("2GiB", 2**31), ("3Ki", 3072), ("7k", 7000), ("8MB", 8_000_000), ("12B", 12),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "1PB", "1,5G", "1e9", "nan", "1GG"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        bytes_of(text)
