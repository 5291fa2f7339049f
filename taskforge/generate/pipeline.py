"""The flow: acquire, environment, test map, select, then one candidate after the other.

Every result lies on disk before the next step needs it: killed anywhere and run again, it goes on where it was. What is
rejected is recorded with its reason. A fault is not recorded, so that the next run tries again.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from taskforge.corpus.atomic import lock, write_bytes
from taskforge.corpus.bundle import json_bytes
from taskforge.corpus.corpus import Corpus
from taskforge.errors import EnvironmentBuildError, Fault, StoreFault, TaskRejected
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.candidate import Forge
from taskforge.generate.environment_copies import files_in_environment, refuse_copy
from taskforge.generate.environment_dockerfile import environment_files
from taskforge.generate.environment_image import pinned, write_pin
from taskforge.generate.options import Options, Report
from taskforge.generate.product import Index, index_product
from taskforge.generate.progress import Quiet, Stages, Watcher
from taskforge.generate.protect import protected_paths
from taskforge.generate.record import Decision, Record
from taskforge.generate.select import select
from taskforge.generate.testmap import build_testmap
from taskforge.languages import Language, language
from taskforge.model import Candidate, Recipe, Source, TestMap, digest_of
from taskforge.sandbox import Backend, Environment, Limits
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from taskforge.version import GRADER_VERSION

__all__ = ["Options", "Report", "generate"]

log = logging.getLogger("taskforge.generate")

#: Faults in a row after which the machine, not a candidate, is taken to be broken.
MAX_FAULTS = 3


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
        self.faults = self.faults_in_a_row = 0

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
        self.record = Record(self.corpus, self.corpus.path / ".work" / snapshot.digest[:16], self.options)
        self.watch.log(f"{self.source}: {len(snapshot.tree)} files, {snapshot.label}")
        self.watch.stage("environment")
        with self.stages("environment"):
            recipe, environment = pinned(self.corpus, self.backend, *self._environment(snapshot))
        with Pool(self.backend, size=self.options.jobs) as pool:
            try:
                return self._with_pool(snapshot, recipe, environment, pool)
            except BaseException:
                pool.abort()
                raise

    def _with_pool(self, snapshot: Snapshot, recipe: Recipe, environment: Environment, pool: Pool) -> Report:
        protected = protected_paths(snapshot.tree, self.language)
        with self.stages("select"):
            index = self._index(snapshot, protected, environment)
        test_map = self._testmap(snapshot, environment, pool, protected)
        self.watch.stage("select")
        with self.stages("select"):
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
        self.corpus.write_recipe(recipe, environment_files(recipe, environment, snapshot.tree))
        write_pin(self.corpus, environment)
        self.corpus.write_snapshot(snapshot.tree)
        tasks, rejected, tried = self._candidates(forge, selection.candidates)
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
            rejections=dict(Counter(one["reason"] for one in rejected).most_common()),
            rejected=tuple(rejected),
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
        name = f"recipe-{key}.json"
        if (data := self.record.kept(name)) is not None:
            recipe = Recipe.model_validate_json(data)
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
        self.record.keep(name, recipe.model_dump_json().encode())
        return recipe, environment

    def _testmap(
        self, snapshot: Snapshot, environment: Environment, pool: Pool, protected: tuple[str, ...]
    ) -> TestMap:
        options = self.options
        key = digest_of([environment.digest, options.baseline_runs, options.seed, options.min_pass, GRADER_VERSION])
        name = f"testmap-{key[:12]}.json"
        if (data := self.record.kept(name)) is not None:
            kept = json.loads(data)
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
        self.record.keep(name, json.dumps(kept).encode())
        self.stages.merge(mine.table)
        return test_map

    def _index(self, snapshot: Snapshot, protected: tuple[str, ...], environment: Environment) -> Index:
        index, self.skipped = index_product(snapshot.tree, self.language, protected)
        defining = [path for path, symbols in index.items() if symbols]
        refuse_copy(defining, snapshot.tree, environment)
        for path in files_in_environment(defining, snapshot.tree, environment):
            self.skipped[path] = "in_environment"
            del index[path]
        return index

    # -- candidates -------------------------------------------------------------------------------------------------

    def _candidates(
        self, forge: Forge, candidates: tuple[Candidate, ...]
    ) -> tuple[list[str], list[dict[str, str]], int]:
        """Decide candidates in their order, ``jobs`` at a time; the first ``max_tasks`` good ones in that order win, so
        that the result does not depend on who was faster."""
        tasks: list[str] = []
        rejected: list[dict[str, str]] = []
        wanted = self.options.max_tasks or len(candidates)
        self.watch.stage("candidates", len(candidates) if wanted >= len(candidates) else None)
        tried = 0
        for decision in self._decided(forge, candidates):
            tried += 1
            if decision.reason != "fault":
                self.record.decide(forge, decision)
            self.stages.merge(decision.stages)
            if decision.task:
                tasks.append(decision.task)
                self.watch.log(f"task {len(tasks)}: {decision.task}")
            else:
                feature = ", ".join(f"{it.path}::{it.qualname}" for it in decision.candidate.symbols)
                rejected.append({"feature": feature, "reason": decision.reason, "message": decision.message})
                self.watch.log(f"rejected: {decision.reason}: {decision.message}")
            self.watch.step(f"{len(tasks)} tasks, {len(rejected)} rejected")
            if len(tasks) >= wanted:
                break
        return tasks, rejected, tried

    def _decided(self, forge: Forge, candidates: tuple[Candidate, ...]) -> Iterator[Decision]:
        threads = ThreadPoolExecutor(max_workers=self.options.jobs, thread_name_prefix="candidate")
        queue: list[Future[Decision]] = []
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

    def _decide(self, forge: Forge, candidate: Candidate) -> Decision:
        known = self.record.known(forge, candidate)
        if known is not None:
            return known
        stages = Stages()
        for attempt in (1, 2):
            try:
                bundle = forge.make(candidate, stages)
            except TaskRejected as rejection:
                return Decision(
                    candidate=candidate, reason=rejection.reason, message=str(rejection), stages=stages.table
                )
            except StoreFault:
                raise
            except Fault as fault:
                if forge.pool.closed:
                    # The command is being interrupted: this is no fault, and nobody waits for the decision.
                    raise
                log.warning("fault at %s, attempt %d: %s", candidate.name, attempt, fault)
                if attempt == 2 or not fault.retryable:
                    self.faults += 1
                    self.faults_in_a_row += 1
                    if self.faults_in_a_row >= MAX_FAULTS:
                        raise
                    return Decision(candidate=candidate, reason="fault", message=str(fault), stages=stages.table)
            else:
                self.faults_in_a_row = 0
                return Decision(candidate=candidate, bundle=bundle, task=bundle.card.id, stages=stages.table)
        raise AssertionError("unreachable")
