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
def test_every_spelling_of_a_location_is_parsed(uri: str, bucket: str, prefix: str) -> None:
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
def test_an_invalid_location_is_rejected_by_name(uri: str) -> None:
    with pytest.raises(InvalidLocationError) as raised:
        S3Location.parse(uri)
    assert repr(uri) in str(raised.value)


@pytest.mark.parametrize("uri", ["s3://bucket/a/b", "s3://bucket"])
def test_a_location_survives_parsing_and_formatting(uri: str) -> None:
    assert S3Location.parse(uri).uri == uri


def test_keys_start_with_the_prefix() -> None:
    assert S3Location("bucket", "a/b").key("c.parquet") == "a/b/c.parquet"
    assert S3Location("bucket", "").key("c.parquet") == "c.parquet"


@pytest.mark.parametrize(
    ("prefix", "resolved"),
    [
        ("a/b", "a/b"),
        ("a/./b", "a/b"),
        ("a//b", "a/b"),
        ("a/x/../b", "a/b"),
        ("../../a", "a"),
        ("a/../..", ""),
        ("a/...", "a/..."),
        ("a/%2e%2e/b", "a/%2e%2e/b"),
        ("a/b%2F", "a/b%2F"),
        ("", ""),
    ],
)
def test_dots_and_doubled_slashes_are_resolved_and_percent_signs_are_not(prefix: str, resolved: str) -> None:
    assert S3Location("bucket", prefix).resolved() == S3Location("bucket", resolved)


@pytest.mark.parametrize(
    ("root", "location", "covered"),
    [
        ("s3://bucket/t1", "s3a://bucket/t1/", True),
        ("s3://bucket/t1", "s3://bucket/t1/_delta_log", True),
        ("s3://bucket/t1", "s3://bucket/t10", False),
        ("s3://bucket/t1", "s3://bucket/t", False),
        ("s3://bucket/t1", "s3://bucket", False),
        ("s3://bucket/t1", "s3://bucket/T1", False),
        ("s3://bucket/t1", "s3://other/t1", False),
        ("s3://bucket", "s3://bucket/anything", True),
        ("s3://bucket", "s3://bucket", True),
        ("s3://bucket", "s3://bucket2", False),
    ],
)
def test_a_location_covers_itself_and_its_subdirectories(root: str, location: str, covered: bool) -> None:
    assert S3Location.parse(root).covers(S3Location.parse(location)) is covered
