import pytest

from core.storage.location import InvalidLocationError, S3Location


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://bucket/a/b", "bucket", "a/b"),
        ("s3a://bucket/a/b/", "bucket", "a/b"),
        ("S3N://bucket//a", "bucket", "a"),
        ("s3://bucket", "bucket", ""),
        ("s3://my.bucket/", "my.bucket", ""),
        ("s3://Old_Bucket/a b/é%20", "Old_Bucket", "a b/é%20"),
    ],
)
def test_a_location_is_read_however_it_is_spelled(uri: str, bucket: str, prefix: str) -> None:
    assert S3Location.parse(uri) == S3Location(bucket, prefix)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "bucket/a",
        "/data/table",
        "s3:/bucket/a",
        "s3://",
        "s3:///a",
        "https://bucket/a",
        "file:///a",
        "s3://b/a",
        f"s3://{'b' * 64}/a",
        "s3://user@bucket/a",
        "s3://bucket:80/a",
        "s3://bucket#/a",
        "s3://bucket\n/a",
        "s3://bücket/a",
        "s3://-bucket/a",
    ],
)
def test_what_is_not_an_s3_location_is_refused_by_name(uri: str) -> None:
    with pytest.raises(InvalidLocationError) as raised:
        S3Location.parse(uri)
    assert repr(uri) in str(raised.value)


@pytest.mark.parametrize("uri", ["s3://bucket/a/b", "s3://bucket"])
def test_a_location_is_written_as_it_is_read(uri: str) -> None:
    assert S3Location.parse(uri).uri == uri


def test_keys_lie_below_the_prefix() -> None:
    assert S3Location("bucket", "a/b").key("c.parquet") == "a/b/c.parquet"
    assert S3Location("bucket", "").key("c.parquet") == "c.parquet"
