"""Converts rows of Spark and pandas to one form, to compare them regardless of order.

pandas turns nulls into NaN, and integer columns with nulls into floats. Here, NaN counts as null, and numbers are
compared by value. Variants are compared as JSON.
"""

import datetime as dt
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.functions import to_json
from pyspark.sql.types import VariantVal

Rows = Counter[tuple[Any, ...]]


def spark_rows(frame: DataFrame, *without: str) -> Rows:
    # Arrow has no variant type.
    texts = {name: to_json(name) for name, data_type in frame.dtypes if data_type == "variant"}
    table = frame.withColumns(texts).drop(*without).toArrow()
    return Counter(zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True))


def pandas_rows(frame: pd.DataFrame, columns: list[str]) -> Rows:
    assert sorted(frame.columns) == sorted(columns)
    return Counter(zip(*(map(_plain, frame[name].tolist()) for name in columns), strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"metadata", "value"}:
        return VariantVal(value["value"], value["metadata"]).toJson()
    if isinstance(value, dict):
        return tuple((name, _plain(each)) for name, each in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(map(_plain, value))
    if value is None or value is pd.NaT or value != value:
        return None
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False)
    if isinstance(value, dt.datetime) and value.tzinfo:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
