"""Runs checks. A check is a function that returns what it found, or raises a failure or a warning.

Later checks of a subject depend on earlier ones, so they do not run after a failure. A warning does not stop them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from botocore.exceptions import BotoCoreError, ClientError

from cli.common.account import explain
from core.errors import DamagedLogError, SharingError

# The subjects of findings that are not about a table.
ACCOUNT = "account"
RECIPIENTS = "recipients"


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
    """A problem that does not prevent recipients from reading."""

    status = Status.WARNED


class NothingToCheckError(Exception):
    """The check does not apply, for example to a table without files."""


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
    except DamagedLogError as error:
        remedy = (
            "Restore this file of the log, for example an earlier version of the object, or rewrite the table. "
            "Until then, recipients get an error that asks them to contact you."
        )
        return Finding(subject, name, Status.FAILED, error.problem, remedy)
    except SharingError as error:
        remedy = "Recipients get the same error. Repair the table, or share a table that this server supports."
        return Finding(subject, name, Status.FAILED, error.message, remedy)
    except (BotoCoreError, ClientError) as error:
        remedy = "Fix the cause, then run `sluice doctor` again."
        return Finding(subject, name, Status.FAILED, explain(error), remedy)
