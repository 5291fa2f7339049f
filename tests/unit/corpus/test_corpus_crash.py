"""A corpus whose writer is killed, whose disk is full, or that may not be read."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskforge.corpus import Bundle, Corpus

NAME = "local__x-12345678.stub-f-000001"
Maker = Callable[..., Bundle]
WRITER = """
import sys, pickle
from pathlib import Path
from taskforge.corpus import Corpus
corpus, bundles = Corpus.open(Path(sys.argv[1])), pickle.loads(sys.stdin.buffer.read())
while True:
    for bundle in bundles:
        corpus.write(bundle, replace=True)
        print(flush=True)
"""


def test_a_killed_writer_leaves_a_corpus_that_can_be_read(tmp_path: Path, bundle_maker: Maker) -> None:
    corpus = Corpus.create(tmp_path / "c", {})
    bundles = [bundle_maker(NAME, statement=text) for text in ("one", "two")]
    digests = {bundle.digest for bundle in bundles}
    seen = 0
    for wait in (0.0, 0.002, 0.005, 0.009, 0.014, 0.02):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(corpus.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            process.stdin.write(pickle.dumps(bundles))
            process.stdin.close()
            process.stdout.readline()
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
            process.wait()
        # A task is there as a whole or not at all, and never half new.
        for name in Corpus.open(corpus.path).task_ids():
            assert corpus.bundle(name).digest in digests
            seen += 1
    assert seen
    last = bundle_maker(NAME, statement="three")
    corpus.write(last, replace=True)
    assert corpus.bundle(NAME).digest == last.digest
    # What the killed ones left is gone, too.
    assert {path.name for path in corpus.path.glob("*/tasks/*")} == {NAME}


def test_a_full_disk_changes_no_task(tmp_path: Path, confined: Callable[..., Any]) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "import os; from pathlib import Path\n"
        "from conftest import make_bundle, write_corpus\n"
        "from taskforge.errors import StoreFault; from taskforge.model import Entry, Tree\n"
        "corpus = write_corpus(Path(sys.argv[1]) / 'c')\n"
        "large = Tree({'noise': Entry(os.urandom(400_000))})\n"
        "for bundle in (make_bundle(workspace=large), make_bundle('second', workspace=large)):\n"
        "    try: corpus.write(bundle, replace=True)\n"
        "    except StoreFault as fault: print(fault.kind)\n"
        "print([corpus.bundle(name).digest == make_bundle().digest for name in corpus.task_ids()])\n"
        "print(len(list(corpus.path.glob('*/tasks/.*'))))\n"
    )
    unit = str(Path(__file__).parents[1])
    done = confined(["--size", "400000", "--tmpfs", str(tmp_path)], "-c", script, str(tmp_path), unit)
    assert done.stdout.splitlines() == ["disk_full", "disk_full", "[True]", "0"], done.stderr


def test_a_corpus_that_may_not_be_read_is_a_fault(corpus: Corpus, confined: Callable[..., Any]) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from taskforge.corpus import Corpus; from taskforge.errors import Fault\n"
        "try: list(Corpus.open(Path(sys.argv[1])).cards())\n"
        "except Fault as fault: print(fault.kind, fault.message, sep='|')\n"
    )
    for path in (corpus.public, corpus.public / "corpus.json", corpus.public / "tasks", corpus.public / "tasks" / NAME):
        mode = path.stat().st_mode
        path.chmod(0)
        done = confined([], "-c", script, str(corpus.path))
        path.chmod(mode)
        assert done.stdout.startswith("permission|cannot read "), (path, done.stderr)
