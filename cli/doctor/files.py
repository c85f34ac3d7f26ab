"""Checks the files of a table: their locations, and whether a signed URL opens, as for a recipient."""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from cli.doctor.checks import CheckFailedError
from core.delta.paths import FilePaths
from core.delta.snapshot import Snapshot
from core.errors import UnsupportedOperationError
from core.storage.location import S3Location
from core.storage.session import StorageSession

PARQUET_MAGIC = b"PAR1"
SHOWN_PATHS = 3


def live_files(snapshot: Snapshot, roots: Sequence[S3Location]) -> dict[S3Location, S3Location]:
    """Returns one data file per root (the location and the auxiliary ones). Fails if a file is outside all roots."""
    paths = FilePaths(roots[0], roots[1:])
    found: dict[S3Location, S3Location] = {}
    outside, shown = 0, []
    for add in snapshot.adds():
        named, vector = add.path, add.deletion_vector
        try:
            file = S3Location(*paths.find(named))
            if vector and vector.storage_type != "i":  # an inline vector has no file
                named = vector.path_or_inline_dv
                paths.find_deletion_vector(vector)
        except UnsupportedOperationError:
            outside += 1
            if outside <= SHOWN_PATHS:
                shown.append(named)
            continue
        found.setdefault(next(root for root in roots if root.covers(file)), file)
    if outside:
        raise CheckFailedError(
            f"files outside of the table's locations: {outside:,}, such as {', '.join(shown)}",
            "Give the table the folders that hold them (`--auxiliary-location`, or `auxiliaryLocations` in the YAML "
            "file). What does not lie in S3 cannot be shared.",
        )
    return found


def open_data_file(session: StorageSession, file: S3Location) -> None:
    if open_file(session, file) != PARQUET_MAGIC:
        raise CheckFailedError(f"{file.uri} is not a Parquet file", "Restore the file: something overwrote it.")


def open_file(session: StorageSession, file: S3Location) -> bytes:
    """Returns the first bytes of a file. Never shows the URL, which grants access to anyone."""
    url = session.signer(file.bucket).sign(file.prefix)
    try:
        answer = URLLib3Session().send(AWSRequest("GET", url, headers={"Range": "bytes=0-3"}).prepare())
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:  # its text would show the whole URL
        remedy = "Check the network and its proxies: recipients need a way to this host."
        raise CheckFailedError(f"{urlsplit(url).netloc} cannot be reached", remedy) from error
    if answer.status_code == HTTPStatus.NOT_FOUND:
        remedy = "The log names a file that is gone: restore it, or the table (was it vacuumed or moved?)."
        raise CheckFailedError(f"{file.uri} does not exist", remedy)
    if answer.status_code not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise CheckFailedError(
            f"the signed URL of {file.uri} answers {answer.status_code}",
            "Let the role's policy allow s3:GetObject on it (with kms:Decrypt, if encrypted), and look for a bucket "
            "policy that forbids access from here.",
        )
    return answer.content[: len(PARQUET_MAGIC)]
