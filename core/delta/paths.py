"""Resolves the paths in actions to buckets and keys.

A path is a URI, percent-encoded once, and usually relative to the table's root. The raw string remains the file's
identity: file ids are hashes of it. An absolute path, as in shallow clones, is accepted only in the table's location or
one of its registered auxiliary locations. Nothing else may be shared.
"""

import re
import uuid
from collections.abc import Sequence
from urllib.parse import unquote

from core.delta.model import DeletionVector
from core.errors import DamagedLogError, UnsupportedOperationError
from core.storage.location import InvalidLocationError, S3Location

# A colon alone does not make a path absolute: the name of a partition column may contain one.
ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
DOTS = re.compile(r"(?:^|/)\.\.?(?:/|$)")
# If paths joined by newlines contain none of these, no path is absolute, escaped or dotted.
UNUSUAL = ("%", ":/", "\n/", "./", ".\n")
OUTSIDE = (
    "Table contains absolute paths and cannot be shared through delta sharing, "
    "unless its provider registers their locations as auxiliary locations of the table."
)
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
Z85_DIGITS = {character: digit for digit, character in enumerate(Z85)}
UUID_CHARACTERS = 20


class FilePaths:
    """Finds the files of a table in its location and its auxiliary locations."""

    def __init__(self, location: S3Location, auxiliary: Sequence[S3Location] = ()) -> None:
        self._location = location
        self._roots = (location, *auxiliary)

    def find(self, path: str) -> tuple[str, str]:
        """Returns the bucket and key of a data file, from its `path` in the log."""
        if ABSOLUTE.match(path):
            return self._below_a_root(_absolute(path))
        return self._relative(_decoded(path))

    def find_all(self, paths: Sequence[str]) -> list[tuple[str, str]]:
        """Finds many files. Fast if no path is absolute, escaped or dotted, as is usual."""
        lines = "\n".join(["", *paths, ""])
        if any(mark in lines for mark in UNUSUAL):
            return [self.find(path) for path in paths]
        bucket, directory = self._location.bucket, self._location.key("")
        return [(bucket, directory + path) for path in paths]

    def find_deletion_vector(self, vector: DeletionVector) -> tuple[str, str]:
        """Returns the bucket and key of the file that contains a deletion vector."""
        if vector.storage_type == "p":
            return self._below_a_root(_absolute(vector.path_or_inline_dv))
        if vector.storage_type == "u":
            return self._relative(_vector_file(vector.path_or_inline_dv))
        raise DamagedLogError("a deletion vector has an unknown storage type")

    def _relative(self, path: str) -> tuple[str, str]:
        bucket, key = self._location.bucket, self._location.key(path)
        if "./" in path or path.endswith("."):  # cheaper than the regular expression
            return self._below_a_root(S3Location(bucket, key))
        return bucket, key

    def _below_a_root(self, file: S3Location) -> tuple[str, str]:
        # S3 takes dots literally, but HTTP clients and Delta writers resolve them.
        found = file.resolved() if DOTS.search(file.prefix) else file
        if not any(root.covers(found) for root in self._roots):
            raise UnsupportedOperationError(OUTSIDE)
        return found.bucket, found.prefix


def _absolute(path: str) -> S3Location:
    try:
        return S3Location.parse(_decoded(path))
    except InvalidLocationError:
        raise UnsupportedOperationError(OUTSIDE) from None  # its message contains the path


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise DamagedLogError("the path of a file is not valid UTF-8") from error


def _vector_file(code: str) -> str:
    """Decodes an optional random directory and a UUID in Z85, which has five characters per four bytes."""
    directory, encoded = code[:-UUID_CHARACTERS], code[-UUID_CHARACTERS:]
    try:
        words = [_z85_word(encoded[start : start + 5]) for start in range(0, UUID_CHARACTERS, 5)]
        name = f"deletion_vector_{uuid.UUID(bytes=b''.join(words))}.bin"
    except (KeyError, ValueError, OverflowError) as error:
        raise DamagedLogError("the path of a deletion vector is not valid") from error
    return f"{directory}/{name}" if directory else name


def _z85_word(characters: str) -> bytes:
    a, b, c, d, e = (Z85_DIGITS[character] for character in characters)
    return ((((a * 85 + b) * 85 + c) * 85 + d) * 85 + e).to_bytes(4, "big")
