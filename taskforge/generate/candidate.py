"""From one candidate to one proven, sealed task: remove, validate, seal, search for leaks, state, prove by grading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from taskforge.corpus.bundle import Bundle
from taskforge.errors import TaskRejected
from taskforge.generate.acquire import Snapshot
from taskforge.generate.assemble import Made, assemble, task_id
from taskforge.generate.leaks import LeakReport, search
from taskforge.generate.options import Options
from taskforge.generate.progress import Stages
from taskforge.generate.protect import is_protected, protected_paths
from taskforge.generate.remove import Removal, remove
from taskforge.generate.seal import Sealed, seal
from taskforge.generate.statement import Statement, describe
from taskforge.generate.statement_llm import Author
from taskforge.generate.trivial import refuse_trivial
from taskforge.generate.validate import Effect, prove, prove_effect
from taskforge.generate.validate_collection import Pins
from taskforge.generate.validate_imports import Imports
from taskforge.generate.validate_visible import seal_proven
from taskforge.languages import Language, Project
from taskforge.model import Candidate, TestMap
from taskforge.model.base import canonical_json
from taskforge.sandbox import Environment, Limits
from taskforge.sandbox.pool import Pool

__all__ = ["Forge", "task_id"]


@dataclass(frozen=True, kw_only=True)
class Forge:
    """Everything that the candidates of one snapshot share."""

    snapshot: Snapshot
    test_map: TestMap
    project: Project
    language: Language
    environment: Environment
    pool: Pool
    limits: Limits
    options: Options
    imports: Imports | None = None
    """Modules that could be imported before; without it none is asked for."""
    near: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Unit key -> keys of its near-copies."""
    author: Author | None = None
    """Who writes statements, if not the template alone."""

    @property
    def protected(self) -> tuple[str, ...]:
        return protected_paths(self.snapshot.tree, self.language)

    @cached_property
    def running(self) -> frozenset[str]:
        """Keys of functions that were seen to run while modules were imported."""
        functions = self.test_map.functions
        return frozenset(f"{functions[it][0]}::{functions[it][1]}" for it in self.test_map.unattributed)

    @cached_property
    def pins(self) -> Pins:
        return Pins(self.project, self.test_map)

    def stays(self, candidate: Candidate) -> bool:
        """Whether all of a removal would stay as stubs: mode ``stub`` makes that task."""
        if candidate.mode == "stub" or not self.pins.of(candidate.tests).keys() & set(candidate.units):
            return False
        try:
            self._remove(candidate)
        except TaskRejected as rejection:
            return rejection.reason == "only_stubs"
        return False

    def make(self, candidate: Candidate, stages: Stages) -> Bundle:
        """A task, proven.

        Raises:
            TaskRejected: when the candidate does not make one; the reason is for the record.
            Fault: when the machinery broke.
        """
        protected, options = self.protected, self.options
        if any(is_protected(symbol.path, protected) for symbol in candidate.symbols):
            raise TaskRejected("protected_path", f"{candidate.name} lies among tests or their configuration")
        with stages("remove"):
            removal = self._remove(candidate)
        self._refuse_early(candidate, removal, protected, stages)
        with stages("validate"):
            effect = prove_effect(
                candidate,
                removal.tree,
                self.test_map,
                imports=self.imports,
                stage=lambda _name, cpu: stages.add("validate", cpu=cpu),
                environment=self.environment,
                pool=self.pool,
                protected=protected,
                limits=self.limits,
            )
        trivial = self._try_trivial(candidate, removal, effect, protected, stages)
        with stages("seal"):
            sealed, hiding = self._seal(removal, effect, protected, stages)
        with stages("statement"):
            said = self._describe(candidate, removal, sealed, effect, protected)
        with stages("bundle"):
            bundle = assemble(
                candidate,
                Made(
                    removal=removal, effect=effect, sealed=sealed, statement=said, trivial=trivial, hiding=hiding,
                    sibling=self._siblings_left(candidate, removal),
                ),
                snapshot=self.snapshot,
                test_map=self.test_map,
                project=self.project,
                environment=self.environment,
                protected=protected,
                options=options,
            )  # fmt: skip
        with stages("leaks"):
            report = self._search(bundle, removal)
        with stages("grade"):
            proof = prove(
                bundle,
                environment=self.environment,
                pool=self.pool,
                limits=self.limits,
                runs=options.reference_runs,
            )
        cpu = proof.pop("cpu_seconds")
        assert isinstance(cpu, float)
        stages.add("grade", cpu=cpu)
        reports = {**bundle.reports, "leaks": report.model_dump(mode="json"), "proof": proof}
        return Bundle(**{**bundle.__dict__, "reports": reports})

    def _remove(self, candidate: Candidate) -> Removal:
        removal = remove(
            self.snapshot.tree,
            candidate,
            self.language,
            project=self.project,
            pinned={} if candidate.mode == "stub" else self.pins.of(candidate.tests),
            running=self.running,
            keep_docstrings=self.options.keep_docstrings,
        )
        plan = removal.plan
        gone = plan is None or plan.deleted or plan.joined or None in removal.changes.values()
        if candidate.mode != "stub" and plan is not None and not gone:
            why = next(iter(plan.stubbed.values()), "")
            raise TaskRejected("only_stubs", f"all of {candidate.name} would stay as stubs, as mode stub has it: {why}")
        return removal

    def _refuse_early(
        self, candidate: Candidate, removal: Removal, protected: tuple[str, ...], stages: Stages
    ) -> None:
        """What reading alone can tell, before anything is run: all of it is looked at once more when sealed."""
        with stages("statement"):
            describe(
                candidate, self.snapshot.tree, removal.tree,
                removed=removal.removed, why_stub=_why_stub(removal), tests_visible=self.options.tests_visible,
            )  # fmt: skip
        with stages("leaks"):
            product = {path: it.data for path, it in removal.tree.items() if not is_protected(path, protected)}
            _refuse_leak(search(removal.removed, product))

    def _try_trivial(
        self, candidate: Candidate, removal: Removal, effect: Effect, protected: tuple[str, ...], stages: Stages
    ) -> Mapping[str, object]:
        with stages("trivial"):
            tried = refuse_trivial(
                candidate,
                self.snapshot.tree,
                removal.tree,
                effect.fail_to_pass,
                self.test_map,
                language=self.language,
                environment=self.environment,
                pool=self.pool,
                protected=protected,
                limits=self.limits,
            )
        cpu = tried["cpu_seconds"]
        assert isinstance(cpu, float)
        stages.add("trivial", cpu=cpu)
        return tried

    def _seal(
        self, removal: Removal, effect: Effect, protected: tuple[str, ...], stages: Stages
    ) -> tuple[Sealed, dict[str, object]]:
        if self.options.tests_visible:
            return seal(removal.tree, []), {}
        visible = seal_proven(
            removal.tree,
            removal.tree.changes_to(self.snapshot.tree),
            self.test_map,
            effect,
            language=self.language,
            project=self.project,
            environment=self.environment,
            pool=self.pool,
            protected=protected,
            limits=self.limits,
            seconds=self.options.p2p_seconds,
        )
        stages.add("seal", cpu=visible.cpu_seconds)
        return visible.sealed, visible.report()

    def _describe(
        self,
        candidate: Candidate,
        removal: Removal,
        sealed: Sealed,
        effect: Effect,
        protected: tuple[str, ...],
    ) -> Statement:
        visible = self.options.tests_visible
        hidden = {path: it.data for path, it in sealed.hidden.items() if it.kind != "link"}
        said = describe(
            candidate,
            self.snapshot.tree,
            sealed.workspace,
            removed=removal.removed,
            hidden={} if visible else {path: data for path, data in hidden.items() if is_protected(path, protected)},
            required=effect.fail_to_pass,
            why_stub=_why_stub(removal),
            tests_visible=visible,
        )
        return self.author.write(said, removal.removed, name=candidate.name) if self.author is not None else said

    def _siblings_left(self, candidate: Candidate, removal: Removal) -> tuple[str, ...]:
        """Near-copies of what was taken out that a solver still has."""
        gone = {*candidate.units, *(removal.plan.joined if removal.plan is not None else ())}
        return tuple(sorted({key for unit in candidate.units for key in self.near.get(unit, ()) if key not in gone}))

    def _search(self, bundle: Bundle, removal: Removal) -> LeakReport:
        public = {path: entry.data for path, entry in bundle.workspace.items()}
        # What a build has written is made of the untouched source, and laid over every workspace.
        public.update({f"overlay/{path}": entry.data for path, entry in self.environment.overlay.items()})
        public["statement.md"] = bundle.statement.encode("utf-8", "surrogateescape")
        public["task.json"] = canonical_json(bundle.card.model_dump(mode="json"))
        return _refuse_leak(search(removal.removed, public))


def _why_stub(removal: Removal) -> Mapping[str, str]:
    return removal.plan.stubbed if removal.plan is not None else {}


def _refuse_leak(report: LeakReport) -> LeakReport:
    if report.leaked:
        hit = report.hits[0]
        raise TaskRejected("leak", f"{hit.where} holds the removed body of {hit.key}, or nearly")
    return report
