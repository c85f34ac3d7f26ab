"""Spark with Delta Lake: what makes the tables, and the judge of what a client reads from them.

A table is a script of SQL statements (`tables/*.sql`). Each script runs in a session of its own, so that a `SET` in one
does not reach another. The rows are read after every statement: they are what that version of the table holds.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.session import local_session
from tests.clients.delta_log import Log
from tests.clients.rows import Rows, spark_rows

SCRIPTS = Path(__file__).parent / "tables"
HEADING = re.compile(r"^-- table (\w+): .*\n", re.MULTILINE)
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Of the logs that the connector makes, Delta Lake does not ask how old they are: nor shall it of ours (rebuilt.py).
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.sql.variant.allowReadingShredded": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    # All tables are tiny: plans compiled, adapted and spread over many partitions would take most of the time.
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
    places = {"spark.jars": ",".join(map(str, jars)), "spark.sql.warehouse.dir": str(folder)}
    return local_session("sluice-clients", SETTINGS | places)


def scripts() -> dict[str, list[str]]:
    """The statements of every table."""
    found: dict[str, list[str]] = {}
    for file in sorted(SCRIPTS.glob("*.sql")):
        _, *parts = HEADING.split(file.read_text())
        for name, script in zip(parts[::2], parts[1::2], strict=True):
            found[name] = script.strip().removesuffix(";").split(";\n")
    return found


def make_tables(spark: SparkSession, folder: Path) -> Mapping[str, Contents]:
    """What each table holds in the versions that its statements leave."""

    def make(name: str, statements: list[str]) -> Contents:
        own = spark.newSession()
        contents: Contents = {}
        for statement in statements:
            own.sql(statement.replace("{table}", f"delta.`{folder}/{name}`").replace("{folder}", str(folder)))
            if statement.startswith("VACUUM"):
                contents.clear()
            if (version := Log(folder / name).latest) >= 0 and version not in contents:
                frame = own.read.format("delta").load(f"{folder}/{name}")
                contents[version] = Content(frame.columns, spark_rows(frame))
        return contents

    made = scripts()
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(made, pool.map(make, made, made.values()), strict=True))
