"""The body of `POST …/temporary-table-credentials`."""

from core.api.body import Body


def asked_location(body: bytes) -> str | None:
    """The location that credentials are asked for; None, also for an empty body, means the table's own."""
    if not body.strip():
        return None
    return Body.parse(body, "GenerateTemporaryTableCredentialRequest").text("location")
