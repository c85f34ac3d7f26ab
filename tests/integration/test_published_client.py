"""The published Python client lists and reads what the provider shares."""

import json

import delta_sharing
import pandas as pd
import pytest
import requests

from tests.integration.conftest import Served

pytestmark = pytest.mark.filterwarnings("ignore")


def rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Returns the rows, sorted, with nulls as None."""
    cleaned = frame.astype(object).where(frame.notna(), None)
    return sorted(cleaned.to_dict("records"), key=str)


def client(served: Served) -> delta_sharing.SharingClient:
    return delta_sharing.SharingClient(str(served.server.profile))


def test_the_client_lists_what_is_shared_in_the_providers_spelling(served: Served) -> None:
    sharing = client(served)
    assert [share.name for share in sharing.list_shares()] == ["other", "Sales"]
    sales = sharing.list_shares()[1]
    assert [schema.name for schema in sharing.list_schemas(sales)] == ["Core", "void"]
    tables = sharing.list_tables(sharing.list_schemas(sales)[0])
    assert [(table.share, table.schema, table.name) for table in tables] == [
        ("Sales", "Core", name) for name in ("events", "late", "many", "nothing", "People")
    ]
    assert sharing.list_all_tables() == tables


def test_all_rows_of_a_table_are_read(served: Served) -> None:
    frame = delta_sharing.load_as_pandas(served.server.table_url("Sales.Core.People"))
    assert rows(frame) == rows(served.people.to_pandas())


def test_partition_values_with_special_characters_are_read(served: Served) -> None:
    frame = delta_sharing.load_as_pandas(served.server.table_url("sales.CORE.Events"))
    expected = served.events.to_pandas()
    assert rows(frame[expected.columns]) == rows(expected)


def test_a_limit_returns_exactly_that_many_rows(served: Served) -> None:
    url = served.server.table_url("Sales.Core.events")
    assert len(delta_sharing.load_as_pandas(url, limit=6)) == 6
    assert len(delta_sharing.load_as_pandas(url, limit=0)) == 0


def test_a_predicate_on_a_partition_returns_only_the_rows_of_its_files(served: Served) -> None:
    predicate = {
        "op": "equal",
        "children": [
            {"op": "column", "name": "day", "valueType": "date"},
            {"op": "literal", "value": "2024-01-03", "valueType": "date"},
        ],
    }
    frame = delta_sharing.load_as_pandas(
        served.server.table_url("Sales.Core.events"), jsonPredicateHints=json.dumps(predicate)
    )
    assert sorted(frame["value"]) == [8, 9, 10, 11]


@pytest.mark.parametrize(("version", "count"), [(0, 3), (1, 5), (2, 2)])
def test_older_versions_are_read_if_history_is_shared(served: Served, version: int, count: int) -> None:
    frame = delta_sharing.load_as_pandas(served.server.table_url("Sales.Core.People"), version=version)
    assert len(frame) == count


def test_values_with_unicode_line_separators_do_not_split_lines(served: Served) -> None:
    frame = delta_sharing.load_as_pandas(served.server.table_url("Sales.Core.People"), version=1)
    assert {"line\u2028separator", "😀", "Zoë"} <= set(frame["name"])


def test_version_and_metadata_match_the_log(served: Served) -> None:
    url = served.server.table_url("Sales.Core.People")
    assert delta_sharing.get_table_version(url) == 2
    metadata = delta_sharing.get_table_metadata(url)
    assert (metadata.name, metadata.description, metadata.partition_columns) == ("people", "Who is who", [])
    assert [field["name"] for field in json.loads(metadata.schema_string)["fields"]] == ["id", "name"]


def test_the_error_of_the_client_contains_the_message_of_the_server(served: Served) -> None:
    with pytest.raises(requests.HTTPError) as caught:
        delta_sharing.load_as_pandas(served.server.table_url("Sales.Core.absent"))
    assert "does not exist, please" in str(caught.value)
