"""Files go in and come out by bytes."""



from __future__ import annotations

import json
import os
import sys

import pytest

from taskforge.errors import SandboxFault
from taskforge.model import Entry, Tree
from taskforge.process import run

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


def test_ten_thousand_small_files(box, python):
    tree = Tree({f"d{number % 100}/f{number}": Entry(b"%d" % number) for number in range(10_000)})
    sandbox = box(dict(tree.items()))
    assert sandbox.read("/workspace").digest == tree.digest
    # What was not laid, but made inside, comes out as well.
    code = "import os\nfor n in range(10_000):\n    os.makedirs('/tmp/out/d%d' % (n % 100), exist_ok=True)\n" \
           "    with open('/tmp/out/d%d/f%d' % (n % 100, n), 'w') as stream: stream.write(str(n))\n"
    assert python(sandbox, code).returncode == 0
    assert sandbox.read("/tmp/out").digest == tree.digest


#: In a process of its own, whose peak of memory is this alone: 500 MiB in, and out again.
BIG = """
import hashlib, json, os, resource, sys
from pathlib import Path
from taskforge.model import Entry, Tree
from taskforge.sandbox import Environment, Limits, SandboxSpec, backend
told = json.loads(sys.argv[1])
environment = Environment(digest=told["digest"], python=told["python"], overlay=Tree({}),
                          **{key: Path(told[key]) for key in ("root", "interpreter", "base_prefix")})
engine = backend(sys.argv[2])
block = os.urandom(1 << 20)
data = block * 500
wanted = hashlib.sha256(data).hexdigest()
spec = SandboxSpec(environment=environment, tree=Tree({"big": Entry(data)}),
                   limits=Limits(memory_mb=1800, disk_mb=600, wall_seconds=300))
del data
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
with engine.start(spec) as sandbox:
    went_in = peak()
    spec = None
    assert sandbox.exec(["/usr/bin/sha256sum", "big"], timeout=60).output.split()[0].decode() == wanted
    found = sandbox.read("/workspace")
    assert list(found) == ["big"]
    assert hashlib.sha256(found["big"].data).hexdigest() == wanted
print(went_in, peak())
"""


def test_five_hundred_megabytes(engine, environment):
    told = {key: str(getattr(environment, key)) for key in ("root", "interpreter", "base_prefix", "python", "digest")}
    done = run([sys.executable, "-c", BIG, json.dumps(told), engine.name], timeout=240)
    assert done.returncode == 0, done.text[-3000:]
    went_in, came_out = map(int, done.stdout.split())
    # The tree itself is 500 of it; what comes is put together once, and then is a tree beside what went.
    assert went_in < 700, (went_in, came_out)
    assert came_out < 2000, (went_in, came_out)


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
