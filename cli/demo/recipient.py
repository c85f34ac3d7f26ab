"""The recipient's side of the demo. Uses only the published client and the profile file."""

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING

import delta_sharing
from delta_sharing.protocol import DeltaSharingProfile, Table
from delta_sharing.rest_client import DataSharingRestClient

if TYPE_CHECKING:
    from pandas import DataFrame


def month_predicate(month: dt.date) -> str:
    return json.dumps(
        {
            "op": "equal",
            "children": [
                {"op": "column", "name": "month", "valueType": "date"},
                {"op": "literal", "value": month.isoformat(), "valueType": "date"},
            ],
        }
    )


class Reader:
    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._rest = DataSharingRestClient(DeltaSharingProfile.read_from_file(str(profile)))

    def tables(self) -> list[str]:
        client = delta_sharing.SharingClient(str(self._profile))
        return [f"{table.share}.{table.schema}.{table.name}" for table in client.list_all_tables()]

    def columns(self, table: str) -> list[tuple[str, str]]:
        metadata = delta_sharing.get_table_metadata(self._url(table))
        return [(field["name"], str(field["type"])) for field in json.loads(metadata.schema_string)["fields"]]

    def first_rows(self, table: str, count: int) -> "DataFrame":
        return delta_sharing.load_as_pandas(self._url(table), limit=count)

    def rows_where(self, table: str, predicate: str) -> "DataFrame":
        return delta_sharing.load_as_pandas(self._url(table), jsonPredicateHints=predicate)

    def files(self, table: str, *, predicate: str | None = None, limit: int | None = None) -> int:
        """Returns the number of files that the server lists for a query."""
        share, schema, name = table.split(".")
        answer = self._rest.list_files_in_table(
            Table(name=name, share=share, schema=schema), jsonPredicateHints=predicate, limitHint=limit
        )
        return len(answer.add_files)

    def _url(self, table: str) -> str:
        return f"{self._profile}#{table}"
