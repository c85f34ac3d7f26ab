"""The family of errors that a recipient may see.

Each is raised where the fact is known and becomes an HTTP answer in one place (`core.runtime`). Its message goes to
the recipient word for word: it never carries a storage path, a bucket or a token.
"""

from typing import ClassVar


class SharingError(Exception):
    """An answer other than 200, in the protocol's form `{"errorCode", "message"}`."""

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


class AnswerTooLargeError(SharingError):
    """More than one answer can carry. A 400, because asking again gives the same."""

    status = 400
    code = "RESOURCE_LIMIT_EXCEEDED"


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


class NotImplementedYetError(SharingError):
    status = 501
    code = "NOT_IMPLEMENTED"
