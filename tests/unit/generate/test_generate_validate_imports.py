"""Every module that could be imported still can be, each by itself; what never could is not asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.acquire import Snapshot
from taskforge.generate.validate_imports import Imports, importable, prove_imports
from taskforge.languages import language
from taskforge.model import Entry, Tree
from taskforge.sandbox import Backend, Environment, Limits
from taskforge.sandbox.pool import Pool

Prove = Callable[[Tree], float]


@pytest.fixture(scope="module")
def odd(shop: Snapshot) -> Tree:
    """The fixture, with modules that do not let themselves be imported quietly."""
    more = {
        "shop/quits.py": b"import sys\nsys.exit(0)\n",
        "shop/dies.py": b"import os\nos._exit(0)\n",
        "shop/loud.py": b"import os\nprint('\\n--taskforge-imports--\\n0 nonsense')\nos.write(1, b'x' * 70000)\n",
        "shop/forks.py": b"import subprocess, sys\nsubprocess.Popen(['sleep', '30'])\n",
        "shop/first.py": b"import shop.second\nNAME = 1\n",
        "shop/second.py": b"import shop.first\n",
        "single.py": b"",
        "odd-name.py": b"",
    }
    return shop.tree.with_changes({path: Entry(data) for path, data in more.items()})


@pytest.fixture(scope="module")
def baseline(
    odd: Tree, shop_environment: Environment, shop_protected: tuple[str, ...], bubblewrap: Backend
) -> Imports:
    with Pool(bubblewrap, size=0) as pool:
        return importable(
            odd, shop_environment, language=language("python"), pool=pool, protected=shop_protected, limits=Limits()
        )


@pytest.fixture
def prove(
    baseline: Imports, shop_environment: Environment, shop_protected: tuple[str, ...], pool: Pool
) -> Prove:
    return lambda tree: prove_imports(
        tree, baseline, shop_environment, pool=pool, protected=shop_protected, limits=Limits(), each=2.0
    )


def test_what_is_asked_for(baseline: Imports) -> None:
    assert baseline.modules == {
        "shop/__init__.py": "shop",
        "shop/basket.py": "shop.basket",
        "shop/first.py": "shop.first",
        "shop/forks.py": "shop.forks",
        "shop/loud.py": "shop.loud",
        "shop/prices.py": "shop.prices",
        "shop/second.py": "shop.second",
        "single.py": "single",
    }
    assert baseline.others["shop/broken.py"].startswith("ModuleNotFoundError: No module named 'a_module_that_nobody")
    assert baseline.others["shop/quits.py"].startswith("SystemExit")
    assert baseline.others["shop/dies.py"] == "its process ended or hung"
    assert set(baseline.others) == {"shop/broken.py", "shop/quits.py", "shop/dies.py", "odd-name.py"}


def test_an_untouched_tree_passes_and_removed_modules_are_not_asked_for(odd: Tree, prove: Prove) -> None:
    assert prove(odd) < 30
    prove(odd.with_changes({"single.py": None, "shop/loud.py": None}))


def test_a_module_that_breaks_is_named_with_its_reason(odd: Tree, prove: Prove) -> None:
    gone = Entry(odd["shop/prices.py"].data.replace(b"def total(", b"def other("))
    with pytest.raises(TaskRejected) as caught:
        prove(odd.with_changes({"shop/prices.py": gone}))
    assert caught.value.reason == "import_breaks"
    assert caught.value.message.startswith("shop.basket cannot be imported without the feature: ImportError: cannot import")


def test_a_circle_that_only_one_order_gets_through_is_seen(odd: Tree, prove: Prove) -> None:
    # Whoever imports shop.first first is fine; shop.second alone is not.
    first, second = b"NAME = 1\nfrom shop.second import VALUE\n", b"from shop.first import NAME\nVALUE = NAME\n"
    with pytest.raises(TaskRejected, match=r"^shop\.second cannot be imported .*: ImportError: [^;]*circular"):
        prove(odd.with_changes({"shop/first.py": Entry(first), "shop/second.py": Entry(second)}))
    prove(odd.with_changes({"shop/first.py": Entry(b"NAME = 1\n"), "shop/second.py": Entry(second)}))


def test_a_module_that_hangs_ends_the_candidate_not_the_run(odd: Tree, prove: Prove) -> None:
    with pytest.raises(TaskRejected, match=r"single .* ended or hung"):
        prove(odd.with_changes({"single.py": Entry(b"while True: pass\n")}))
