"""Gradings in a real sandbox: what a submission does costs the submission, what we do costs nobody."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from taskforge.corpus.bundle import Bundle
from taskforge.errors import Fault, SandboxFault
from taskforge.generate.patches import patch_between
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.grade.submission import apply
from taskforge.model import Entry, Policy, Tree, Verdict
from taskforge.sandbox import Backend, Environment, Limits, Sandbox, SandboxSpec, TestReport
from taskforge.sandbox.pool import Pool

CORE = "src/calc/core.py"
STUB = "    raise NotImplementedError\n\n\ndef clamp"


def solution(bundle: Bundle) -> str:
    entry = apply(reference_of(bundle), bundle.workspace)[CORE]
    assert entry is not None
    return entry.data.decode()


def submit(bundle: Bundle, source: str, **others: str) -> Submission:
    """A patch that makes ``core.py`` this, and writes other files."""
    before = {CORE: bundle.workspace[CORE]}
    after = {CORE: Entry(source.encode()), **{path: Entry(text.encode()) for path, text in others.items()}}
    before |= {path: bundle.workspace[path] for path in others if path in bundle.workspace}
    return Submission.patch(patch_between(before, after))


def instead(bundle: Bundle, body: str) -> Submission:
    """A patch that gives ``evaluate`` another body."""
    source = bundle.workspace[CORE].data.decode()
    assert STUB in source
    return submit(bundle, source.replace(STUB, body + "\n\n\ndef clamp"))


def seen(verdict: Verdict) -> tuple[str, float]:
    return verdict.outcome, verdict.reward


def test_empty_fails_and_the_reference_is_resolved(evaluate_grader: Grader) -> None:
    assert seen(evaluate_grader.grade(Submission.empty())) == ("failed", 0.0)
    verdict = evaluate_grader.grade(reference_of(evaluate_grader.bundle))
    assert seen(verdict) == ("resolved", 1.0)
    assert {one.outcome for one in verdict.tests} == {"passed"}
    assert {"prepare", "start", "lay", "run", "total"} <= set(verdict.phases)


def test_another_right_answer_is_resolved(evaluate_grader: Grader) -> None:
    body = (
        "    stack = []\n"
        "    table = {'+': lambda a, b: a + b, '-': lambda a, b: a - b, '*': lambda a, b: a * b}\n"
        "    for token in tokens(text):\n"
        "        if token in table:\n"
        "            right = stack.pop()\n"
        "            stack.append(table[token](stack.pop(), right))\n"
        "        else:\n"
        "            stack.append(token)\n"
        "    return stack.pop()"
    )
    assert seen(evaluate_grader.grade(instead(evaluate_grader.bundle, body))) == ("resolved", 1.0)


def test_a_half_right_answer_fails_and_earns_its_share_under_fraction(evaluate_grader: Grader) -> None:
    body = "    left, right, sign = list(tokens(text))\n    return left + right if sign == '+' else left - right"
    submission = instead(evaluate_grader.bundle, body)
    assert seen(evaluate_grader.grade(submission)) == ("failed", 0.0)
    verdict = evaluate_grader.grade(submission, Policy(reward="fraction"))
    assert verdict.outcome == "failed"
    assert verdict.reward == pytest.approx(2 / 3)
    reasons = {one.id: one.reason for one in verdict.tests if one.outcome != "passed"}
    assert list(reasons) == ["tests/test_core.py::test_evaluate[2 3 4 * +-14]"]
    assert "too many values to unpack" in next(iter(reasons.values()))


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("    while '-' in text:\n        pass", "timeout"),
        ("    import os\n    os._exit(0)", "crashed"),
        ("    import sys\n    sys.exit(0)", "failed"),
        ("    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)", "crashed"),
        ("    hoard = [bytearray(1 << 20) for _ in range(2000)]\n    return hoard", "oom"),
        (
            "    block = b'x' * (1 << 20)\n    with open('/tmp/big', 'wb') as out:\n"
            "        while True:\n            out.write(block)\n            out.flush()",
            "disk_full",
        ),
        ("    import pytest\n    pytest.skip('done')", "failed"),
        ("    import pytest\n    pytest.xfail('done')", "failed"),
    ],
)
def test_what_the_submission_does_earns_nothing(body: str, outcome: str, evaluate_grader: Grader) -> None:
    assert seen(evaluate_grader.grade(instead(evaluate_grader.bundle, body))) == (outcome, 0.0)


def test_a_module_that_ends_the_process_at_import_earns_nothing(evaluate_grader: Grader) -> None:
    source = "import os\nos._exit(0)\n" + solution(evaluate_grader.bundle)
    assert seen(evaluate_grader.grade(submit(evaluate_grader.bundle, source))) == ("crashed", 0.0)


def test_a_module_that_cannot_be_imported_names_the_reason(evaluate_grader: Grader) -> None:
    verdict = evaluate_grader.grade(submit(evaluate_grader.bundle, "import no_such_module\n"))
    assert seen(verdict) == ("failed", 0.0)
    assert {one.outcome for one in verdict.tests} == {"missing"}
    assert "No module named 'no_such_module'" in verdict.tests[0].reason


def test_edits_to_tests_and_configuration_are_put_back(evaluate_grader: Grader) -> None:
    bundle = evaluate_grader.bundle
    others = {
        "tests/test_mean.py": "def test_nothing(): pass\n",
        "tests/conftest.py": "collect_ignore_glob = ['*']\n",
        "conftest.py": "import pytest\n\n\ndef pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-k nothing'\n",
    }
    for source, expected in ((solution(bundle), ("resolved", 1.0)), ("def evaluate(text): return 3\n", ("failed", 0.0))):
        verdict = evaluate_grader.grade(submit(bundle, source, **others))
        assert seen(verdict) == expected
        assert set(verdict.restored) == set(others)
    strict = evaluate_grader.grade(submit(bundle, solution(bundle), **others), Policy(strict=True))
    assert seen(strict) == ("patch_rejected", 0.0)


def test_a_patch_that_does_not_apply_is_rejected(evaluate_grader: Grader) -> None:
    verdict = evaluate_grader.grade(Submission.patch(b"--- a/nowhere.py\n+++ b/nowhere.py\n@@ -1 +1 @@\n-a\n+b\n"))
    assert seen(verdict) == ("patch_rejected", 0.0)
    assert "nowhere.py" in verdict.evidence[0]


def test_a_folder_is_a_submission_too(evaluate_grader: Grader, tmp_path: Path) -> None:
    bundle = evaluate_grader.bundle
    tree = bundle.workspace.with_changes(apply(reference_of(bundle), bundle.workspace))
    assert seen(evaluate_grader.grade(Submission.of_tree(tree))) == ("resolved", 1.0)


def test_two_gradings_agree_although_tests_write_to_the_tree(evaluate_grader: Grader) -> None:
    body = "    with open('src/calc/_cache', 'x') as out:\n        out.write('once')\n"
    source = solution(evaluate_grader.bundle) + "\n\ndef remember():\n" + body + "\n\nremember()\n"
    for _attempt in range(2):
        assert seen(evaluate_grader.grade(submit(evaluate_grader.bundle, source))) == ("resolved", 1.0)


class Sabotage:
    """A pool whose sandboxes are killed from outside: real sandboxes, a real SIGKILL."""

    def __init__(self, pool: Pool, victims: int) -> None:
        self.backend, self.pool, self.victims = pool.backend, pool, victims

    def take(self, spec: SandboxSpec) -> Sandbox:
        sandbox = self.pool.take(spec)
        if self.victims > 0:
            self.victims -= 1
            threading.Timer(1.0, sandbox.kill).start()
        return sandbox

    def expect(self, spec: SandboxSpec, count: int = 1) -> None:
        self.pool.expect(spec, count)


@pytest.fixture
def slow(evaluate_bundle: Bundle) -> Submission:
    """The reference, two seconds slower: long enough to be struck."""
    return submit(evaluate_bundle, "import time\ntime.sleep(2)\n" + solution(evaluate_bundle))


@pytest.mark.parametrize(("victims", "outcome"), [(1, "resolved"), (2, "crashed")])
def test_a_lost_sandbox_is_repeated_once_with_a_control(
    victims: int, outcome: str, evaluate_bundle: Bundle, calc_environment: Environment, pool: Pool, slow: Submission
) -> None:
    sabotage = Sabotage(pool, victims)
    grader = Grader(evaluate_bundle, calc_environment, sabotage)  # type: ignore[arg-type]
    verdict = grader.grade(slow)
    assert verdict.outcome == outcome
    assert any("lost once" in line for line in verdict.evidence)


def deepest() -> int:
    """The process furthest below this one: the tests' own, while they run in a sandbox of this host."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(place.read_text().rpartition(")")[2].split()[1]), []).append(int(place.parent.name))
        except OSError:
            continue
    level = [os.getpid()]
    while below := [child for parent in level for child in children.get(parent, ())]:
        level = below
    assert level != [os.getpid()], "no sandbox runs"
    return level[-1]


@pytest.mark.parametrize(("kills", "outcome"), [(1, "resolved"), (2, "crashed")])
def test_a_process_killed_from_outside_costs_an_honest_submission_nothing(
    kills: int, outcome: str, evaluate_bundle: Bundle, calc_environment: Environment, bubblewrap: Backend
) -> None:
    waits = "\n_real = evaluate\ndef evaluate(*a):\n    import time\n    time.sleep(0.5)\n    return _real(*a)\n"

    class Counting(Pool):
        runs = struck = 0

        def take(self, spec: SandboxSpec) -> Sandbox:
            self.runs += 1
            return super().take(spec)

    def on_report(_report: TestReport) -> None:
        # Once in each of the first runs, and in the middle of the next test.
        if pool.struck < min(pool.runs, kills):
            pool.struck += 1
            threading.Timer(0.25, lambda: os.kill(deepest(), signal.SIGKILL)).start()

    with Counting(bubblewrap, size=0) as pool:
        grader = Grader(evaluate_bundle, calc_environment, pool)
        verdict = grader.grade(submit(evaluate_bundle, solution(evaluate_bundle) + waits), on_report=on_report)
    assert pool.struck == kills
    assert verdict.outcome == outcome
    assert any("died once" in line for line in verdict.evidence)


def test_an_interpreter_killed_while_it_warms_is_no_broken_environment(
    evaluate_bundle: Bundle, calc_environment: Environment, bubblewrap: Backend
) -> None:
    with Pool(bubblewrap, size=0) as pool:
        grader = Grader(evaluate_bundle, calc_environment, pool)
        with bubblewrap.start(grader.spec) as sandbox:
            supervisor = deepest()

            def strike() -> None:
                # As soon as it is there: it takes some tenths of a second to import pytest.
                deadline = time.monotonic() + 20
                while (found := deepest()) == supervisor and time.monotonic() < deadline:
                    continue
                os.kill(found, signal.SIGKILL)

            striker = threading.Thread(target=strike)
            striker.start()
            with pytest.raises(SandboxFault) as caught:
                sandbox.warm()
            striker.join()
        assert (caught.value.kind, caught.value.retryable) == ("sandbox_lost", True)
        assert grader.grade(reference_of(evaluate_bundle)).resolved


def test_when_the_control_is_lost_too_there_is_no_verdict(
    evaluate_bundle: Bundle, calc_environment: Environment, pool: Pool, slow: Submission
) -> None:
    class Always(Sabotage):
        def take(self, spec: SandboxSpec) -> Sandbox:
            sandbox = self.pool.take(spec)
            if self.victims <= 0:
                sandbox.close()
            else:
                self.victims -= 1
                threading.Timer(1.0, sandbox.kill).start()
            return sandbox

    grader = Grader(evaluate_bundle, calc_environment, Always(pool, 2))  # type: ignore[arg-type]
    with pytest.raises(Fault) as caught:
        grader.grade(slow)
    assert caught.value.exit_code == 4


def test_a_reference_that_does_not_pass_here_is_a_fault_not_a_score(
    evaluate_bundle: Bundle, calc_environment: Environment, pool: Pool
) -> None:
    # So little memory that nobody's solution could pass: the submission must not pay for it.
    grader = Grader(evaluate_bundle, calc_environment, pool, limits=Limits(memory_mb=24))
    with pytest.raises(Fault):
        grader.grade(reference_of(evaluate_bundle))


def test_a_folder_of_something_else_is_refused_rather_than_taken_for_a_great_deletion(evaluate_grader: Grader) -> None:
    inner = {path.removeprefix("src/calc/"): it for path, it in evaluate_grader.bundle.workspace.items() if "src/" in path}
    for tree in (Tree({}), Tree(inner)):
        verdict = evaluate_grader.grade(Submission.of_tree(tree))
        assert seen(verdict) == ("patch_rejected", 0.0)
        assert "none of the workspace" in verdict.evidence[0]
