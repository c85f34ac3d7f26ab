"""Build options: defaults, limits and help texts, shared by `sluice index` and the job."""

from dataclasses import dataclass

from core.index.layout.columns import INDEXED_COLUMNS, MAX_INDEXED_COLUMNS

MIN_WRITE_RATE = 1
ALL_HELP = "Index all tables of the catalog."
FULL_HELP = "Rebuild the whole index instead of updating the existing one."
COLUMNS_HELP = (
    f"Number of columns to index in addition to the partition columns, from 0 to {MAX_INDEXED_COLUMNS}: the first "
    "columns, or the first of delta.dataSkippingStatsColumns if the table sets it."
)
NO_FOOTERS_HELP = "Do not read Parquet footers for statistics that the log lacks."
WRITE_RATE_HELP = "Maximum number of DynamoDB write units to use per second."


@dataclass(frozen=True, slots=True)
class BuildOptions:
    full: bool = False
    footers: bool = True
    write_rate: float | None = None
    columns: int = INDEXED_COLUMNS
