"""From a removal to a solver's view, on the fixture repository in a real sandbox: what fails and why, what goes out of
sight with it, and that the rest runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.acquire import Snapshot
from taskforge.generate.protect import is_protected
from taskforge.generate.validate import Effect, prove_effect
from taskforge.generate.validate_collection import Pins
from taskforge.generate.validate_visible import Visible, seal_proven
from taskforge.languages import Project, language
from taskforge.model import Candidate, Entry, TestMap, Tree
from taskforge.sandbox import Environment, Limits
from taskforge.sandbox.pool import Pool

PYTHON = language("python")
PRICES, UNIT, BASKET = "tests/test_prices.py", "tests/test_unit.py", "tests/test_basket.py"


@pytest.fixture(scope="module")
def project(shop: Snapshot, shop_protected: tuple[str, ...]) -> Project:
    return read(shop.tree, shop_protected)


def read(tree: Tree, protected: tuple[str, ...]) -> Project:
    files = {path: entry.data for path, entry in tree.items() if entry.kind != "link"}
    return PYTHON.project(files, is_product=lambda path: PYTHON.is_source(path) and not is_protected(path, protected))


@dataclass
class Bench:
    """The fixture without a function, and what is known of it."""

    shop: Snapshot
    environment: Environment
    protected: tuple[str, ...]
    test_map: TestMap
    project: Project
    pool: Pool

    def candidate(self, path: str, name: str, tests: tuple[str, ...] = ()) -> Candidate:
        symbol = next(one for one in PYTHON.index(path, self.shop.tree[path].data) if one.qualname == name)
        places = [place[:2] for place in self.test_map.functions]
        number = places.index((path, name))
        found = tuple(it.id for it in self.test_map.tests if number in it.enters)
        return Candidate(symbols=(symbol,), tests=tests or found)

    def effect(self, candidate: Candidate, changes: Mapping[str, bytes]) -> tuple[Effect, Tree]:
        removed = self.shop.tree.with_changes({path: Entry(data) for path, data in changes.items()})
        effect = prove_effect(
            candidate, removed, self.test_map,
            environment=self.environment, pool=self.pool, protected=self.protected, limits=Limits(),
        )  # fmt: skip
        return effect, removed

    def stubbed(self, path: str, name: str) -> tuple[Effect, Tree]:
        candidate = self.candidate(path, name)
        return self.effect(candidate, {path: PYTHON.stub(self.shop.tree[path].data, candidate.symbols)})

    def visible(self, effect: Effect, removed: Tree, test_map: TestMap | None = None) -> Visible:
        return seal_proven(
            removed, removed.changes_to(self.shop.tree), test_map or self.test_map, effect,
            language=PYTHON, project=self.project, environment=self.environment, pool=self.pool,
            protected=self.protected, limits=Limits(),
        )  # fmt: skip


@pytest.fixture
def bench(
    shop: Snapshot,
    shop_environment: Environment,
    shop_protected: tuple[str, ...],
    shop_map: TestMap,
    project: Project,
    pool: Pool,
) -> Bench:
    return Bench(shop, shop_environment, shop_protected, shop_map, project, pool)


def cut_out(bench: Bench, path: str, name: str) -> bytes:
    """The file without a definition, and nothing else of it."""
    data = bench.shop.tree[path].data
    span = next(one for one in PYTHON.index(path, data) if one.qualname == name).span
    return data[: span.start] + b"pass" + data[span.end :]


def test_one_test_of_a_file_goes_with_helpers_fixtures_and_data(bench: Bench) -> None:
    effect, removed = bench.stubbed("shop/prices.py", "discount")
    assert set(effect.causes.values()) == {"NotImplementedError"}
    assert effect.import_only == ()
    seen = bench.visible(effect, removed)
    assert set(seen.hiding.tests) == {
        f"{PRICES}::test_discount[200-10-180]", f"{PRICES}::test_discount[99-50-50]",
        f"{PRICES}::test_discounts_stored", f"{UNIT}::DiscountTest::test_discount",
    }  # fmt: skip
    assert seen.hiding.whole == ()
    assert set(seen.hiding.pruned) == {PRICES, UNIT}
    assert seen.hiding.data == ("tests/cassettes/test_discounts_stored.yaml", "tests/data/discounts.json")
    assert set(seen.hiding.along[PRICES]) == {"CASES", "reduced", "_stored"}
    workspace = seen.sealed.workspace
    shown = workspace[PRICES].data + workspace[UNIT].data
    assert b"discount" not in shown.lower()
    assert b"def test_label" in shown
    assert b"class SumTest" in shown
    assert {"tests/data/label.dat", "tests/cassettes/test_label.yaml", "tests/conftest.py"} <= workspace.keys()
    # The grader sees the original of all of it.
    tests = [path for path in bench.shop.tree if path.startswith("tests/")]
    graded = workspace.with_changes(seen.sealed.hidden)
    assert {path: graded[path] for path in tests} == {path: bench.shop.tree[path] for path in tests}
    assert (seen.ran, seen.stays) == (14, 14)


def test_inherited_generated_and_plain_text_tests_go_and_what_remains_runs(bench: Bench) -> None:
    effect, removed = bench.stubbed("shop/prices.py", "total")
    seen = bench.visible(effect, removed)
    # Both classes inherit the one definition; the generated ones have none, so that their file goes.
    assert {f"{BASKET}::TestBasket::test_sum", f"{BASKET}::TestGrown::test_sum"} <= set(seen.hiding.tests)
    assert seen.hiding.whole == ("tests/test_made.py",)
    assert set(seen.hiding.pruned) == {"tests/conftest.py", "tests/contract.py", PRICES, UNIT}
    assert seen.hiding.along["tests/conftest.py"] == ("two_prices",)
    assert b"test_empty" in seen.sealed.workspace["tests/contract.py"].data
    effect, removed = bench.stubbed("shop/prices.py", "label")
    seen = bench.visible(effect, removed)
    assert seen.hiding.whole == ("tests/usage.txt",)
    assert seen.hiding.data == ("tests/cassettes/test_label.yaml", "tests/data/label.dat")


def test_a_class_that_only_inherits_hidden_tests_goes(bench: Bench) -> None:
    effect, removed = bench.stubbed("shop/basket.py", "Basket.add")
    seen = bench.visible(effect, removed)
    assert f"{BASKET}::TestGrown::test_sum" in effect.fail_to_pass
    # TestBasket.test_sum passes without the feature, and tells the same as TestGrown's: it is out of sight and graded.
    assert f"{BASKET}::TestBasket::test_sum" in effect.pass_to_pass
    assert f"{BASKET}::TestBasket::test_sum" in seen.hiding.tests
    assert seen.hiding.whole == ()


def test_what_remains_and_does_not_run_goes_whole_or_keeps_its_data(bench: Bench) -> None:
    # A remaining test that reads, by a pattern, the data of a hidden one.
    reads = b"\n\ndef test_all_stored():\n    assert len(list((HERE / 'data').glob('*.json'))) == 1\n"
    tree = bench.shop.tree.with_changes({PRICES: Entry(bench.shop.tree[PRICES].data + reads)})
    record = next(it for it in bench.test_map.tests if it.id == f"{PRICES}::test_total")
    name = f"{PRICES}::test_all_stored"
    more = record.model_copy(update={"id": name, "defined": name, "enters": ()})
    test_map = bench.test_map.model_copy(update={"tests": (*bench.test_map.tests, more)})
    shop = Snapshot(tree=tree, provenance=bench.shop.provenance)
    bench = Bench(shop, bench.environment, bench.protected, test_map, read(tree, bench.protected), bench.pool)
    effect, removed = bench.stubbed("shop/prices.py", "discount")
    seen = bench.visible(effect, removed)
    assert seen.hiding.data == ()
    assert PRICES in seen.hiding.pruned
    # One that counts the tests of its own file: no cut leaves it alone.
    counts = b"\n\ndef test_all_stored():\n    assert open(__file__).read().count('def test_') == 8\n"
    tree = bench.shop.tree.with_changes({PRICES: Entry(bench.shop.tree[PRICES].data.replace(reads, counts))})
    shop = Snapshot(tree=tree, provenance=bench.shop.provenance)
    bench = Bench(shop, bench.environment, bench.protected, test_map, read(tree, bench.protected), bench.pool)
    effect, removed = bench.stubbed("shop/prices.py", "discount")
    seen = bench.visible(effect, removed)
    assert PRICES in seen.hiding.whole
    assert name in seen.hiding.tests


def test_a_module_of_the_feature_may_break_and_its_tests_are_required(bench: Bench) -> None:
    data = cut_out(bench, "shop/prices.py", "discount")
    everything = tuple(it.id for it in bench.test_map.tests if it.file == UNIT or "test_discount" in it.id)
    candidate = bench.candidate("shop/prices.py", "discount", everything)
    effect, removed = bench.effect(candidate, {"shop/prices.py": data})
    unit = {f"{UNIT}::SumTest::test_total", f"{UNIT}::DiscountTest::test_discount"}
    assert {name for name, cause in effect.causes.items() if cause == "collection"} == unit
    assert {effect.causes[name] for name in effect.fail_to_pass if name not in unit} == {"AttributeError"}
    # All of them miss the name alone.
    assert set(effect.import_only) == set(effect.fail_to_pass)
    seen = bench.visible(effect, removed)
    assert seen.hiding.whole == (UNIT,)


def test_a_module_with_other_tests_may_not_break_and_pins_what_it_needs(bench: Bench) -> None:
    data = cut_out(bench, "shop/prices.py", "discount")
    candidate = bench.candidate("shop/prices.py", "discount")
    with pytest.raises(TaskRejected) as caught:
        bench.effect(candidate, {"shop/prices.py": data})
    assert caught.value.reason == "collection_breaks"
    assert UNIT in caught.value.message
    pinned = Pins(bench.project, bench.test_map).of(candidate.tests)
    assert UNIT in pinned["shop/prices.py::discount"]
    # Nobody imports `first` by its name: it needs no stub.
    assert "shop/prices.py::first" not in pinned
    everything = [it.id for it in bench.test_map.tests]
    assert Pins(bench.project, bench.test_map).of(everything) == {}
