"""The S3 keys of the paths in a log, and which paths are refused."""

import uuid
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.model import DeletionVector
from core.delta.paths import Z85, FilePaths
from core.errors import DamagedLogError, SharingError, UnsupportedOperationError
from core.storage.location import S3Location
from tests.examples import examples

TABLE = S3Location("bucket", "some/table")
CLONE = FilePaths(TABLE, [S3Location("archive", "old/base"), S3Location("bucket", "other")])
REFUSAL = "Table contains absolute paths and cannot be shared through delta sharing"


def key(path: str) -> str:
    bucket, found = FilePaths(TABLE).find(path)
    assert bucket == "bucket"
    return found


def vector(storage_type: str, path_or_inline_dv: str) -> DeletionVector:
    return DeletionVector(storage_type, path_or_inline_dv, 1, 34, 2)


class TestRelative:
    @pytest.mark.parametrize(
        ("path", "expected"),
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
            ("p=a./f.", "some/table/p=a./f."),
            ("p=..a//f", "some/table/p=..a//f"),
        ],
    )
    def test_a_path_is_decoded_exactly_once(self, path: str, expected: str) -> None:
        assert key(path) == expected

    def test_keys_of_a_table_at_the_root_of_a_bucket_have_no_leading_slash(self) -> None:
        assert FilePaths(S3Location("bucket", "")).find("f.parquet") == ("bucket", "f.parquet")

    @given(st.lists(st.text(st.sampled_from("ab=%:/.2\n") | st.characters(exclude_categories=["Cs"])), max_size=4))
    @settings(deadline=None, max_examples=examples(500))
    def test_finding_many_paths_equals_finding_each(self, paths: list[str]) -> None:
        for table in (CLONE, FilePaths(S3Location("bucket", ""))):
            try:
                expected = [table.find(path) for path in paths]
            except SharingError as refused:
                with pytest.raises(type(refused)):
                    table.find_all(paths)
            else:
                assert table.find_all(paths) == expected

    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1))
    @settings(deadline=None)
    def test_every_key_can_be_written_as_a_path(self, name: str) -> None:
        assert key(quote(name, safe="")) == f"some/table/{name}"

    @pytest.mark.parametrize(
        ("path", "expected"), [("./a", "some/table/a"), ("x/../a", "some/table/a"), ("%2E%2E/table/a", "some/table/a")]
    )
    def test_dots_are_resolved_because_clients_would(self, path: str, expected: str) -> None:
        assert key(path) == expected

    @pytest.mark.parametrize("path", ["..", "../a", "x/../../a", "%2E%2E/other/a", "../table2/a", "../../../../a"])
    def test_dots_do_not_escape_the_table(self, path: str) -> None:
        with pytest.raises(UnsupportedOperationError, match=REFUSAL):
            key(path)

    def test_a_path_of_invalid_utf8_is_malformed(self) -> None:
        with pytest.raises(DamagedLogError):
            key("p=%FF/f")


class TestAbsolute:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("s3://archive/old/base/p=1/f.parquet", ("archive", "old/base/p=1/f.parquet")),
            ("s3a://archive/old/base/a%20b", ("archive", "old/base/a b")),
            ("S3N://archive/old/base/x/../f", ("archive", "old/base/f")),
            ("s3a://bucket/some/table/f", ("bucket", "some/table/f")),
            ("s3://bucket/other/f", ("bucket", "other/f")),
        ],
    )
    def test_a_path_in_the_table_or_an_auxiliary_location_is_accepted(
        self, path: str, expected: tuple[str, str]
    ) -> None:
        assert CLONE.find(path) == expected
        assert CLONE.find_deletion_vector(vector("p", path)) == expected

    @pytest.mark.parametrize(
        "path",
        [
            "s3://archive/old/f",
            "s3://archive/old/base2/f",
            "s3://archive/old/base/../secret",
            "s3://archive/old/base/%2E%2E/secret",
            "s3://bucket/f",
            "s3://stranger/old/base/f",
            "s3:/archive/old/base/f",
            "s3:///archive/old/base/f",
            "abfss://archive@account/old/base/f",
            "file:/old/base/f",
            "file:///archive/old/base/f",
            "/old/base/f",
            "//archive/old/base/f",
            "hdfs://archive/old/base/f",
        ],
    )
    def test_any_other_path_is_refused_and_not_shown(self, path: str) -> None:
        for find in (CLONE.find, lambda path: CLONE.find_deletion_vector(vector("p", path))):
            with pytest.raises(UnsupportedOperationError, match=REFUSAL) as caught:
                find(path)
            assert path not in caught.value.message


class TestDeletionVectors:
    def test_a_file_is_named_by_a_uuid_below_a_random_directory(self) -> None:
        """The examples of the Delta protocol specification."""
        name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
        paths = FilePaths(TABLE)
        assert paths.find_deletion_vector(vector("u", "ab^-aqEH.-t@S}K{vb[*k^")) == ("bucket", f"some/table/ab/{name}")
        assert paths.find_deletion_vector(vector("u", "^-aqEH.-t@S}K{vb[*k^")) == ("bucket", f"some/table/{name}")

    @given(st.uuids(), st.text(st.sampled_from("abcXYZ019%"), max_size=4))
    def test_every_uuid_is_decoded(self, name: uuid.UUID, directory: str) -> None:
        number = [int.from_bytes(name.bytes[at : at + 4]) for at in range(0, 16, 4)]
        code = "".join(Z85[word // 85**power % 85] for word in number for power in range(4, -1, -1))
        _, found = FilePaths(S3Location("bucket", "")).find_deletion_vector(vector("u", directory + code))
        assert found == f"{directory}/deletion_vector_{name}.bin".removeprefix("/")

    def test_the_vectors_of_real_writers_exist(self, golden_tables: Path) -> None:
        found = 0
        for log in golden_tables.glob("*/_delta_log/*.json"):
            if log.stat().st_size > 1_000_000:
                continue
            for line in log.read_bytes().splitlines():
                stored = ((orjson.loads(line).get("add") or {}).get("deletionVector")) or {}
                if stored.get("storageType") == "u":
                    code = vector("u", stored["pathOrInlineDv"])
                    _, file = FilePaths(S3Location("bucket", "")).find_deletion_vector(code)
                    assert (log.parents[1] / file).is_file()
                    found += 1
        assert found

    @pytest.mark.parametrize("code", ["", "short", "^-aqEH.-t@S}K{vb[*k", "~" * 20, "#" * 20, "../" + "0" * 20])
    def test_an_invalid_code_is_refused(self, code: str) -> None:
        with pytest.raises(SharingError) as caught:
            FilePaths(TABLE).find_deletion_vector(vector("u", code))
        assert caught.value.status == 400

    def test_an_unknown_storage_type_is_refused(self) -> None:
        with pytest.raises(DamagedLogError):
            FilePaths(TABLE).find_deletion_vector(vector("x", "whatever"))
