"""A second fixture repository: tests that share helpers and data, are inherited, generated and decorated."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskforge.generate import environment as environments
from taskforge.generate.acquire import Snapshot, acquire
from taskforge.generate.protect import protected_paths
from taskforge.generate.testmap import build_testmap
from taskforge.languages import language
from taskforge.model import Source, TestMap
from taskforge.sandbox import Backend, Environment, Limits
from taskforge.sandbox.pool import Pool

SHOP = Path(__file__).parents[2] / "repos" / "shop"


@pytest.fixture(scope="session")
def shop(cache: Path) -> Snapshot:
    return acquire(Source.parse(str(SHOP)), cache=cache, index_url="", timeout=60)


@pytest.fixture(scope="session")
def shop_environment(shop: Snapshot, bubblewrap: Backend, cache: Path) -> Environment:
    return environments.build(shop, backend=bubblewrap, cache=cache, log=print)[1]


@pytest.fixture(scope="session")
def shop_protected(shop: Snapshot) -> tuple[str, ...]:
    return protected_paths(shop.tree, language("python"))


@pytest.fixture(scope="session")
def shop_map(
    shop: Snapshot, shop_environment: Environment, shop_protected: tuple[str, ...], bubblewrap: Backend
) -> TestMap:
    with Pool(bubblewrap, size=0) as pool:
        return build_testmap(shop.tree, shop_environment, pool=pool, protected=shop_protected, limits=Limits(), runs=1)
