"""Errors that a recipient may see.

`core.runtime` turns them into HTTP responses. The recipient gets the message verbatim, so it never contains a storage
path, a bucket or a token.
"""

from typing import ClassVar


class SharingError(Exception):
    """An error response of the protocol: a status and a JSON object with `errorCode` and `message`."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidParameterError(SharingError):
    status = 400
    code = "INVALID_PARAMETER_VALUE"


class MalformedRequestError(SharingError):
    status = 400
    code = "MALFORMED_REQUEST"


class UnsupportedOperationError(SharingError):
    status = 400
    code = "UNSUPPORTED_OPERATION"


class TableFilesError(SharingError):
    """The table is shared, but its files cannot be reached. A 400, because clients retry a 5xx for minutes."""

    status = 400
    code = "RESOURCE_DOES_NOT_EXIST"


class DamagedLogError(SharingError):
    """The table's log violates the Delta protocol. A 400, because a retry would fail too.

    `message` is for recipients. `problem`, which is also the text of the exception, is for the provider: it names the
    file and the line, and never contains values of the table.
    """

    status = 400
    code = "TABLE_UNREADABLE"

    def __init__(self, what: str, *, file: str | None = None, line: int | None = None) -> None:
        """`file` is relative to the table's location. `line` counts from 1."""
        super().__init__(
            "The table cannot be read because its transaction log is damaged. Please contact the provider of the table."
        )
        self.what, self.file, self.line = what, file, line

    @property
    def problem(self) -> str:
        position = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{position}: {self.what}" if position else self.what

    def __str__(self) -> str:
        return self.problem


class AnswerTooLargeError(SharingError):
    """The answer would exceed a limit of the server. A 400, because a retry would fail too."""

    status = 400
    code = "RESOURCE_LIMIT_EXCEEDED"


class LongLogError(AnswerTooLargeError):
    """The log of a version is too long to be read while a client waits.

    `version` and `tip` identify the version, so that its index can be built instead.
    """

    def __init__(self, version: int, tip: str) -> None:
        super().__init__(
            f"The transaction log of table version {version} is too long for this server to read while a client waits, "
            "and the table has no usable index. Use a client that supports asynchronous queries (asyncquery=true), or "
            "ask your share provider to index the table with `sluice index`."
        )
        self.version, self.tip = version, tip


class DeadlineExceededError(SharingError):
    """The request would take longer than the function may run. A 400, because clients retry a 5xx for minutes."""

    status = 400
    code = "DEADLINE_EXCEEDED"


class QueryFailedError(SharingError):
    """An asynchronous query failed. A 400, because it stays failed."""

    status = 400
    code = "QUERY_FAILED"


class UnauthenticatedError(SharingError):
    status = 401
    code = "UNAUTHENTICATED"

    def __init__(self, message: str, *, token_was_sent: bool) -> None:
        super().__init__(message)
        self.token_was_sent = token_was_sent


class NotFoundError(SharingError):
    status = 404
    code = "RESOURCE_DOES_NOT_EXIST"


class MethodNotAllowedError(SharingError):
    status = 405
    code = "METHOD_NOT_ALLOWED"

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class ChangedLogError(MalformedRequestError):
    """The pinned version can no longer be read with the same files in the same order."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"Table version {version} can no longer be read in the same state, because the table's transaction "
            "log was cleaned up or rewritten. Please restart the query."
        )
