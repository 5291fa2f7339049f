"""The flow: acquire, environment, test map, select, then one candidate after the other.

Every result lies on disk before the next step needs it: killed anywhere and run again, it goes on where it was. What is
rejected is recorded with its reason. A fault is not recorded, so that the next run tries again.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from taskforge.corpus.atomic import lock, write_bytes
from taskforge.corpus.bundle import Bundle, json_bytes
from taskforge.corpus.corpus import Corpus
from taskforge.errors import EnvironmentBuildError, Fault, SourceError, StoreFault, TaskRejected
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.candidate import Forge, task_id
from taskforge.generate.progress import Quiet, Stages, Watcher
from taskforge.generate.protect import is_protected, protected_paths
from taskforge.generate.select import select
from taskforge.generate.testmap import build_testmap
from taskforge.languages import Language, SkippedFile, language
from taskforge.model import Candidate, Recipe, Source, Symbol, TestMap, Value, digest_of
from taskforge.sandbox import Backend, Environment, Limits
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from taskforge.version import GRADER_VERSION, __version__

__all__ = ["Options", "Report", "generate"]

log = logging.getLogger("taskforge.generate")

#: Faults in a row after which the machine, not a candidate, is taken to be broken.
MAX_FAULTS = 3


class Options(Value):
    """What to make of a source."""

    mode: Literal["stub"] = "stub"
    max_tasks: int | None = Field(default=None, ge=1)
    seed: int = 0
    jobs: int = Field(default=1, ge=1)
    min_pass: float = Field(default=90.0, ge=0, le=100)
    min_lines: int = Field(default=2, ge=1)
    baseline_runs: int = Field(default=3, ge=1)
    reference_runs: int = Field(default=2, ge=1)
    p2p_seconds: float = Field(default=20.0, ge=0)
    tests_visible: bool = False
    python: str | None = None
    replace: bool = False


class Report(Value):
    """What one source gave, over all its runs so far."""

    source: str
    snapshot: str
    environment: str
    python: str
    tests: int
    stable_tests: int
    symbols: int
    passed_over: dict[str, int]
    skipped_files: dict[str, str]
    candidates: int
    """Eligible candidates; not all are tried when ``--max`` is reached before."""
    tried: int
    tasks: tuple[str, ...]
    rejections: dict[str, int]
    faults: int
    stages: dict[str, dict[str, float]]
    finished: bool


@dataclass(frozen=True)
class _Decision:
    """What became of one candidate."""

    candidate: Candidate
    bundle: Bundle | None
    reason: str = ""
    message: str = ""
    stages: Mapping[str, Mapping[str, float]] | None = None
    known: bool = False
    """Read from the record of an earlier run."""
    task: str = ""


def generate(
    source: Source,
    out: Path,
    options: Options,
    *,
    settings: Settings,
    backend: Backend,
    watch: Watcher | None = None,
) -> Report:
    """Make validated tasks from ``source`` in the corpus ``out``, which may exist and grows.

    Raises:
        SourceError, EnvironmentBuildError, TaskRejected: the source as a whole is of no use; says why.
        Fault: the machinery broke more than now and then.
    """
    corpus = Corpus.create(out, {})
    with lock(out / ".lock"):
        run = _Run(source, corpus, options, settings, backend, watch or Quiet())
        return run.whole()


class _Run:
    def __init__(
        self,
        source: Source,
        corpus: Corpus,
        options: Options,
        settings: Settings,
        backend: Backend,
        watch: Watcher,
    ) -> None:
        self.source, self.corpus, self.options = source, corpus, options
        self.settings, self.backend, self.watch = settings, backend, watch
        self.language: Language = language("python")
        self.limits = Limits(memory_mb=settings.memory_mb, disk_mb=settings.disk_mb, pids=settings.pids)
        self.stages = Stages()
        self.skipped: dict[str, str] = {}
        self.faults = 0

    # -- the stages that a snapshot goes through once ---------------------------------------------------------------

    def whole(self) -> Report:
        self.watch.stage("acquire")
        with self.stages("acquire"):
            snapshot = acquire(
                self.source,
                cache=self.settings.cache_dir,
                index_url=self.settings.index_url,
                timeout=self.settings.network_timeout,
            )
        self.work = self.corpus.path / ".work" / snapshot.digest[:16]
        self.watch.log(f"{self.source}: {len(snapshot.tree)} files, {snapshot.label}")
        self.watch.stage("environment")
        with self.stages("environment"):
            recipe, environment = self._environment(snapshot)
        with Pool(self.backend, size=self.options.jobs) as pool:
            try:
                return self._with_pool(snapshot, recipe, environment, pool)
            except BaseException:
                pool.abort()
                raise

    def _with_pool(self, snapshot: Snapshot, recipe: Recipe, environment: Environment, pool: Pool) -> Report:
        protected = protected_paths(snapshot.tree, self.language)
        test_map = self._testmap(snapshot, environment, pool, protected)
        self.watch.stage("select")
        with self.stages("select"):
            index = self._index(snapshot, protected)
            selection = select(index, test_map, min_lines=self.options.min_lines, seed=self.options.seed)
        if index and not any(path in index for path, _name, _line in test_map.functions):
            raise EnvironmentBuildError(
                "the tests enter no function of the workspace: they import another copy of the project, or none at all",
                hint="look for the project's name in the environment's site-packages, and for what the tests import",
            )
        self.watch.log(
            f"{selection.considered} functions, {len(selection.candidates)} candidates,"
            f" {len(test_map.stable_ids)} of {len(test_map.tests)} tests stable"
        )
        forge = Forge(
            snapshot=snapshot,
            test_map=test_map,
            index=index,
            language=self.language,
            environment=environment,
            pool=pool,
            limits=self.limits,
            seed=self.options.seed,
            tests_visible=self.options.tests_visible,
            p2p_seconds=self.options.p2p_seconds,
            reference_runs=self.options.reference_runs,
        )
        self.corpus.write_recipe(recipe, {"lock.txt": "".join(f"{line}\n" for line in recipe.lock).encode()})
        self.corpus.write_snapshot(snapshot.tree)
        tasks, rejections, tried = self._candidates(forge, selection.candidates)
        report = Report(
            source=str(self.source) if self.source.kind in ("pypi", "git") else snapshot.provenance.name,
            snapshot=snapshot.digest,
            environment=environment.digest,
            python=environment.python,
            tests=len(test_map.tests),
            stable_tests=len(test_map.stable_ids),
            symbols=selection.considered,
            passed_over=dict(selection.passed_over),
            skipped_files=self.skipped,
            candidates=len(selection.candidates),
            tried=tried,
            tasks=tuple(tasks),
            rejections=dict(rejections.most_common()),
            faults=self.faults,
            stages=self.stages.table,
            finished=True,
        )
        folder = self.corpus.path / "sealed" / "reports"
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{snapshot.label}.json", json_bytes(report.model_dump(mode="json")))
        self.corpus.update_counts()
        return report

    def _environment(self, snapshot: Snapshot) -> tuple[Recipe, Environment]:
        key = digest_of([self.options.python])[:12]
        file = self.work / f"recipe-{key}.json"
        if file.exists():
            recipe = Recipe.model_validate_json(file.read_bytes())
            return recipe, environments.ensure(
                recipe, lambda: snapshot.tree, backend=self.backend, cache=self.settings.cache_dir
            )
        recipe, environment = environments.build(
            snapshot,
            backend=self.backend,
            cache=self.settings.cache_dir,
            python=self.options.python,
            log=self.watch.log,
        )
        self._keep(file, recipe.model_dump_json().encode())
        return recipe, environment

    def _testmap(
        self, snapshot: Snapshot, environment: Environment, pool: Pool, protected: tuple[str, ...]
    ) -> TestMap:
        options = self.options
        key = digest_of([environment.digest, options.baseline_runs, options.seed, options.min_pass, GRADER_VERSION])
        file = self.work / f"testmap-{key[:12]}.json"
        if file.exists():
            kept = json.loads(file.read_bytes())
            self.stages.merge({"test map": kept["stage"]})
            return TestMap.model_validate(kept["map"])
        self.watch.stage("test map")
        mine = Stages()
        with mine("test map"):
            test_map = build_testmap(
                snapshot.tree,
                environment,
                pool=pool,
                protected=protected,
                limits=self.limits,
                runs=options.baseline_runs,
                seed=options.seed,
                jobs=options.jobs,
                min_pass=options.min_pass,
                on_report=lambda report: self.watch.step(report.id),
                on_cpu=lambda seconds: mine.add("test map", cpu=seconds),
            )
        kept = {"map": test_map.model_dump(mode="json"), "stage": mine.table["test map"]}
        self._keep(file, json.dumps(kept).encode())
        self.stages.merge(mine.table)
        return test_map

    def _index(self, snapshot: Snapshot, protected: tuple[str, ...]) -> dict[str, list[Symbol]]:
        index: dict[str, list[Symbol]] = {}
        for path, entry in snapshot.tree.items():
            if entry.kind == "link" or not self.language.is_source(path) or is_protected(path, protected):
                continue
            try:
                index[path] = self.language.index(path, entry.data)
            except SkippedFile as skip:
                self.skipped[path] = skip.reason
        return index

    # -- candidates -------------------------------------------------------------------------------------------------

    def _candidates(
        self, forge: Forge, candidates: tuple[Candidate, ...]
    ) -> tuple[list[str], Counter[str], int]:
        """Decide candidates in their order, ``jobs`` at a time; the first ``max_tasks`` good ones in that order win, so
        that the result does not depend on who was faster."""
        tasks: list[str] = []
        rejections: Counter[str] = Counter()
        wanted = self.options.max_tasks or len(candidates)
        self.watch.stage("candidates", len(candidates) if wanted >= len(candidates) else None)
        tried = 0
        for decision in self._decided(forge, candidates):
            tried += 1
            self._record(forge, decision)
            if decision.stages:
                self.stages.merge(decision.stages)
            if decision.bundle is not None or decision.task:
                tasks.append(decision.task)
                self.watch.log(f"task {len(tasks)}: {decision.task}")
            else:
                rejections[decision.reason] += 1
            self.watch.step(f"{len(tasks)} tasks, {sum(rejections.values())} rejected")
            if len(tasks) >= wanted:
                break
        return tasks, rejections, tried

    def _decided(self, forge: Forge, candidates: tuple[Candidate, ...]) -> Iterator[_Decision]:
        threads = ThreadPoolExecutor(max_workers=self.options.jobs, thread_name_prefix="candidate")
        queue: list[Future[_Decision]] = []
        waiting = iter(candidates)
        try:
            while True:
                while len(queue) < self.options.jobs and (one := next(waiting, None)) is not None:
                    queue.append(threads.submit(self._decide, forge, one))
                if not queue:
                    return
                yield queue.pop(0).result()
        except BaseException:
            forge.pool.abort()
            raise
        finally:
            threads.shutdown(wait=True, cancel_futures=True)

    def _decide(self, forge: Forge, candidate: Candidate) -> _Decision:
        known = self._known(forge, candidate)
        if known is not None:
            return known
        stages = Stages()
        for attempt in (1, 2):
            try:
                bundle = forge.make(candidate, stages)
            except TaskRejected as rejection:
                return _Decision(candidate, None, rejection.reason, str(rejection), stages.table)
            except StoreFault:
                raise
            except Fault as fault:
                if forge.pool.closed:
                    # The command is being interrupted: this is no fault, and nobody waits for the decision.
                    raise
                log.warning("fault at %s, attempt %d: %s", candidate.name, attempt, fault)
                if attempt == 2 or not fault.retryable:
                    self.faults += 1
                    if self.faults >= MAX_FAULTS:
                        raise
                    return _Decision(candidate, None, "fault", str(fault), stages.table)
            else:
                self.faults = 0
                return _Decision(candidate, bundle, stages=stages.table, task=bundle.card.id)
        raise AssertionError("unreachable")

    # -- the record -------------------------------------------------------------------------------------------------

    def _file(self, forge: Forge, candidate: Candidate) -> Path:
        options = self.options
        keys = [symbol.key for symbol in candidate.symbols]
        settings = [
            options.tests_visible, options.p2p_seconds, options.reference_runs, options.seed, options.min_pass,
            options.baseline_runs, self.limits.memory_mb, self.limits.disk_mb, self.limits.pids,
            forge.environment.digest, GRADER_VERSION, __version__,
        ]  # fmt: skip
        return self.work / "candidates" / f"{digest_of([candidate.mode, keys, settings])[:32]}.json"

    def _known(self, forge: Forge, candidate: Candidate) -> _Decision | None:
        file = self._file(forge, candidate)
        if not file.exists():
            return None
        kept: dict[str, Any] = json.loads(file.read_bytes())
        name = kept.get("task", "")
        if name and (name not in self.corpus.task_ids() or self.options.replace):
            return None
        return _Decision(
            candidate, None, kept["reason"], kept["message"], kept["stages"], known=True, task=name
        )

    def _record(self, forge: Forge, decision: _Decision) -> None:
        if decision.known or decision.reason == "fault":
            return
        if decision.bundle is not None:
            self.corpus.write(decision.bundle, replace=self.options.replace)
        content = {
            "candidate": task_id(forge.snapshot, decision.candidate),
            "feature": [symbol.key for symbol in decision.candidate.symbols],
            "task": decision.task,
            "reason": decision.reason,
            "message": decision.message,
            "stages": decision.stages,
        }
        self._keep(self._file(forge, decision.candidate), json_bytes(content))

    def _keep(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, data)


def snapshot_of(corpus: Corpus, bundle: Bundle) -> Any:
    """The tree that a task was made from.

    Raises:
        SourceError: when the corpus does not hold it, as on a host that only grades.
    """
    digest = bundle.reports.get("snapshot", "")
    if not digest:
        raise SourceError(f"{bundle.card.id} does not name its snapshot", hint="fetch the whole sealed half")
    return corpus.snapshot(digest)
