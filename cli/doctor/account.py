"""Checks the account: region, clock, credentials and catalog."""

import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime

from botocore import UNSIGNED
from botocore.exceptions import ClientError, NoRegionError

from cli.common.account import Account
from cli.doctor.checks import ACCOUNT, CheckFailedError, Finding, run_checks

# SigV4 tolerates 5 minutes. A clock that is off by a minute is likely to drift further.
MAX_CLOCK_SKEW_SECONDS = 60


class AccountChecks:
    def __init__(self, account: Account, *, now: Callable[[], float] = time.time) -> None:
        self._account = account
        self._now = now

    def run(self) -> Iterator[Finding]:
        checks = [
            ("region", self._region),
            ("clock", self._clock),  # before the credentials: with a wrong clock, AWS rejects valid keys
            ("credentials", self._credentials),
            ("catalog", self._catalog),
        ]
        return run_checks(ACCOUNT, checks)

    def _region(self) -> str:
        try:
            return self._account.region
        except NoRegionError as error:
            raise CheckFailedError("no AWS region is set", "Set AWS_REGION or use --region.") from error

    def _clock(self) -> str:
        """Compares the clock with the Date header of AWS's response to an unsigned request."""
        sts = self._account.client("sts", signature_version=UNSIGNED)
        try:
            response = sts.get_caller_identity()
        except ClientError as error:  # AWS rejects the request; the response still has the header
            response = error.response
        date = response["ResponseMetadata"]["HTTPHeaders"].get("date")
        if date is None:
            raise CheckFailedError("the response of the endpoint has no date", "Check --endpoint-url: is it AWS?")
        skew = self._now() - parsedate_to_datetime(date).timestamp()
        if abs(skew) > MAX_CLOCK_SKEW_SECONDS:
            raise CheckFailedError(
                f"the clock of this machine is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} AWS's",
                "Synchronize the clock (NTP): AWS rejects signatures that are 5 minutes off.",
            )
        return f"{abs(skew):.0f} s off"

    def _credentials(self) -> str:
        identity = self._account.client("sts").get_caller_identity()
        return str(identity["Arn"])

    def _catalog(self) -> str:
        shares = self._account.admin().shares()
        return f"{self._account.settings.catalog_table}: {len(shares)} shares"
