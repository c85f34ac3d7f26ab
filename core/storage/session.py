"""The storage of a table, opened for one request.

A session fixes the signing time and the credentials of a request. All its URLs expire at the same known time, and never
after the credentials that signed them.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self, cast

from botocore.config import Config
from botocore.session import Session

from core.settings import Settings
from core.storage.location import S3Location
from core.storage.objects import ObjectReader, parse_time
from core.storage.presign import UrlSigner
from core.storage.roles import CLIENT_CONFIG, Credentials, StorageRole, StorageRoles, sts_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_CACHED_CLIENTS = 16


@dataclass(frozen=True, slots=True)
class StorageSession:
    location: S3Location
    credentials: Credentials
    region: str
    endpoint_url: str | None
    path_style: bool
    signed_at: int
    """Seconds since 1970. The lifetime of URLs starts here."""
    expires_in: int
    """The lifetime of URLs in seconds."""
    _client: Callable[[], "S3Client"] = field(repr=False)
    opened_at: float = field(default_factory=time.time)
    """Seconds since 1970 at the start of the request. Listings made after it are fresh for this request."""

    @property
    def expires_at_ms(self) -> int:
        """When the URLs of `signer` expire, in milliseconds since 1970."""
        return (self.signed_at + self.expires_in) * 1000

    def signer(self, bucket: str | None = None) -> UrlSigner:
        """A signer for the table's bucket, or for another bucket in the same region that the role can read."""
        return UrlSigner(
            self.credentials,
            bucket=bucket or self.location.bucket,
            region=self.region,
            endpoint_url=self.endpoint_url,
            path_style=self.path_style,
            signed_at=self.signed_at,
            expires_in=self.expires_in,
        )

    def objects(self, bucket: str | None = None) -> ObjectReader:
        return ObjectReader(self._client(), bucket or self.location.bucket)


class Storage:
    """Opens storage sessions. One instance per process."""

    def __init__(
        self,
        roles: StorageRoles,
        settings: Settings,
        botocore_session: Session,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._roles = roles
        self._settings = settings
        self._botocore = botocore_session
        self._now = now
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], S3Client] = {}
        botocore_session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
        self._client_config = CLIENT_CONFIG.merge(
            Config(
                signature_version="s3v4",
                s3={"addressing_style": "path" if settings.s3_path_style else "virtual"},
                max_pool_connections=32,
            )
        )

    @classmethod
    def connect(cls, settings: Settings, botocore_session: Session) -> Self:
        """Assumes roles with the credentials that this process runs with."""
        sts = sts_client(settings, botocore_session)
        return cls(StorageRoles(lambda: sts), settings, botocore_session)

    def open(
        self,
        location: S3Location,
        *,
        role_arn: str | None = None,
        external_id: str | None = None,
        region: str | None = None,
    ) -> StorageSession:
        """Uses the role and region of the table if given, otherwise those of the server."""
        settings = self._settings
        credentials = self._roles.credentials(StorageRole.of(settings, role_arn, external_id))
        region = region or settings.region
        signed_at = int(self._now())
        return StorageSession(
            location=location,
            credentials=credentials,
            region=region,
            endpoint_url=settings.s3_endpoint_url,
            path_style=settings.s3_path_style,
            signed_at=signed_at,
            expires_in=min(settings.url_seconds, int(credentials.expires_at) - signed_at),
            _client=partial(self._client, credentials, region),
        )

    def _client(self, credentials: Credentials, region: str) -> "S3Client":
        cache_key = (credentials.access_key_id, region)
        with self._lock:
            if cache_key not in self._clients:
                client = self._botocore.create_client(
                    "s3",
                    region_name=region,
                    endpoint_url=self._settings.s3_endpoint_url,
                    aws_access_key_id=credentials.access_key_id,
                    aws_secret_access_key=credentials.secret_access_key,
                    aws_session_token=credentials.session_token,
                    config=self._client_config,
                )
                self._clients[cache_key] = cast("S3Client", client)
                if len(self._clients) > MAX_CACHED_CLIENTS:
                    del self._clients[next(iter(self._clients))]
            return self._clients[cache_key]
