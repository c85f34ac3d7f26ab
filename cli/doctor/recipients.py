"""Checks what recipients need besides tables: an endpoint that answers, and tokens that stay valid."""

import json
import os
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.httpsession import URLLib3Session

from cli.common.account import Account
from cli.common.documents import timestamp
from cli.doctor.checks import (
    RECIPIENTS,
    CheckFailedError,
    CheckWarnedError,
    Finding,
    NothingToCheckError,
    run_checks,
)
from core.catalog.model import Recipient, Token

ENDPOINT = "SLUICE_ENDPOINT"
ENDPOINT_SECONDS = 30  # longer than a cold start
EXPIRING_DAYS = 14
SHOWN_TOKENS = 3


class RecipientChecks:
    def __init__(self, account: Account, *, now: Callable[[], float] = time.time) -> None:
        self._account = account
        self._now = now

    def run(self) -> Iterator[Finding]:
        """Runs both checks, whatever the other finds. No check of a table depends on them."""
        yield from run_checks(RECIPIENTS, [("endpoint", self._endpoint)])
        yield from run_checks(RECIPIENTS, [("tokens", self._tokens)])

    def _endpoint(self) -> str:
        """Sends a request without a token. A Delta Sharing server refuses it with 401 and an error in JSON."""
        endpoint = os.environ.get(ENDPOINT, "").rstrip("/")
        if not endpoint:
            raise NothingToCheckError(f"{ENDPOINT} is not set")
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise CheckFailedError(f"'{endpoint}' is not a URL", f"Set {ENDPOINT} to https://host/delta-sharing.")
        response = _get(f"{endpoint}/shares")
        status = response.status_code
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise CheckWarnedError(f"{endpoint} answers 429", "The server is throttled. Try again in a minute.")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            remedy = "See the log groups of API Gateway and of the function ListShares."
            raise CheckFailedError(f"{endpoint} answers {status}", remedy)
        if status != HTTPStatus.UNAUTHORIZED or not _is_protocol_error(response.content):
            remedy = f"Set {ENDPOINT} to the URL of the server with its path, such as https://host/delta-sharing."
            raise CheckFailedError(f"{endpoint} is not a Delta Sharing server: it answers {status}", remedy)
        return f"{endpoint} answers"

    def _tokens(self) -> str:
        from cli.serve.session import RECIPIENT  # its tokens end with `sluice serve`

        recipients = [recipient for recipient in self._account.admin().recipients() if recipient.name != RECIPIENT]
        ending = sorted(
            ((token.expires_at, recipient, token) for recipient in recipients for token in self._ending(recipient)),
            key=lambda entry: entry[0],
        )
        if ending:
            shown = [self._describe(recipient, token) for _, recipient, token in ending[:SHOWN_TOKENS]]
            more = f" and {len(ending) - SHOWN_TOKENS} more" if len(ending) > SHOWN_TOKENS else ""
            raise CheckWarnedError(
                f"{', '.join(shown)}{more}",
                f"Run `sluice token rotate RECIPIENT --out FILE` and send the file, unless the token was replaced. "
                f"`sluice token list --expiring {EXPIRING_DAYS}d` lists all of them.",
            )
        return f"none expires within {EXPIRING_DAYS} days"

    def _ending(self, recipient: Recipient) -> list[Token]:
        """Returns the valid tokens that expire soon, or if none is valid, the one that expired last."""
        valid = [token for token in recipient.tokens if token.expires_at > self._now()]
        if not valid:
            return sorted(recipient.tokens, key=lambda token: token.expires_at)[-1:]
        return [token for token in valid if token.expires_at <= self._now() + EXPIRING_DAYS * 86_400]

    def _describe(self, recipient: Recipient, token: Token) -> str:
        verb = "expired" if token.expires_at <= self._now() else "expires"
        return f"the token {token.id} of {recipient.name} {verb} {timestamp(token.expires_at)}"


def _get(url: str) -> AWSResponse:
    try:
        return URLLib3Session(timeout=ENDPOINT_SECONDS).send(AWSRequest("GET", url).prepare())
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        remedy = f"Check {ENDPOINT}, the network and the certificate of the domain. Recipients need access to it."
        raise CheckFailedError(f"{url} cannot be reached: {error}", remedy) from error


def _is_protocol_error(body: bytes) -> bool:
    try:
        return "errorCode" in json.loads(body)
    except (ValueError, TypeError):
        return False
