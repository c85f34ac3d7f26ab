from collections.abc import Iterator

import pytest

from tests.unit.catalog.world import World, moto_client


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[object]:
    with moto_client() as client:
        yield client


@pytest.fixture
def world(dynamodb) -> World:
    return World(dynamodb)
