"""The shares file: its keys, and errors that name file, line and key."""

from pathlib import Path
from textwrap import dedent

import pytest

from cli.apply.shares_file import MAX_BYTES, SharesFile, load
from cli.common.errors import CommandError

REFERENCE_FILE = """\
# The format version of this config file
version: 1
shares:
- name: "share1"
  schemas:
  - name: "schema1"
    tables:
    - name: "table1"
      location: "s3a://some-bucket/the-first-table"
      id: "00000000-0000-0000-0000-000000000000"
    - name: "table2"
      location: "s3n://some-bucket/the-second-table"
      id: "00000000-0000-0000-0000-000000000001"
      historyShared: true
      startVersion: 1
authorization:
  bearerToken: "dapi-secret"
ssl:
  selfSigned: false
  certificateFile: /etc/certificate
  certificateKeyFile: /etc/key
host: "localhost"
port: 8080
endpoint: "/delta-sharing"
preSignedUrlTimeoutSeconds: 3600
temporaryCredentialValiditySeconds: 3600
deltaTableCacheSize: 10
stalenessAcceptable: false
evaluatePredicateHints: false
evaluateJsonPredicateHints: true
evaluateJsonPredicateHintsV2: true
requestTimeoutSeconds: 30
queryTablePageSizeLimit: 10000
queryTablePageTokenTtlMs: 259200000
refreshTokenTtlMs: 3600000
"""


TOO_NEW = (
    "The 'version' in the server config is 2 which is too new. The current release supports version 1 and below. "
    "Please upgrade to a newer release."
)


def write(folder: Path, text: str, name: str = "shares.yaml") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def problems(folder: Path, text: str, *, local_tables: bool = False) -> list[str]:
    """Returns the lines of the error, without the name of the folder."""
    with pytest.raises(CommandError) as caught:
        load(write(folder, text), local_tables=local_tables)
    return [line.removeprefix(f"{folder}/") for line in caught.value.message.splitlines()]


def one_table(keys: str) -> str:
    """A file with one table, whose keys are on line 7."""
    return f"version: 1\nshares:\n- name: s\n  schemas:\n  - name: c\n    tables:\n    - {keys}\n"


def test_the_file_of_the_reference_server_is_accepted_and_one_warning_names_settings_without_effect(tmp_path):
    desired = load(write(tmp_path, REFERENCE_FILE))

    first, second = desired.shares[0].schemas[0].tables
    assert (first.name, first.history_shared, first.start_version) == ("table1", False, 0)
    assert (second.location, second.history_shared, second.start_version) == (
        "s3n://some-bucket/the-second-table",
        True,
        1,
    )
    assert (desired.host, desired.port, desired.endpoint) == ("localhost", 8080, "/delta-sharing")
    assert desired.warning(supported=("host", "port", "endpoint")) == (
        "These settings of the reference server have no effect here: authorization, ssl, "
        "preSignedUrlTimeoutSeconds, temporaryCredentialValiditySeconds, deltaTableCacheSize, "
        "stalenessAcceptable, evaluatePredicateHints, evaluateJsonPredicateHints, evaluateJsonPredicateHintsV2, "
        "requestTimeoutSeconds, queryTablePageSizeLimit, queryTablePageTokenTtlMs, refreshTokenTtlMs."
    )


def test_a_file_without_server_settings_gives_no_warning(tmp_path):
    assert load(write(tmp_path, "version: 1")).warning() is None


def test_all_additional_keys_are_read(tmp_path):
    desired = load(
        write(
            tmp_path,
            """\
            version: 1
            shares:
            - name: Sales.EU
              id: share-id
              displayName: Sales
              comment: all of it
              properties: {owner: data team}
              schemas:
              - name: retail
                tables:
                - name: orders
                  location: s3://warehouse/orders
                  accessModes: [url, dir]
                  auxiliaryLocations: [s3://archive/orders]
                  stalenessSeconds: 2
                  roleArn: arn:aws:iam::123456789012:role/reader
                  externalId: secret-handshake
                  region: eu-west-1
                  kmsKeyArn: arn:aws:kms:eu-west-1:123456789012:key/mrk-12ab
            recipients:
            - {name: acme, comment: ACME, shares: [sales.eu]}
            """,
        )
    )

    share = desired.shares[0]
    table = share.schemas[0].tables[0]
    assert (share.id, share.display_name, share.properties) == ("share-id", "Sales", {"owner": "data team"})
    assert (table.access_modes, table.auxiliary_locations) == (["url", "dir"], ["s3://archive/orders"])
    assert (table.staleness_seconds, table.region, table.external_id) == (2, "eu-west-1", "secret-handshake")
    assert table.kms_key_arn == "arn:aws:kms:eu-west-1:123456789012:key/mrk-12ab"
    assert desired.recipients is not None
    assert desired.recipients[0].shares == ["sales.eu"]


def test_a_key_without_a_value_counts_as_absent(tmp_path):
    desired = load(write(tmp_path, "version: 1\nshares:\n- name: s\n  comment:\n  schemas:\nrecipients:\n"))

    assert desired.shares[0].schemas == []
    assert desired.recipients is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1: version: 'version' must be provided"),
        ("shares: []", "1: version: 'version' must be provided"),
        ("version: 0", "1: version: 'version' must be greater than 0"),
        (
            "version: 2",
            f"1: version: {TOO_NEW}",
        ),
        ("version: '1'", "1: version: must be a whole number"),
        ("- version: 1", "1: must be a mapping of keys to values"),
        ("version: 1\nshare: []", "2: share: unknown key"),
        ("version: 1\nshares: {}", "2: shares: must be a list"),
        ("version: 1\nshares:\n- sales", "3: shares[0]: must be a mapping of keys to values"),
        ("version: 1\nshares:\n- comment: x", "3: shares[0].name: 'name' in a share must be provided"),
        ("version: 1\nshares:\n- name: 2024", "3: shares[0].name: must be text (put it in quotes)"),
        ("version: 1\nshares:\n- name: no", "3: shares[0].name: must be text (put it in quotes)"),
        (
            "version: 1\nshares:\n- name: a b",
            "3: shares[0].name: must not contain ' ' (no white space, '/' or control characters)",
        ),
        ("version: 1\nshares:\n- name: ''", "3: shares[0].name: must not be empty"),
        (f"version: 1\nshares:\n- name: {'x' * 256}", "3: shares[0].name: must have at most 255 characters"),
        ("version: 1\nshares:\n- name: s\n  name: t", "4: shares[0].name: the key is a duplicate"),
        (
            "version: 1\nshares:\n- name: s\n- name: t\n- name: S",
            "5: shares[2].name: 'S' is already used on line 3",
        ),
        (
            "version: 1\nshares:\n- {name: s, id: x}\n- {name: t, id: x}",
            "4: shares[1].id: 'x' is already used on line 3",
        ),
        (
            "version: 1\nshares:\n- name: s\n  properties: {a: 1}",
            "4: shares[0].properties.a: must be text (put it in quotes)",
        ),
        (
            "version: 1\nshares:\n- name: s\n  schemas:\n  - tables: []",
            "5: shares[0].schemas[0].name: 'name' in a schema must be provided",
        ),
        (
            "version: 1\nshares:\n- name: s\n  schemas:\n  - name: c.d",
            "5: shares[0].schemas[0].name: must not contain '.'",
        ),
        (
            "version: 1\nshares:\n- name: s\n  schemas:\n  - name: c\n  - name: C",
            "6: shares[0].schemas[1].name: 'C' is already used on line 5",
        ),
        (
            "version: 1\nauthorization: {}",
            "2: authorization.bearerToken: 'bearerToken' in 'authorization' must be provided",
        ),
        ("version: 1\nport: 70000", "2: port: must be at most 65535"),
        ("version: 1\nstalenessAcceptable: 'yes'", "2: stalenessAcceptable: must be true or false"),
        (
            "version: 1\nrecipients:\n- {name: acme, shares: [x]}",
            "3: recipients[0].shares[0]: the file has no share 'x'",
        ),
        ("version: 1\nrecipients:\n- shares: []", "3: recipients[0].name: 'name' in a recipient must be provided"),
        (
            "version: 1\nrecipients:\n- {name: acme}\n- {name: ACME}",
            "4: recipients[1].name: 'ACME' is already used on line 3",
        ),
        ("version: 1\nshares: [", "3: did not find expected node content"),
        ("version: 1\nhost: *nowhere", "2: found undefined alias"),
        ("version: 1\n---\nversion: 1", "2: but found another document"),
        ("version: 1\nhost: !shell rm", "2: could not determine a constructor for the tag '!shell'"),
        ("version: 1\nhost: !!bool x", "2: not a valid bool"),
        ("version: 1\nhost: !!set {x}", "2: the tag tag:yaml.org,2002:set is not supported"),
        ("version: 1\n[a]: b", "2: a key must be plain text"),
        ("version: 1\nhost: \x07", "2: a control character, which YAML does not allow"),
        ("version: 1\nshares: &a [*a]", "2: nested too deeply"),
    ],
)
def test_an_error_in_a_file_names_line_and_key(tmp_path, text, expected):
    assert problems(tmp_path, text) == [f"shares.yaml:{expected}"]


@pytest.mark.parametrize(
    ("keys", "key_path", "expected"),
    [
        ("location: s3://bucket/t", "name", "'name' in a table must be provided"),
        ("name: t", "location", "'location' in a table must be provided"),
        ("{name: t, location: gs://bucket/t}", "location", "not an S3 location: 'gs://bucket/t'"),
        (
            "{name: t, location: ./t}",
            "location",
            "only `sluice serve` with the embedded AWS supports local directories",
        ),
        ("{name: t, location: file:///t}", "location", "only `sluice serve` with the embedded AWS supports"),
        ("{name: t, location: s3://bucket/t, historyShared: 1}", "historyShared", "must be true or false"),
        ("{name: t, location: s3://bucket/t, startVersion: -1}", "startVersion", "must be at least 0"),
        ("{name: t, location: s3://bucket/t, startVersion: 1.5}", "startVersion", "must be a whole number"),
        ("{name: t, location: s3://bucket/t, startVersion: 9999999999999999999}", "startVersion", "must be at most"),
        ("{name: t, location: s3://bucket/t, stalenessSeconds: .nan}", "stalenessSeconds", "must be a finite number"),
        ("{name: t, location: s3://bucket/t, stalenessSeconds: 86401}", "stalenessSeconds", "must be at most 86400"),
        ("{name: t, location: s3://bucket/t, accessModes: []}", "accessModes", "must have at least 1 entry"),
        ("{name: t, location: s3://bucket/t, accessModes: [ftp]}", "accessModes[0]", "must be one of 'url' or 'dir'"),
        ("{name: t, location: s3://bucket/t, auxiliaryLocations: [x]}", "auxiliaryLocations[0]", "not an S3 location"),
        ("{name: t, location: s3://bucket/t, id: a b}", "id", "'a b' is not 1 to 128 ASCII characters"),
        ("{name: t, location: s3://bucket/t, roleArn: reader}", "roleArn", "'reader' is not the ARN of an IAM role"),
        ("{name: t, location: s3://bucket/t, region: Frankfurt}", "region", "is not the name of an AWS region"),
        (
            "{name: t, location: s3://bucket/t, kmsKeyArn: 'arn:aws:kms:eu-west-1:123456789012:alias/a'}",
            "kmsKeyArn",
            "is not the ARN of a KMS key",
        ),
        ("{name: t, location: s3://bucket/t, comment: x}", "comment", "unknown key"),
    ],
)
def test_an_error_in_a_table_names_line_and_key(tmp_path, keys, key_path, expected):
    (problem,) = problems(tmp_path, one_table(keys))

    assert problem.startswith(f"shares.yaml:7: shares[0].schemas[0].tables[0].{key_path}: ")
    assert expected in problem


def test_an_external_id_requires_a_role(tmp_path):
    (problem,) = problems(tmp_path, one_table("{name: t, location: s3://bucket/t, externalId: abc}"))

    assert problem == "shares.yaml:7: shares[0].schemas[0].tables[0]: 'externalId' has no effect without 'roleArn'"


def test_table_names_are_unique_in_a_schema(tmp_path):
    found = problems(
        tmp_path,
        """\
        version: 1
        shares:
        - name: s
          schemas:
          - name: c
            tables:
            - {name: orders, location: s3://bucket/a, id: "1"}
            - {name: ORDERS, location: s3://bucket/b}
          - name: d
            tables:
            - {name: orders, location: s3://bucket/c, id: "2"}
        """,
    )

    assert found == ["shares.yaml:8: shares[0].schemas[0].tables[1].name: 'ORDERS' is already used on line 7"]


def test_all_problems_are_reported_together_in_the_order_of_their_lines(tmp_path):
    found = problems(
        tmp_path,
        """\
        version: 3
        shares:
        - name: s
          nonsense: true
          schemas:
          - tables:
            - name: t
        - name: s
        """,
    )

    assert [line.split(": ")[:2] for line in found] == [
        ["shares.yaml:1", "version"],
        ["shares.yaml:4", "shares[0].nonsense"],
        ["shares.yaml:6", "shares[0].schemas[0].name"],
        ["shares.yaml:7", "shares[0].schemas[0].tables[0].location"],
        ["shares.yaml:8", "shares[1].name"],
    ]


def test_a_local_directory_is_relative_to_the_file_if_the_caller_allows_it(tmp_path):
    (tmp_path / "my trips" / "_delta_log").mkdir(parents=True)
    path = write(tmp_path, one_table("{name: t, location: ./my trips}"))
    by_uri = write(tmp_path, one_table(f"{{name: t, location: 'file://{tmp_path}/my%20trips'}}"), "uri.yml")

    for file in (path, by_uri):
        assert only_table(load(file, local_tables=True)).directory == tmp_path / "my trips"
    assert only_table(load(write(tmp_path, one_table("{name: t, location: s3://bucket/t}")))).directory is None


def test_a_local_directory_without_a_delta_log_is_an_error(tmp_path):
    (problem,) = problems(tmp_path, one_table("{name: t, location: trips}"), local_tables=True)

    assert problem.endswith(f"location: no Delta table in {tmp_path}/trips (it has no _delta_log folder)")


@pytest.mark.parametrize("name", ["shares.json", "shares", "shares.yaml.bak"])
def test_a_file_with_another_suffix_is_rejected(tmp_path, name):
    with pytest.raises(CommandError, match="must be a yml or yaml file"):
        load(write(tmp_path, "version: 1", name))


def test_a_file_that_cannot_be_read_is_an_error_without_a_traceback(tmp_path):
    with pytest.raises(CommandError, match=r"shares\.yaml: No such file or directory"):
        load(tmp_path / "shares.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(CommandError, match="Is a directory"):
        load(tmp_path / "folder.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"version: 1 # \xe4")
    with pytest.raises(CommandError, match="not UTF-8"):
        load(tmp_path / "latin.yaml")


def test_a_huge_file_is_rejected_before_it_is_parsed(tmp_path):
    with pytest.raises(CommandError, match="larger than 4 MiB"):
        load(write(tmp_path, "#" * (MAX_BYTES + 1)))


def test_aliases_that_expand_exponentially_are_rejected(tmp_path):
    levels = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for previous, level in zip("abcdefgh", "bcdefghi", strict=True):
        levels.append(f"{level}: &{level} [{', '.join([f'*{previous}'] * 10)}]")

    (problem,) = problems(tmp_path, "\n".join(levels))

    assert problem.endswith("too large once its aliases are expanded")


def only_table(desired: SharesFile):
    ((table,),) = (schema.tables for share in desired.shares for schema in share.schemas)
    return table
