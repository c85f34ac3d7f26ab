"""The AWS account of a command, found like the AWS CLI finds it.

Command-line options override the environment. Commands use the same `core.settings.Settings` as the functions, so
`sluice doctor` checks what the functions use. `explain` describes an AWS failure in one sentence.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore import exceptions

from core.settings import Settings

if TYPE_CHECKING:
    from botocore.session import Session

    from core.catalog.admin import CatalogAdmin
    from core.storage.session import Storage


@dataclass(frozen=True)
class Account:
    catalog: str | None = None
    region_option: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    index: str | None = None

    @cached_property
    def session(self) -> "Session":
        from botocore.session import Session

        session = Session(profile=self.profile)
        if region := self.region_option or os.environ.get("AWS_REGION"):
            session.set_config_variable("region", region)
        return session

    @property
    def region(self) -> str:
        region: str | None = self.session.get_config_variable("region")
        if region is None:
            raise exceptions.NoRegionError
        return region

    @cached_property
    def settings(self) -> Settings:
        chosen = {
            "SLUICE_CATALOG_TABLE": self.catalog,
            "SLUICE_INDEX_TABLE": self.index,
            "AWS_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
        }
        return Settings.from_environment({**os.environ, **{name: value for name, value in chosen.items() if value}})

    def export(self) -> None:
        """Exports the account to the environment, for libraries and child processes that read it from there."""
        if self.profile:  # keys in the environment would override the profile there, but not for this account's clients
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
                os.environ.pop(name, None)
        chosen = {
            "AWS_REGION": self.region,
            "AWS_PROFILE": self.profile,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "SLUICE_CATALOG_TABLE": self.settings.catalog_table,
            "SLUICE_INDEX_TABLE": self.settings.index_table,
        }
        os.environ |= {name: value for name, value in chosen.items() if value}

    def client(self, service: str, **options: Any) -> Any:
        """Returns a client for a service, with options for botocore's `Config`."""
        from botocore.config import Config

        config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard"}, **options)
        return self.session.create_client(
            service, region_name=self.region, endpoint_url=self.endpoint_url, config=config
        )

    def admin(self) -> "CatalogAdmin":
        from core.catalog.admin import CatalogAdmin

        settings = self.settings
        max_token_seconds = int(settings.max_token_days * 86_400)
        return CatalogAdmin(self.client("dynamodb"), settings.catalog_table, max_token_seconds=max_token_seconds)

    def storage(self) -> "Storage":
        from core.storage.roles import StorageRoles
        from core.storage.session import Storage

        return Storage(StorageRoles(lambda: self.client("sts")), self.settings, self.session)


@contextlib.contextmanager
def environment_restored() -> Iterator[None]:
    """Undoes all changes of environment variables at the end of the block."""
    saved = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= saved


REJECTED_KEYS = frozenset(
    {
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def explain(error: exceptions.BotoCoreError | exceptions.ClientError) -> str:
    if isinstance(error, exceptions.ClientError):
        return _explain_answer(error)
    match error:
        case exceptions.NoCredentialsError():
            return f"No AWS credentials found: {_CREDENTIALS}."
        case exceptions.PartialCredentialsError() | exceptions.CredentialRetrievalError():
            return f"The AWS credentials are incomplete or cannot be read ({error}): {_CREDENTIALS}."
        case exceptions.ProfileNotFound():
            return f"{error}. Choose an existing profile with --aws-profile or AWS_PROFILE."
        case exceptions.NoRegionError():
            return "No AWS region is set. Set AWS_REGION or use --region."
        case exceptions.ConnectionError() | exceptions.HTTPClientError():
            return f"AWS cannot be reached: {str(error).rstrip('.')}. Check the network, --endpoint-url and --region."
    return f"The AWS client failed: {error}"


def _explain_answer(error: exceptions.ClientError) -> str:
    answer = error.response["Error"]
    code, message = answer.get("Code", ""), answer.get("Message", "")
    match code:
        case "ResourceNotFoundException":
            return (
                "The catalog table does not exist in this account and region. A deployed stack has one: set "
                "SLUICE_CATALOG_TABLE to its output CatalogTable, or choose another with --catalog or --region. "
                "Run `sluice init` to create it if there is no stack yet."
            )
        case "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation":
            return f"AWS denied {error.operation_name} for these credentials: {message}"
        case "ExpiredToken" | "ExpiredTokenException" | "RequestExpired":
            return "The AWS credentials have expired. Sign in again, for example with `aws sso login`."
        case _ if code in REJECTED_KEYS:
            return f"AWS rejected the credentials ({code}). Check the keys, the region and the clock."
    return f"AWS returned {code} for {error.operation_name}: {message}"
