"""Files go in and come out by bytes."""



from __future__ import annotations

import os

import pytest

from taskforge.errors import SandboxFault
from taskforge.model import Entry, Tree

ODD = os.fsdecode(b"d\xe9j\xe0/na\xffme \n'\"$x")


def test_bytes_modes_links_and_names_survive(box):
    files = {
        "plain.txt": Entry(b"a\r\nb\n\x00\xff"),
        "empty": Entry(b""),
        "bin/tool": Entry(b"#!/bin/sh\necho ran\n", "exec"),
        "bin/link": Entry(b"../plain.txt", "link"),
        "dangling": Entry(b"/nowhere/\xff", "link"),
        "folder": Entry(b"bin", "link"),
        ODD: Entry(b"odd"),
    }
    sandbox = box(files)
    assert sandbox.read("/workspace") == Tree(files)
    assert sandbox.exec(["/workspace/bin/tool"], timeout=10).output == b"ran\n"


def test_two_thousand_small_files(box):
    files = {f"d{number % 50}/f{number}": b"%d" % number for number in range(2000)}
    assert box(files).read("/workspace").digest == Tree({path: Entry(data) for path, data in files.items()}).digest


def test_a_hundred_megabytes(box):
    data = os.urandom(1 << 20) * 100
    sandbox = box({"big": data})
    assert sandbox.read("/workspace")["big"].data == data


def test_lay_replaces_deletes_and_follows_no_link(box):
    sandbox = box({"a": b"1", "b/c": b"2", "out": Entry(b"/tmp", "link"), "gone/x": b"", "gone/y": b""})
    sandbox.lay({"a": None, "b": Entry(b"file now"), "out/f": Entry(b"inside"), "gone": None, "never/was": None})
    assert sandbox.read("/workspace") == Tree({"b": Entry(b"file now"), "out/f": Entry(b"inside")})
    assert sandbox.exec(["/bin/ls", "/tmp"], timeout=10).output == b"home\n"


def test_laying_over_what_is_protected_is_refused(box):
    sandbox = box({"tests/test_a.py": b"old", "free": b""}, protected=("tests/",))
    for changes in ({"tests/test_a.py": Entry(b"new")}, {"tests/new.py": Entry(b"new")}, {"tests": None}):
        with pytest.raises(SandboxFault) as caught:
            sandbox.lay(changes)
        assert caught.value.kind == "sandbox_refused"
    assert sandbox.read("/workspace")["tests/test_a.py"].data == b"old"


def test_a_tree_larger_than_the_disk_is_a_fault(box):
    with pytest.raises(SandboxFault) as caught:
        box({"big": bytes(40 << 20)}, disk_mb=16)
    assert caught.value.kind == "sandbox_disk"
    assert not caught.value.retryable


def test_reading_what_is_no_tree_is_a_fault_and_the_sandbox_lives(box, python):
    sandbox = box({"ok": b"1"})
    python(sandbox, "import os\nos.makedirs('.git')\nopen('.git/config', 'w').close()")
    with pytest.raises(SandboxFault, match=r"inside \.git"):
        sandbox.read("/workspace")
    deep = "import os\nos.chdir('/tmp')\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').close()"
    assert python(sandbox, deep).returncode == 0
    with pytest.raises(SandboxFault) as caught:
        sandbox.read("/tmp")
    assert caught.value.kind == "sandbox_refused"
    python(sandbox, "import os\nos.mkfifo('pipe')\n[os.truncate(os.open('/dev/shm/%d' % n, 66), 1 << 28) for n in range(3)]")
    with pytest.raises(SandboxFault, match="more than"):
        sandbox.read("/dev/shm")
    with pytest.raises(SandboxFault):
        sandbox.read("/absent")
    assert sandbox.exec(["/bin/true"], timeout=10).returncode == 0
