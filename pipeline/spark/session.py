"""A Spark session on this machine, for `sluice index`, tests and benchmarks."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "pipeline.spark.daemon",
    # Most of the work is in Python, so the JVM's optimizing compiler (C2) costs more time than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def local_session(name: str = "sluice", settings: Mapping[str, str] | None = None) -> "SparkSession":
    os.environ["JAVA_HOME"] = str(java_home())
    # By default, Spark binds to the machine's network address and runs its workers with the first python3 on the path.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
