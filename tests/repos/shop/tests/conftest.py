import pytest


@pytest.fixture
def prices():
    return [100, 250]
