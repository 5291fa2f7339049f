"""The same task gets the same verdict in both sandboxes, and a corpus can be made with docker alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from taskforge.corpus import Corpus
from taskforge.generate.pipeline import Options, generate
from taskforge.grade import Grader, Submission
from taskforge.grade.grading import reference_of
from taskforge.model import Policy, Source
from taskforge.sandbox import Backend, Environment, backend
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings

REPO = Path(__file__).parents[1] / "repos" / "calc"


@pytest.fixture(scope="module")
def docker() -> Backend:
    return backend("docker")


def run(out: Path, cache: Path, chosen: Backend) -> list[str]:
    options = Options(jobs=2, baseline_runs=2, max_tasks=2, seed=1)
    return list(generate(Source.parse(str(REPO)), out, options, settings=Settings(cache_dir=cache), backend=chosen).tasks)


def test_docker_alone_makes_the_same_tasks(
    docker: Backend, bubblewrap: Backend, cache: Path, tmp_path: Path
) -> None:
    # A cache of its own: the environment's build runs in a container as well.
    names = run(tmp_path / "docker", tmp_path / "cache", docker)
    assert len(names) == 2
    assert names == run(tmp_path / "bubblewrap", cache, bubblewrap)
    one, two = Corpus.open(tmp_path / "docker"), Corpus.open(tmp_path / "bubblewrap")
    for name in names:
        assert one.card(name).environment == two.card(name).environment
        assert one.card(name).workspace == two.card(name).workspace
        assert one.tests(name).fail_to_pass == two.tests(name).fail_to_pass
        assert one.tests(name).pass_to_pass == two.tests(name).pass_to_pass


def facts(verdict: Any) -> dict[str, Any]:
    """All of a verdict but times, the sandbox's name, and where objects lay in memory."""
    told = verdict.model_dump(mode="json")
    for name in ("phases", "sandbox"):
        told.pop(name)
    for test in told["tests"]:
        test.pop("seconds", None)
        test["reason"] = re.sub(r"0x[0-9a-f]+", "0x", test["reason"])
    return told


def test_the_same_verdict_in_both(
    docker: Backend, bubblewrap: Backend, calc_environment: Environment, cache: Path, tmp_path: Path
) -> None:
    names = run(tmp_path / "corpus", cache, bubblewrap)
    corpus = Corpus.open(tmp_path / "corpus")
    with Pool(docker, size=1) as in_docker, Pool(bubblewrap, size=1) as in_bubblewrap:
        for name in names:
            bundle = corpus.bundle(name)
            wrong = bundle.reference_patch.replace(b"return", b"raise", 1)
            for submission in (Submission.empty(), reference_of(bundle), Submission.patch(wrong)):
                one, two = (
                    Grader(bundle, calc_environment, pool).grade(submission, Policy(full=True, reward="fraction"))
                    for pool in (in_docker, in_bubblewrap)
                )
                assert facts(one) == facts(two)
                assert (one.sandbox, two.sandbox) == ("docker", "bubblewrap")
