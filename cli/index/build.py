"""Builds indexes of tables on this machine, with a Spark of its own for tables that are too large to do without."""

import contextlib
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from botocore.exceptions import ClientError

from cli.common.account import Account, environment_restored
from cli.common.errors import CommandError
from cli.common.reading import reading
from cli.index.progress import reported
from core.catalog.model import Table
from core.index.layout.rows import NotIndexableError
from core.index.read.store import IndexStore
from core.index.write.writer import IndexWriter, WriteFailedError
from core.storage.location import S3Location
from pipeline.build_options import BuildOptions
from pipeline.indexing import Indexer, Outcome, Progress
from pipeline.local_build import IndexTable
from pipeline.spark.java import NoJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
# The modules that the extra `pipeline` installs.
EXTRA_MODULES = frozenset({"pyspark", "py4j"})
QUIET = {"spark.log.level": "ERROR"}


@dataclass(frozen=True, slots=True)
class Failure:
    table: str
    reason: str


Result: TypeAlias = Outcome | Failure


def index_table(account: Account, *, write_rate: float | None = None) -> IndexTable:
    name = account.settings.index_table
    if name is None:
        raise CommandError(
            "There is no table for indexes: set SLUICE_INDEX_TABLE to the output IndexTable of the deployed stack."
        )
    client = account.client("dynamodb")
    return IndexTable(IndexStore(client, name), IndexWriter(client, name, units_per_second=write_rate))


@contextlib.contextmanager
def index_table_found() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        raise CommandError(
            "The table for indexes is not in this account and region: see SLUICE_INDEX_TABLE."
        ) from error


def build_indexes(account: Account, tables: Iterable[Table], options: BuildOptions) -> Generator[Result]:
    """One after the other: what is wrong with one table does not keep the others from theirs."""
    indexes = index_table(account, write_rate=options.write_rate)
    seen: set[str] = set()
    with environment_restored(), index_table_found(), _local_spark() as spark:
        account.export()
        for table in tables:
            with reported(table.full_name, sys.stderr) as report:
                started = partial(spark, report)
                indexer = Indexer(
                    indexes, spark=started, columns=options.columns, footers=options.footers, progress=report
                )
                result = _in_thread(partial(_build, indexer, table, seen, full=options.full))
            yield result


def _in_thread(work: Callable[[], T]) -> T:
    """So that a signal, which comes to the main thread, does not cut through a talk with Spark's JVM.

    The thread ends with the process: a build may be given up at any point.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  the caller gets it
            done.set_exception(error)

    threading.Thread(target=run, name="build", daemon=True).start()
    return done.result()


def _build(indexer: Indexer, table: Table, seen: set[str], *, full: bool) -> Result:
    try:
        with reading(table):
            location = S3Location.parse(table.location).uri
            full = full and location not in seen  # tables of one location have one index
            seen.add(location)
            return indexer.index(table, full=full)
    except CommandError as error:
        return Failure(table.full_name, error.message)
    except (WriteFailedError, NoJavaError) as error:
        return Failure(table.full_name, str(error))
    except NotIndexableError:
        return Failure(table.full_name, "What its log says of a single file is larger than DynamoDB takes.")
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in EXTRA_MODULES:
            raise
        return Failure(
            table.full_name,
            f"{missing.name} is not installed. Large tables and tables without statistics are indexed with Spark: "
            "install sluice-sharing[pipeline].",
        )


@contextlib.contextmanager
def _local_spark() -> Iterator["Callable[[Progress], SparkSession]"]:
    """Spark on this machine, started when it is first asked for."""
    session: SparkSession | None = None

    def start(report: Progress) -> "SparkSession":
        nonlocal session
        if session is None:
            from pipeline.spark.session import local_session

            report("starting Spark", 0, None)
            session = local_session(settings=QUIET)
        return session

    try:
        yield start
    finally:
        if session is not None:
            _end(session)


def _end(session: "SparkSession") -> None:
    """Also in the middle of a build, of which there is then nothing more to tell."""
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.cancelAllJobs()
    session.stop()
