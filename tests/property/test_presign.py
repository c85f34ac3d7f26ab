"""Compares our URL signer with botocore's: the URLs must be identical for every input."""

import datetime as dt
import functools
import unittest.mock
from typing import Any

import botocore.auth
import botocore.session
import pytest
from botocore.client import BaseClient
from botocore.config import Config
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.storage.presign import UrlSigner
from core.storage.roles import Credentials
from tests.examples import examples

SESSION = botocore.session.Session()
SESSION.set_credentials("replaced", "in", "each example")
REGIONS = sorted(
    region
    for partition in SESSION.get_available_partitions()
    for region in SESSION.get_available_regions("s3", partition)
)
HTTP_AT_AN_ADDRESS = ("http://127.0.0.1:9000", "http://[::1]:9000")
ENDPOINTS = [
    *HTTP_AT_AN_ADDRESS,
    "https://127.0.0.1",
    "http://localhost:4566/",
    "http://minio.example:80",
    "https://minio.example:443",
    "https://MinIO.Example:8443",
    "https://gateway.example/s3",
    "http://gateway.example/a/b/",
    "https://s3.dualstack.eu-west-1.amazonaws.com",
]

text = st.text(st.characters(exclude_categories=["Cs"]))
keys = st.one_of(
    text.filter(bool),
    st.lists(st.sampled_from(["", ".", "..", "a b", "%20", "~", "+", "?x=1", "#", "&", "é", "日本", "day=2024-01-01"]))
    .map("/".join)
    .filter(bool),
)
buckets = st.from_regex(r"[a-z0-9][a-z0-9-]{1,20}[a-z0-9]", fullmatch=True) | st.sampled_from(
    ["a.b", "my.bucket.name", "1.2.3.4", "a..b", "a.-b", "ab-", "Old_Bucket", "x" * 63]
)
credentials = st.builds(
    Credentials,
    access_key_id=st.from_regex(r"[A-Z0-9]{16,32}", fullmatch=True),
    secret_access_key=text.filter(bool),
    session_token=st.none() | text.filter(bool) | st.from_regex(r"[A-Za-z0-9+/=]{900,1000}", fullmatch=True),
    expires_at=st.just(0.0),
)
buckets_and_times = st.fixed_dictionaries(
    {
        "bucket": buckets,
        "region": st.sampled_from(["us-east-1", "eu-west-1", "cn-north-1", "us-gov-west-1"]),
        "endpoint_url": st.none() | st.sampled_from(ENDPOINTS),
        "path_style": st.booleans(),
        "signed_at": st.integers(0, 4_000_000_000),
        "expires_in": st.integers(1, 604_800),
    }
)
SIGNER = Credentials("AKIA0", "secret", "token/+= ~", 0.0)
BUCKET = {
    "bucket": "bucket",
    "region": "eu-west-1",
    "endpoint_url": None,
    "path_style": False,
    "signed_at": 1_700_000_000.999,
    "expires_in": 3600,
}


@functools.cache
def s3_client(region: str, endpoint_url: str | None, path_style: bool) -> BaseClient:
    style = "path" if path_style else "virtual"
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": style, "us_east_1_regional_endpoint": "legacy"},
        ignore_configured_endpoint_urls=True,
    )
    return SESSION.create_client("s3", region_name=region, endpoint_url=endpoint_url, config=config)


def botocore_url(
    signer: Credentials,
    key: str,
    *,
    bucket: str,
    region: str,
    endpoint_url: str | None,
    path_style: bool,
    signed_at: float,
    expires_in: int,
) -> str:
    current = SESSION.get_credentials()
    current.access_key, current.secret_key = signer.access_key_id, signer.secret_access_key
    current.token = signer.session_token
    moment = dt.datetime.fromtimestamp(signed_at, dt.UTC)
    with unittest.mock.patch.object(botocore.auth, "get_current_datetime", return_value=moment):
        return s3_client(region, endpoint_url, path_style).generate_presigned_url(
            "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=expires_in
        )


def has_equal_urls(arguments: dict[str, Any]) -> bool:
    """Excludes the one deliberate difference: botocore returns `http://a.b.127.0.0.1`, which cannot be resolved."""
    return (
        arguments["path_style"] or "." not in arguments["bucket"] or arguments["endpoint_url"] not in HTTP_AT_AN_ADDRESS
    )


@settings(deadline=None, max_examples=examples(200))
@given(signer=credentials, key=keys, arguments=buckets_and_times.filter(has_equal_urls))
@example(signer=SIGNER, key="/" + "very long/" * 200, arguments=BUCKET | {"region": "us-east-1"})
def test_a_signed_url_equals_botocores(signer: Credentials, key: str, arguments: dict[str, Any]) -> None:
    assert UrlSigner(signer, **arguments).sign(key) == botocore_url(signer, key, **arguments)


@pytest.mark.parametrize("region", REGIONS)
def test_the_host_is_correct_for_every_region_of_botocore(region: str) -> None:
    arguments = BUCKET | {"region": region}
    assert UrlSigner(SIGNER, **arguments).sign("key") == botocore_url(SIGNER, "key", **arguments)


def test_one_signer_signs_many_keys() -> None:
    signer = UrlSigner(SIGNER, **BUCKET)
    names = [f"part-{number:05}.parquet" for number in range(50)]
    assert signer.sign_all(names) == [botocore_url(SIGNER, name, **BUCKET) for name in names]


@settings(deadline=None, max_examples=examples(100))
@given(names=st.lists(st.text("ab=: +%/.\u00fc", min_size=1) | keys, max_size=4))
def test_keys_signed_together_do_not_affect_each_other(names: list[str]) -> None:
    signer = UrlSigner(SIGNER, **BUCKET)
    assert signer.sign_all(names) == [botocore_url(SIGNER, name, **BUCKET) for name in names]


def test_a_bucket_with_dots_stays_in_the_path_if_the_host_is_an_ip_address() -> None:
    arguments = BUCKET | {"bucket": "a.b", "endpoint_url": HTTP_AT_AN_ADDRESS[0]}
    assert UrlSigner(SIGNER, **arguments).sign("key") == botocore_url(SIGNER, "key", **arguments | {"path_style": True})
