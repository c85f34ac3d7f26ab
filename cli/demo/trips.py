"""The data of the demo: a year of synthetic taxi trips, identical in every run."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

YEAR = 2025
CITIES = (
    "Amsterdam", "Athens", "Berlin", "Brussels", "Budapest", "Copenhagen", "Dublin", "Helsinki", "Lisbon",
    "Madrid", "Oslo", "Paris", "Prague", "Rome", "Stockholm", "Vienna", "Zürich",
)  # fmt: skip
MONTHS = tuple(dt.date(YEAR, month, 1) for month in range(1, 13))
TRIPS_PER_FILE = 1000
FILES = len(CITIES) * len(MONTHS)


def write_trips(directory: Path) -> Iterator[int]:
    """Writes one commit per month with one file per city. Yields the number of files so far."""
    random = np.random.default_rng(YEAR)
    for number, month in enumerate(MONTHS, start=1):
        write_deltalake(
            directory,
            _month_of_trips(random, month),
            mode="append",
            partition_by=["month", "city"],
            name="trips",
            description=f"Synthetic taxi trips of {YEAR}",
        )
        yield number * len(CITIES)


def _month_of_trips(random: np.random.Generator, month: dt.date) -> pa.Table:
    count = len(CITIES) * TRIPS_PER_FILE
    days = (month.replace(day=28) + dt.timedelta(days=4)).replace(day=1) - month
    started = np.datetime64(month, "us") + random.integers(0, days.days * 86_400, count).astype("timedelta64[s]")
    kilometres = np.round(random.gamma(2.0, 2.5, count) + 0.3, 1)
    return pa.table(
        {
            "month": pa.array([month] * count),
            "city": pa.array(np.repeat(CITIES, TRIPS_PER_FILE)),
            "started_at": pa.array(started, pa.timestamp("us", tz="UTC")),
            "minutes": pa.array(np.round(kilometres * random.uniform(2.0, 4.0, count), 0).astype("int32")),
            "kilometres": pa.array(kilometres),
            "fare": pa.array(np.round(3.5 + 1.9 * kilometres, 2)),
        }
    )


def write_cities(directory: Path) -> None:
    tariffs = np.round(np.random.default_rng(YEAR).uniform(1.4, 2.6, len(CITIES)), 2)
    write_deltalake(directory, pa.table({"city": list(CITIES), "tariff_per_km": tariffs}), name="cities")
