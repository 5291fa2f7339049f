import pytest


@pytest.fixture
def two_prices():
    return [100, 250]
