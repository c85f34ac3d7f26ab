"""The entries of the catalog, as frozen dataclasses.

An entry gets its id (a UUID by default) when it is created. Grants refer to the id of a share, so a share that is
removed and created again under the same name does not inherit the old grants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

URL_ACCESS = "url"
DIR_ACCESS = "dir"


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    id: str
    display_name: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    share: str


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    schema: str
    share: str
    share_id: str
    id: str
    location: str
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = (URL_ACCESS,)
    history_shared: bool = False
    start_version: int = 0
    staleness_seconds: float = 0.0
    """The maximum age of a cached version that is served without listing the log; 0 lists it for every request."""
    role_arn: str | None = None
    external_id: str | None = None
    region: str | None = None
    """The region of the bucket, if it differs from the server's."""
    kms_key_arn: str | None = None
    """The KMS key of the files, if recipients with directory access need permission to use it."""

    @property
    def full_name(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}"

    @property
    def directory_shared(self) -> bool:
        """Whether recipients may read the directory. It exposes the whole log, so all history must be shared."""
        return DIR_ACCESS in self.access_modes and self.history_shared and self.start_version == 0


@dataclass(frozen=True, slots=True)
class Grant:
    share: str
    share_id: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token as the catalog stores it: only its SHA-256."""

    id: str
    sha256: str
    created_at: int
    expires_at: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Recipient:
    name: str
    id: str
    comment: str | None = None
    grants: tuple[Grant, ...] = ()
    tokens: tuple[Token, ...] = ()
