"""Builds the indexes of tables on this machine. Starts Spark only for tables that need it."""

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
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter, WriteFailedError
from core.storage.location import S3Location
from pipeline.build_options import BuildOptions
from pipeline.indexing import Indexer, Outcome, Progress
from pipeline.spark.java import NoJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
# The modules that the extra `pipeline` installs.
EXTRA_MODULES = frozenset({"pyspark", "py4j"})
QUIET_SPARK = {"spark.log.level": "ERROR"}


@dataclass(frozen=True, slots=True)
class Failure:
    table: str
    reason: str


Result: TypeAlias = Outcome | Failure


def index_table(account: Account, *, write_rate: float | None = None) -> IndexTable:
    name = account.settings.index_table
    if name is None:
        raise CommandError(
            "No index table is set. Use --index, or set SLUICE_INDEX_TABLE to the output IndexTable of the stack."
        )
    client = account.client("dynamodb")
    return IndexTable(IndexStore(client, name), IndexWriter(client, name, units_per_second=write_rate))


@contextlib.contextmanager
def index_table_required(account: Account) -> Iterator[None]:
    """Raises a CommandError if the index table does not exist."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        raise CommandError(
            f"The index table '{account.settings.index_table}' does not exist in this account and region. "
            "Check --index, SLUICE_INDEX_TABLE and --region."
        ) from error


def build_indexes(account: Account, tables: Iterable[Table], options: BuildOptions) -> Generator[Result]:
    """Indexes the tables one after the other. A failure does not stop the remaining tables."""
    indexes = index_table(account, write_rate=options.write_rate)
    built: set[str] = set()
    with environment_restored(), index_table_required(account), _local_spark() as start_spark:
        account.export()
        for table in tables:
            with reported(table.full_name, sys.stderr) as report:
                indexer = Indexer(
                    indexes,
                    spark=partial(start_spark, report),
                    columns=options.columns,
                    footers=options.footers,
                    progress=report,
                )
                result = _in_thread(partial(_build, indexer, table, built, full=options.full))
            yield result


def _in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in its own thread, so a signal in the main thread cannot interrupt a call to Spark's JVM.

    After a signal, the thread ends with the process. A build can be abandoned at any point.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            future.set_exception(error)

    threading.Thread(target=run, name="build", daemon=True).start()
    return future.result()


def _build(indexer: Indexer, table: Table, built: set[str], *, full: bool) -> Result:
    """Indexes one table. `built` holds the locations so far: tables with the same location share an index."""
    try:
        with reading(table):
            location = S3Location.parse(table.location).uri
            full = full and location not in built
            built.add(location)
            return indexer.index(table, full=full)
    except CommandError as error:
        return Failure(table.full_name, error.message)
    except (WriteFailedError, NoJavaError, NotIndexableError) as error:
        return Failure(table.full_name, str(error))
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in EXTRA_MODULES:
            raise
        return Failure(
            table.full_name,
            f"{missing.name} is not installed. Large tables and tables without statistics need Spark: "
            "install sluice-sharing[pipeline].",
        )


@contextlib.contextmanager
def _local_spark() -> Iterator["Callable[[Progress], SparkSession]"]:
    """Provides a function that starts Spark on this machine at its first call. Stops Spark at the end."""
    session: SparkSession | None = None

    def start(report: Progress) -> "SparkSession":
        nonlocal session
        if session is None:
            from pipeline.spark.session import local_session

            report("starting Spark", 0, None)
            session = local_session(settings=QUIET_SPARK)
        return session

    try:
        yield start
    finally:
        if session is not None:
            _stop(session)


def _stop(session: "SparkSession") -> None:
    """Silences Spark first: a cancelled build would log stack traces."""
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.cancelAllJobs()
    session.stop()
