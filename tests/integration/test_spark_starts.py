"""Spark starts as `make` sets it up: it finds Java, and its Python workers run in this environment."""

import sys

import pytest

from pipeline.spark.session import local_session


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_local_session_runs_its_python_workers_in_this_environment() -> None:
    spark = local_session("sluice-test")
    try:
        interpreters = spark.sparkContext.parallelize(range(4), 2).map(lambda _: sys.executable).distinct().collect()
        assert interpreters == [sys.executable]
        assert spark.range(1000).selectExpr("sum(id)").first()[0] == 499_500
    finally:
        spark.stop()
