"""What a check is: a function that says what it found, or raises why it failed or what is doubtful.

The checks of one subject build on each other: after the first failure the rest is not run, because its findings
would only be consequences. A warning stops nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from botocore.exceptions import BotoCoreError, ClientError

from cli.account import explain
from core.errors import SharingError


class Status(StrEnum):
    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Finding:
    subject: str
    check: str
    status: Status
    detail: str
    remedy: str | None = None


class NotPassedError(Exception):
    status: ClassVar[Status]

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class CheckFailedError(NotPassedError):
    status = Status.FAILED


class CheckWarnedError(NotPassedError):
    """Something that the provider should know, and that keeps nobody from reading."""

    status = Status.WARNED


class NothingToCheckError(Exception):
    """There is nothing that the check could look at."""


Check: TypeAlias = tuple[str, Callable[[], str]]


def run_checks(subject: str, checks: Sequence[Check]) -> Iterator[Finding]:
    for index, (name, check) in enumerate(checks):
        finding = _run(subject, name, check)
        yield finding
        if finding.status is Status.FAILED:
            for later, _ in checks[index + 1 :]:
                yield Finding(subject, later, Status.NOT_RUN, f"because '{name}' failed")
            return


def _run(subject: str, name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, name, Status.PASSED, check())
    except NothingToCheckError as error:
        return Finding(subject, name, Status.NOT_RUN, str(error))
    except NotPassedError as error:
        return Finding(subject, name, error.status, error.detail, error.remedy)
    except SharingError as error:
        remedy = "Recipients are told the same: mend the table, or share one that this server supports."
        return Finding(subject, name, Status.FAILED, error.message, remedy)
    except (BotoCoreError, ClientError) as error:
        remedy = "Put right what AWS says, then run the doctor again."
        return Finding(subject, name, Status.FAILED, explain(error), remedy)
