from collections.abc import Iterator

import pytest

from tests.unit.catalog.environment import Environment, moto_client


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[object]:
    with moto_client() as client:
        yield client


@pytest.fixture
def env(dynamodb) -> Environment:
    return Environment(dynamodb)
