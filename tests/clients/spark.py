"""Writes the tables with Spark and Delta Lake, and reads the rows that clients must return.

A table is a script of SQL statements (`tables/*.sql`). Each script runs in its own session, so that a `SET` does not
affect other tables. The rows are read after every statement, as the expected rows of that version.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.spark.session import local_session
from tests.clients.delta_log import Log
from tests.clients.rows import Rows, spark_rows

SCRIPTS = Path(__file__).parent / "tables"
HEADING = re.compile(r"^-- table (\w+): .*\n", re.MULTILINE)
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Delta Lake does not check the age of logs that the connector builds, so it must not check ours (rebuilt.py).
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.sql.variant.allowReadingShredded": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    # All tables are tiny. Code generation, adaptive plans and many partitions would take most of the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(frozen=True)
class Content:
    columns: list[str]
    rows: Rows


Contents = dict[int, Content]


def session(jars: list[Path], folder: Path) -> SparkSession:
    paths = {"spark.jars": ",".join(map(str, jars)), "spark.sql.warehouse.dir": str(folder)}
    return local_session("sluice-clients", SETTINGS | paths)


def scripts() -> dict[str, list[str]]:
    """Returns the SQL statements of every table."""
    found: dict[str, list[str]] = {}
    for file in sorted(SCRIPTS.glob("*.sql")):
        _, *parts = HEADING.split(file.read_text())
        for name, script in zip(parts[::2], parts[1::2], strict=True):
            found[name] = script.strip().removesuffix(";").split(";\n")
    return found


def make_tables(spark: SparkSession, folder: Path) -> Mapping[str, Contents]:
    """Writes all tables. Returns the content of each table at every version that can still be read."""

    def make(name: str, statements: list[str]) -> Contents:
        own_session = spark.newSession()
        contents: Contents = {}
        for statement in statements:
            own_session.sql(statement.replace("{table}", f"delta.`{folder}/{name}`").replace("{folder}", str(folder)))
            if statement.startswith("VACUUM"):
                contents.clear()
            if (version := Log(folder / name).latest) >= 0 and version not in contents:
                frame = own_session.read.format("delta").load(f"{folder}/{name}")
                contents[version] = Content(frame.columns, spark_rows(frame))
        return contents

    tables = scripts()
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(tables, pool.map(make, tables, tables.values()), strict=True))
