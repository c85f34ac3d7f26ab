from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.delta.paths import object_key
from core.storage.location import S3Location

TABLE = S3Location("bucket", "some/table")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("part-0.parquet", "some/table/part-0.parquet"),
        ("p=a%20b/f.parquet", "some/table/p=a b/f.parquet"),
        ("p=a%2520b/f.parquet", "some/table/p=a%20b/f.parquet"),
        ("p=a+b/f.parquet", "some/table/p=a+b/f.parquet"),
        ("p=%C3%BC/f.parquet", "some/table/p=ü/f.parquet"),
        ("p=ü/f.parquet", "some/table/p=ü/f.parquet"),
        ("t=12:30/f.parquet", "some/table/t=12:30/f.parquet"),
        ("a:b=1/f.parquet", "some/table/a:b=1/f.parquet"),
        ("100%/f.parquet", "some/table/100%/f.parquet"),
        ("a//b", "some/table/a//b"),
    ],
)
def test_a_path_is_decoded_exactly_once(path, key):
    assert object_key(TABLE, path) == key


def test_a_table_at_the_root_of_a_bucket_has_keys_without_a_slash_in_front():
    assert object_key(S3Location("bucket", ""), "f.parquet") == "f.parquet"


@given(st.text(min_size=1))
def test_every_key_can_be_written_as_a_path(key):
    encoded = quote(key.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), safe="")
    assert object_key(TABLE, encoded) == f"some/table/{key.encode('utf-8', 'surrogatepass').decode('utf-8', 'replace')}"
