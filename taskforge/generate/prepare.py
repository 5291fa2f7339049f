"""The stages that a snapshot goes through once: environment, graph of its code, test map, what can be imported.

Every result lies on disk before the next stage needs it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, TypeVar

from taskforge.corpus.corpus import Corpus
from taskforge.errors import EnvironmentBuildError
from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot
from taskforge.generate.environment_copies import files_in_environment, refuse_copy
from taskforge.generate.environment_image import pinned
from taskforge.generate.options import Options
from taskforge.generate.product import defining_files, product
from taskforge.generate.progress import Stages, Watcher
from taskforge.generate.protect import protected_paths
from taskforge.generate.record import Record
from taskforge.generate.remove import project_files
from taskforge.generate.testmap import build_testmap
from taskforge.generate.validate_imports import Imports, importable
from taskforge.languages import Language, Project
from taskforge.model import Recipe, TestMap, Value, digest_of
from taskforge.sandbox import Backend, Environment, Limits
from taskforge.sandbox.pool import Pool
from taskforge.settings import Settings
from taskforge.version import GRADER_VERSION

__all__ = ["Prepare", "Prepared"]

#: Raise it when the same run of a suite would be told in another way.
_MAP: Final = 2
V = TypeVar("V", bound=Value)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that is known of a snapshot before a feature is chosen."""

    recipe: Recipe
    environment: Environment
    project: Project
    test_map: TestMap
    imports: Imports
    skipped: dict[str, str]
    """Path -> why no feature is chosen from it."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """What the stages need."""

    corpus: Corpus
    snapshot: Snapshot
    record: Record
    options: Options
    settings: Settings
    backend: Backend
    watch: Watcher
    stages: Stages
    language: Language
    limits: Limits

    def environment(self) -> tuple[Recipe, Environment]:
        """The environment with its image, if the backend has any: of an earlier run, or built now.

        Raises:
            EnvironmentBuildError, TaskRejected, Fault: as its stage does.
        """
        return pinned(self.corpus, self.backend, *self._environment())

    def rest(self, recipe: Recipe, environment: Environment, pool: Pool) -> Prepared:
        """The stages after it.

        Raises:
            EnvironmentBuildError: no tests, a red suite, or tests that run another copy of the project.
            Fault: when the machinery broke.
        """
        tree = self.snapshot.tree
        protected = protected_paths(tree, self.language)
        defining = defining_files(tree, self.language, protected)
        refuse_copy(defining, tree, environment)
        elsewhere = dict.fromkeys(files_in_environment(defining, tree, environment), "in_environment")
        test_map = self._testmap(environment, pool, protected)
        entered = {path for path, _name, _line in test_map.functions}
        if defining and entered.isdisjoint(defining):
            raise EnvironmentBuildError(
                "the tests enter no function of the workspace: they import another copy of the project, or none at all",
                hint="look for the project's name in the environment's site-packages, and for what the tests import",
            )
        self.watch.stage("graph")
        with self.stages("graph"):
            files = project_files(tree)
            project = self.language.project(files, is_product=product(self.language, protected, elsewhere))
        self.watch.stage("imports")
        with self.stages("imports"):
            imports = self._imports(environment, pool, protected)
        return Prepared(
            recipe=recipe,
            environment=environment,
            project=project,
            test_map=test_map,
            imports=imports,
            skipped={**project.skipped, **elsewhere},
        )

    def _environment(self) -> tuple[Recipe, Environment]:
        key = digest_of([self.options.python])[:12]
        name = f"recipe-{key}.json"
        if (data := self.record.kept(name)) is not None:
            recipe = Recipe.model_validate_json(data)
            return recipe, environments.ensure(
                recipe, lambda: self.snapshot.tree, backend=self.backend, cache=self.settings.cache_dir
            )
        recipe, environment = environments.build(
            self.snapshot,
            backend=self.backend,
            cache=self.settings.cache_dir,
            python=self.options.python,
            log=self.watch.log,
        )
        self.record.keep(name, recipe.model_dump_json().encode())
        return recipe, environment

    def _testmap(self, environment: Environment, pool: Pool, protected: tuple[str, ...]) -> TestMap:
        options = self.options
        settings = [options.baseline_runs, options.seed, options.min_pass]
        key = digest_of([_MAP, environment.digest, *settings, GRADER_VERSION])
        name = f"testmap-{key[:12]}.json"
        if (data := self.record.kept(name)) is not None:
            kept = json.loads(data)
            self.stages.merge({"test map": kept["stage"]})
            return TestMap.model_validate(kept["map"])
        self.watch.stage("test map")
        mine = Stages()
        with mine("test map"):
            test_map = build_testmap(
                self.snapshot.tree,
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

    def _imports(self, environment: Environment, pool: Pool, protected: tuple[str, ...]) -> Imports:
        name = f"imports-{digest_of([environment.digest, GRADER_VERSION])[:12]}.json"
        if (data := self.record.kept(name)) is not None:
            return Imports.model_validate_json(data)
        found = importable(
            self.snapshot.tree,
            environment,
            language=self.language,
            pool=pool,
            protected=protected,
            limits=self.limits,
        )
        self.record.keep(name, found.model_dump_json().encode())
        return found
