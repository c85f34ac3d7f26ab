"""From the `path` of an action to an object's key.

A path is a URI reference relative to the table's root, so it is percent-decoded exactly once. The raw string
stays the file's identity: file ids are hashes of it.
"""

import re
from urllib.parse import unquote

from core.errors import MalformedRequestError, UnsupportedOperationError
from core.storage.location import S3Location

# A colon alone is none: a partition column may have one in its name.
ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


def relative_key(path: str) -> str:
    if ABSOLUTE.match(path):
        raise UnsupportedOperationError("Table contains absolute paths and cannot be shared through delta sharing")
    if "%" not in path:
        return path
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedRequestError("The table's log names a file whose path is not valid UTF-8.") from error


def object_key(location: S3Location, path: str) -> str:
    return location.key(relative_key(path))
