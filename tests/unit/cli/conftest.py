"""Runs the command in this process, on an AWS account in memory (moto)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.loaders import Loader
from moto import mock_aws

from cli.common.account import Account
from cli.main import run
from core.catalog.admin import CatalogAdmin


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Sluice = Callable[..., Result]

# Each command creates its own clients. One loader reads the service descriptions from disk only once.
SERVICE_DESCRIPTIONS = Loader()


@pytest.fixture
def sluice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Sluice]:
    monkeypatch.setattr("botocore.session.create_loader", lambda _path: SERVICE_DESCRIPTIONS)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("SLUICE_ENDPOINT", "https://sharing.example/delta-sharing")

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    with mock_aws():
        yield call


@pytest.fixture
def catalog(sluice: Sluice) -> CatalogAdmin:
    """The catalog that the command uses, just initialised."""
    assert sluice("init").code == 0
    return Account().admin()


@pytest.fixture
def filled(catalog: CatalogAdmin) -> CatalogAdmin:
    """A catalog with one table in a share that `acme` may read."""
    catalog.put_share("sales")
    catalog.put_schema("sales", "retail")
    catalog.put_table("sales", "retail", "orders", location="s3://bucket/orders")
    catalog.put_recipient("acme")
    catalog.grant("acme", "sales")
    return catalog
