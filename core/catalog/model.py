"""What the catalog holds, as frozen values.

Ids are UUIDs made once, when an entry is first written. A grant names the share's id, so that a share that is
removed and made again under the same name does not inherit the old one's readers.
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
    """How old a cached version may be to be served without a look at the log; 0 looks at every request."""
    role_arn: str | None = None
    external_id: str | None = None
    region: str | None = None
    """The bucket's region where it is not the server's own."""
    kms_key_arn: str | None = None
    """The key that encrypts its files, where readers of its directory must be allowed to use it."""

    @property
    def full_name(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}"

    @property
    def directory_shared(self) -> bool:
        """Whether recipients may read its directory. That shows the whole log, so all of its history must be shared."""
        return DIR_ACCESS in self.access_modes and self.history_shared and self.start_version == 0


@dataclass(frozen=True, slots=True)
class Grant:
    share: str
    share_id: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token as the catalog knows it: never the token, only its SHA-256."""

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
