"""Checks that the files of a table are in its locations, and opens some with signed URLs, like a recipient."""

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
    """Returns one data file per root (the location or an auxiliary one). Fails if a file is outside all roots."""
    paths = FilePaths(roots[0], roots[1:])
    found: dict[S3Location, S3Location] = {}
    outside, examples = 0, []
    for add in snapshot.adds():
        path, vector = add.path, add.deletion_vector
        try:
            file = S3Location(*paths.find(path))
            if vector and vector.storage_type != "i":  # an inline vector has no file
                path = vector.path_or_inline_dv
                paths.find_deletion_vector(vector)
        except UnsupportedOperationError:
            outside += 1
            if outside <= SHOWN_PATHS:
                examples.append(path)
            continue
        found.setdefault(next(root for root in roots if root.covers(file)), file)
    if outside:
        raise CheckFailedError(
            f"files outside of the table's locations: {outside:,}, such as {', '.join(examples)}",
            "Register the folders of these files with `--auxiliary-location` (`auxiliaryLocations` in the YAML file). "
            "Files outside S3 cannot be shared.",
        )
    return found


def open_data_file(session: StorageSession, file: S3Location) -> None:
    if open_file(session, file) != PARQUET_MAGIC:
        raise CheckFailedError(f"{file.uri} is not a Parquet file", "Restore the file. It was overwritten.")


def open_file(session: StorageSession, file: S3Location) -> bytes:
    """Returns the first bytes of a file. Never shows the URL, which grants access to anyone."""
    url = session.signer(file.bucket).sign(file.prefix)
    try:
        response = URLLib3Session().send(AWSRequest("GET", url, headers={"Range": "bytes=0-3"}).prepare())
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:  # its text contains the URL
        remedy = "Check the network and its proxies. Recipients need access to this host too."
        raise CheckFailedError(f"{urlsplit(url).netloc} cannot be reached", remedy) from error
    if response.status_code == HTTPStatus.NOT_FOUND:
        remedy = "The log refers to a deleted file. Restore the file or the table. Was it vacuumed or moved?"
        raise CheckFailedError(f"{file.uri} does not exist", remedy)
    if response.status_code not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise CheckFailedError(
            f"the signed URL of {file.uri} returns {response.status_code}",
            "Allow s3:GetObject on the file in the role's policy (and kms:Decrypt if it is encrypted). "
            "Check that the bucket policy does not deny access from this network.",
        )
    return response.content[: len(PARQUET_MAGIC)]
