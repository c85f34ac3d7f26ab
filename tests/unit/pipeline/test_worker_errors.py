"""Errors on their way from a worker to the job: Spark passes a traceback as text, and the job gets the same error."""

import pickle
import traceback
from collections.abc import Iterator
from functools import partial

import botocore.session
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer

from core.errors import ChangedLogError, DamagedLogError, SharingError, TableFilesError, UnsupportedOperationError
from core.index.layout.rows import NotIndexableError
from core.index.write.packing import TooLargeFileError
from core.index.write.writer import WriteFailedError
from core.storage.location import InvalidLocationError
from core.storage.roles import NoStorageRoleError
from pipeline.failures import FAILURES
from pipeline.spark.worker_errors import WorkerError, carried_errors, carries_errors, worker_errors

ERRORS = [
    DamagedLogError("add: size is missing", file="_delta_log/00000000000000000003.json", line=2),
    ChangedLogError(7),
    TableFilesError("permission denied"),
    UnsupportedOperationError("Two lines,\ncore.errors.NotFoundError: and a class name"),
    NotIndexableError("The log has an invalid value for tags."),
    TooLargeFileError(),
    WriteFailedError("throttled"),
    InvalidLocationError("s3:/x"),
    NoStorageRoleError("no role"),
    ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutItem"),
    EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
]


def carried(error: Exception) -> Exception:
    """Returns what the job raises for an error in a worker."""
    try:
        with worker_errors():
            fail(PySparkException(text_of(error)))
    except Exception as restored:  # noqa: BLE001
        return restored
    raise AssertionError


def text_of(error: Exception) -> str:
    """Returns the text that Spark passes on."""
    try:
        with carried_errors():
            fail(error)
    except Exception:  # noqa: BLE001
        return f"[PYTHON_EXCEPTION] An exception was thrown:\n{traceback.format_exc()}\n\tat org.apache.spark.Task\n"
    raise AssertionError


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_job_gets_the_error_of_the_worker(error: Exception) -> None:
    restored = carried(error)
    assert type(restored) is type(error)
    assert str(restored) == str(error)
    assert restored.args == error.args
    if isinstance(error, SharingError):
        assert vars(restored) == vars(error)


def test_every_expected_error_is_tried_here() -> None:
    assert {base for base in FAILURES for error in ERRORS if isinstance(error, base)} == set(FAILURES)


def test_the_cause_is_carried_as_its_text() -> None:
    error = TableFilesError("permission denied")
    error.__cause__ = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")
    assert str(carried(error).__cause__) == str(error.__cause__)
    assert carried(TableFilesError("table files missing")).__cause__ is None


def test_an_error_class_that_botocore_made_at_run_time_is_restored_as_its_base() -> None:
    session = botocore.session.get_session()
    client = session.create_client("dynamodb", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    throttled = client.exceptions.from_code("ProvisionedThroughputExceededException")
    response = {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow down"}}
    restored = carried(throttled(response, "BatchWriteItem"))
    assert isinstance(restored, ClientError)
    assert restored.response == response


def test_the_response_of_aws_stays_in_the_worker_except_for_code_and_message() -> None:
    response = {"Error": {"Code": "SignatureDoesNotMatch", "Message": "no", "CanonicalRequest": "token"}}
    restored = carried(ClientError(response, "GetObject"))  # type: ignore[arg-type]
    assert isinstance(restored, ClientError)
    assert restored.response == {"Error": {"Code": "SignatureDoesNotMatch", "Message": "no"}}


@pytest.mark.parametrize("error", [ZeroDivisionError("core.errors.NotFoundError: x"), MemoryError()])
def test_an_unexpected_error_stays_that_of_spark(error: Exception) -> None:
    with pytest.raises(PySparkException), worker_errors():
        raise PySparkException(text_of(error))


def rows(batches: Iterator[int], last: int) -> Iterator[int]:
    yield from batches
    yield last
    raise NotIndexableError("too large")


def test_a_wrapped_function_yields_its_rows_and_can_be_sent_to_a_worker() -> None:
    sent = pickle.loads(CloudPickleSerializer().dumps(partial(carries_errors(rows), last=3)))
    found = sent(iter([1, 2]))
    assert [next(found) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(WorkerError, match="^too large <sluice-error ") as raised:
        next(found)
    with pytest.raises(NotIndexableError, match="^too large$"), worker_errors():
        raise PySparkException(str(raised.value))
