"""The flow: acquire, environment, test map, select, then one candidate after the other.

Every result lies on disk before the next step needs it: killed anywhere and run again, it goes on where it was. What is
rejected is recorded with its reason. A fault is not recorded, so that the next run tries again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from taskforge.corpus.atomic import lock, write_bytes
from taskforge.corpus.bundle import json_bytes
from taskforge.corpus.corpus import Corpus
from taskforge.errors import Fault, StoreFault, TaskRejected
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.asserts import asserting
from taskforge.generate.candidate import Forge
from taskforge.generate.environment_dockerfile import environment_files
from taskforge.generate.environment_image import write_pin
from taskforge.generate.options import Options, Report
from taskforge.generate.prepare import Prepare, Prepared
from taskforge.generate.progress import Quiet, Stages, Watcher
from taskforge.generate.record import Decision, Record
from taskforge.generate.select import select
from taskforge.generate.siblings import siblings
from taskforge.generate.statement_llm import Author, Endpoint
from taskforge.generate.twins import Twins, code_of_patch
from taskforge.languages import Language, language
from taskforge.model import Candidate, Source
from taskforge.sandbox import Backend, Limits
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings

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
        prepare = Prepare(
            corpus=self.corpus, snapshot=snapshot, record=self.record, options=self.options, settings=self.settings,
            backend=self.backend, watch=self.watch, stages=self.stages, language=self.language, limits=self.limits,
        )  # fmt: skip
        self.watch.stage("environment")
        with self.stages("environment"):
            recipe, environment = prepare.environment()
        with Pool(self.backend, size=self.options.jobs) as pool:
            try:
                return self._with_pool(snapshot, prepare.rest(recipe, environment, pool), pool)
            except BaseException:
                pool.abort()
                raise

    def _with_pool(self, snapshot: Snapshot, known: Prepared, pool: Pool) -> Report:
        environment, test_map, units = known.environment, known.test_map, known.project.units
        self.watch.stage("select")
        with self.stages("select"):
            sources = {path: entry.data for path, entry in snapshot.tree.items()}
            forge = self._forge(snapshot, known, pool, siblings(units, sources))
            selection = select(
                units, test_map, self.options.wanted,
                near=forge.near, stays=forge.stays, asserting=asserting(snapshot.tree, test_map),
            )  # fmt: skip
        self.watch.log(
            f"{selection.considered} functions and classes, {len(selection.candidates)} candidates,"
            f" {len(test_map.stable_ids)} of {len(test_map.tests)} tests stable"
        )
        self.corpus.write_recipe(known.recipe, environment_files(known.recipe, environment, snapshot.tree))
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
            entered=selection.entered,
            passed_over=dict(selection.passed_over),
            skipped_files=known.skipped,
            candidates=len(selection.candidates),
            eligible=dict(Counter(candidate.mode for candidate in selection.candidates)),
            tried=sum(tried.values()),
            tried_by_mode=dict(tried),
            tasks=tuple(name for name, _mode in tasks),
            tasks_by_mode=dict(Counter(mode for _name, mode in tasks)),
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

    def _forge(self, snapshot: Snapshot, known: Prepared, pool: Pool, near: Mapping[str, Sequence[str]]) -> Forge:
        return Forge(
            snapshot=snapshot,
            test_map=known.test_map,
            project=known.project,
            language=self.language,
            environment=known.environment,
            pool=pool,
            limits=self.limits,
            options=self.options,
            imports=known.imports,
            near=near,
            author=Author(Endpoint.of(self.settings)) if self.options.statement == "llm" else None,
        )

    # -- candidates -------------------------------------------------------------------------------------------------

    def _candidates(
        self, forge: Forge, candidates: tuple[Candidate, ...]
    ) -> tuple[list[tuple[str, str]], list[dict[str, str]], Counter[str]]:
        """Decide candidates in their order, ``jobs`` at a time; the first ``max_tasks`` good ones in that order win, so
        that the result does not depend on who was faster.

        Returns tasks with their modes, rejections, and how many were tried by mode.
        """
        tasks: list[tuple[str, str]] = []
        rejected: list[dict[str, str]] = []
        wanted = self.options.max_tasks or len(candidates)
        twins = Twins.of(self.corpus)
        self.watch.stage("candidates", len(candidates) if wanted >= len(candidates) else None)
        tried: Counter[str] = Counter()
        for found in self._decided(forge, candidates):
            decision = self._apart(found, twins)
            mode = decision.candidate.mode
            tried[mode] += 1
            if decision.reason != "fault":
                self.record.decide(forge, decision)
            self.stages.merge(decision.stages)
            if decision.task:
                tasks.append((decision.task, mode))
                self.watch.log(f"task {len(tasks)}: {decision.task}")
            else:
                feature = ", ".join(
                    decision.candidate.units or (f"{it.path}::{it.qualname}" for it in decision.candidate.symbols)
                )
                row = {"feature": feature, "mode": mode, "reason": decision.reason, "message": decision.message}
                rejected.append(row)
                self.watch.log(f"rejected: {decision.reason}: {decision.message}")
            self.watch.step(f"{len(tasks)} tasks, {len(rejected)} rejected")
            if len(tasks) >= wanted:
                break
        return tasks, rejected, tried

    def _apart(self, decision: Decision, twins: Twins) -> Decision:
        """The decision, unless an earlier task of the corpus asks for nearly the same code."""
        bundle = decision.bundle
        if bundle is None:
            return decision
        code = code_of_patch(bundle.reference_patch)
        twin = twins.find(bundle.card.mode, code)
        if twin and twin != bundle.card.id:
            if not self.options.keep_twins:
                said = f"{decision.candidate.name} is nearly the code that {twin} asks for"
                return replace(decision, bundle=None, task="", reason="near_twin", message=said)
            card = bundle.card.model_copy(update={"twin_of": twin})
            decision = replace(decision, bundle=replace(bundle, card=card))
        twins.add(bundle.card.id, bundle.card.mode, code)
        return decision

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
