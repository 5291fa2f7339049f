"""From one candidate to one proven, sealed task: remove, validate, seal, search for leaks, state, prove by grading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskforge.corpus.bundle import Bundle
from taskforge.errors import TaskRejected
from taskforge.generate.acquire import Snapshot
from taskforge.generate.choose import choose_pass_to_pass
from taskforge.generate.leaks import LeakReport, search
from taskforge.generate.patches import patch_between
from taskforge.generate.progress import Stages
from taskforge.generate.protect import is_protected, protected_paths
from taskforge.generate.remove import Removal, remove
from taskforge.generate.seal import Sealed, seal
from taskforge.generate.statement import lines_of_body_in, statement
from taskforge.generate.validate import Effect, prove, prove_effect
from taskforge.languages import Language
from taskforge.model import Candidate, Metrics, Symbol, TaskCard, TaskTests, TestMap, digest_of
from taskforge.model.base import canonical_json
from taskforge.sandbox import Environment, Limits
from taskforge.sandbox.platforms import here
from taskforge.sandbox.pool import Pool
from taskforge.version import __version__

__all__ = ["Forge", "task_id"]


def task_id(snapshot: Snapshot, candidate: Candidate) -> str:
    """``<owner>__<name>-<commit8>.<mode>-<feature slug>-<hash6>``: the same on every run with the same input."""
    slug = re.sub(r"[^a-z0-9]+", "-", candidate.name.lower()).strip("-")[:40].strip("-") or "feature"
    keys = [symbol.key for symbol in candidate.symbols]
    tail = digest_of([snapshot.digest, candidate.mode, keys])[:6]
    return f"{snapshot.label}.{candidate.mode}-{slug}-{tail}"


@dataclass(frozen=True, kw_only=True)
class Forge:
    """Everything that the candidates of one snapshot share."""

    snapshot: Snapshot
    test_map: TestMap
    index: Mapping[str, Sequence[Symbol]]
    language: Language
    environment: Environment
    pool: Pool
    limits: Limits
    seed: int
    tests_visible: bool
    p2p_seconds: float
    reference_runs: int

    @property
    def protected(self) -> tuple[str, ...]:
        return protected_paths(self.snapshot.tree, self.language)

    def make(self, candidate: Candidate, stages: Stages) -> Bundle:
        """A task, proven.

        Raises:
            TaskRejected: when the candidate does not make one; the reason is for the record.
            Fault: when the machinery broke.
        """
        protected = self.protected
        if any(is_protected(symbol.path, protected) for symbol in candidate.symbols):
            raise TaskRejected("protected_path", f"{candidate.name} lies among tests or their configuration")
        with stages("remove"):
            removal = remove(self.snapshot.tree, candidate, self.language)
        self._refuse_early(candidate, removal, protected, stages)
        with stages("validate"):
            effect = prove_effect(
                candidate,
                removal.tree,
                self.test_map,
                environment=self.environment,
                pool=self.pool,
                protected=protected,
                limits=self.limits,
                stage=lambda _name, cpu: stages.add("validate", cpu=cpu),
            )
        with stages("seal"):
            sealed = seal(removal.tree, self._hidden(effect))
        with stages("statement"):
            text = self._statement(candidate, removal, sealed)
        with stages("bundle"):
            bundle = self._bundle(candidate, removal, effect, sealed, text, protected)
        with stages("leaks"):
            report = self._search(bundle, removal)
        with stages("grade"):
            proof = prove(
                bundle,
                environment=self.environment,
                pool=self.pool,
                limits=self.limits,
                runs=self.reference_runs,
            )
        cpu = proof.pop("cpu_seconds")
        assert isinstance(cpu, float)
        stages.add("grade", cpu=cpu)
        reports = {**bundle.reports, "leaks": report.model_dump(mode="json"), "proof": proof}
        return Bundle(**{**bundle.__dict__, "reports": reports})

    def _refuse_early(
        self, candidate: Candidate, removal: Removal, protected: tuple[str, ...], stages: Stages
    ) -> None:
        """What reading alone can tell, before anything is run: all of it is looked at once more when sealed."""
        with stages("statement"):
            statement(candidate, self.snapshot.tree, removal.tree, self.index, tests_visible=self.tests_visible)
        with stages("leaks"):
            product = {path: it.data for path, it in removal.tree.items() if not is_protected(path, protected)}
            _refuse_leak(search(removal.removed, product))

    def _hidden(self, effect: Effect) -> list[str]:
        if self.tests_visible:
            return []
        records = {record.id: record for record in self.test_map.tests}
        files = sorted({records[name].file for name in effect.fail_to_pass})
        for file in files:
            if file not in self.snapshot.tree or not self.language.is_test_path(file):
                raise TaskRejected("tests_inseparable", f"{file} holds tests and is no test file: it cannot be hidden")
        return files

    def _statement(self, candidate: Candidate, removal: Removal, sealed: Sealed) -> str:
        text = statement(
            candidate, self.snapshot.tree, sealed.workspace, self.index, tests_visible=self.tests_visible
        )
        told = lines_of_body_in(text, removal.removed)
        if told:
            raise TaskRejected("statement_tells", f"the statement holds a line of the removed body: {told[0]!r}")
        return text

    def _search(self, bundle: Bundle, removal: Removal) -> LeakReport:
        public = {path: entry.data for path, entry in bundle.workspace.items()}
        # What a build has written is made of the untouched source, and laid over every workspace.
        public.update({f"overlay/{path}": entry.data for path, entry in self.environment.overlay.items()})
        public["statement.md"] = bundle.statement.encode("utf-8", "surrogateescape")
        public["task.json"] = canonical_json(bundle.card.model_dump(mode="json"))
        return _refuse_leak(search(removal.removed, public))

    def _bundle(
        self,
        candidate: Candidate,
        removal: Removal,
        effect: Effect,
        sealed: Sealed,
        text: str,
        protected: tuple[str, ...],
    ) -> Bundle:
        original = {path: self.snapshot.tree[path] for path in removal.changes}
        deleted = {path: entry for path, entry in removal.changes.items() if entry is not None}
        records = {record.id: record for record in self.test_map.tests}
        required = (*effect.fail_to_pass, *effect.pass_to_pass)
        symbols = candidate.symbols
        tests = TaskTests(
            fail_to_pass=effect.fail_to_pass,
            pass_to_pass=effect.pass_to_pass,
            graded=choose_pass_to_pass(
                candidate, set(effect.pass_to_pass), self.test_map, seconds=self.p2p_seconds, seed=self.seed
            ),
            files={name: records[name].file for name in required},
            seconds={name: round(records[name].seconds, 4) for name in required},
            protected=protected,
        )
        card = TaskCard(
            id=task_id(self.snapshot, candidate),
            digest="",
            mode=candidate.mode,
            feature=tuple(f"{symbol.path}::{symbol.qualname}" for symbol in symbols),
            environment=self.environment.digest,
            platform=here(),
            image=self.environment.image.digest if self.environment.image is not None else "",
            workspace=sealed.workspace.digest,
            tests_visible=self.tests_visible,
            provenance=self.snapshot.provenance,
            metrics=Metrics(
                lines=sum(symbol.body_lines for symbol in symbols),
                files=len({symbol.path for symbol in symbols}),
                symbols=len(symbols),
                complexity=sum(symbol.complexity for symbol in symbols),
                fail_to_pass=len(effect.fail_to_pass),
                pass_to_pass=len(effect.pass_to_pass),
            ),
            generator=__version__,
        )
        reports = {
            "snapshot": self.snapshot.digest,
            "removal": {"symbols": [symbol.key for symbol in symbols], "dropped": list(sealed.dropped)},
            "validation": {"causes": effect.causes, "left_out": list(effect.left_out)},
        }
        return Bundle(
            card=card,
            statement=text,
            workspace=sealed.workspace,
            tests=tests,
            hidden=sealed.hidden,
            reference_patch=patch_between(deleted, original),
            removal_patch=patch_between(original, deleted),
            reports=reports,
        )


def _refuse_leak(report: LeakReport) -> LeakReport:
    if report.leaked:
        hit = report.hits[0]
        raise TaskRejected("leak", f"{hit.where} holds the removed body of {hit.key}, or nearly")
    return report
