"""A fake STS that issues numbered credentials and records its requests."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

LIFE_SECONDS = 3600


class Clock:
    def __init__(self, seconds: float = 1_800_000_000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


class FakeSts:
    def __init__(self, now: Callable[[], float], *, life_seconds: float = LIFE_SECONDS) -> None:
        self.calls: list[dict[str, Any]] = []
        self.failures: list[Exception] = []
        self._now = now
        self._life_seconds = life_seconds

    def __call__(self) -> "FakeSts":
        return self

    def assume_role(self, **request: Any) -> dict[str, Any]:
        self.calls.append(request)
        if self.failures:
            raise self.failures.pop(0)
        return {
            "Credentials": {
                "AccessKeyId": f"ASIA{len(self.calls)}",
                "SecretAccessKey": "the-secret",
                "SessionToken": "the-token",
                "Expiration": dt.datetime.fromtimestamp(self._now() + self._life_seconds, dt.UTC),
            }
        }


def sts_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "arn:aws:iam::1:role/r"}}, "AssumeRole")
