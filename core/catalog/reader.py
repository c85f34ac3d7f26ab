"""The read side of the catalog: authenticates a request and finds what its recipient may read.

One BatchGetItem reads the token and all other items that a request needs by key. Listings then read their entries. A
share that does not exist and a share that is not granted cause the same reads and get the same response, so recipients
cannot distinguish them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from core.api.paging import Cursor, Listing
from core.api.requests.listing import ListRequest
from core.api.requests.request import Request
from core.api.table_tokens import TableTokens
from core.api.tokens import SignedTokens, SigningKey
from core.catalog import items, names
from core.catalog.cache import TtlCache
from core.catalog.items import Item, Key
from core.catalog.model import Schema, Share, Table
from core.catalog.store import CatalogStore
from core.catalog.tokens import looks_like_token, sha256
from core.errors import NotFoundError, UnauthenticatedError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

MAX_CACHED_ITEMS = 2000
# Shorter than core.api.tokens.SETTLING_SECONDS, so that every process has read a key before it signs.
SIGNING_KEYS_SECONDS = 300
# Keys that were read within this time are not looked up again, however many invalid tokens arrive.
SIGNING_KEYS_LOOKUP_SECONDS = 1

UNAUTHENTICATED = "A valid bearer token is needed. If yours has expired, please ask your share provider for a new one."
EXPIRED = "The bearer token expired at {}. Please ask your share provider for a new one."


@dataclass(frozen=True, slots=True)
class Caller:
    id: str
    name: str
    grants: Mapping[str, str]
    """Share ids by `names.key` of the share's name."""
    token_id: str | None = None
    """The id of the bearer token, for the log. None until an older token item is written again."""


OnCaller: TypeAlias = Callable[[Caller], None]


def ignore(_: Caller) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ShareAccess:
    caller: Caller
    requested: str
    share: Share | None

    def require(self) -> Share:
        if self.share is None:
            raise NotFoundError(f"share '{self.requested}' not found")
        return self.share


@dataclass(frozen=True, slots=True)
class TableAccess:
    caller: Caller
    requested: str
    table: Table | None
    tokens: SignedTokens

    def require(self) -> Table:
        if self.table is None:
            raise NotFoundError(
                f"[Share/Schema/Table] '{self.requested}' does not exist, "
                "please contact your share provider for further information."
            )
        return self.table

    def table_tokens(self) -> TableTokens:
        """Returns tokens of this table in this share: the same table in another share may have the same id."""
        table = self.require()
        return TableTokens(self.tokens, self.caller.id, f"{table.share_id}/{table.id}")


class Catalog:
    """Used by all requests of a process. Every method raises `UnauthenticatedError` before any other error.

    `on_caller` is called as soon as the caller is known, so that errors can be logged with it. It is also called for an
    expired token, before the error.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        *,
        cache_seconds: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = CatalogStore(client, table_name)
        self._cache_seconds = cache_seconds
        self._cache: TtlCache[Key, Item] = TtlCache(MAX_CACHED_ITEMS)
        # The cache uses the wall clock too: a monotonic clock may stop while Lambda freezes the process.
        self._now = now

    def authenticate(self, bearer_token: str | None, *, on_caller: OnCaller = ignore) -> Caller:
        return self._authenticated_read(bearer_token, on_caller)[0]

    def find_share(self, bearer_token: str | None, share: str, *, on_caller: OnCaller = ignore) -> ShareAccess:
        key = items.share_key(share)
        caller, found = self._authenticated_read(bearer_token, on_caller, key)
        return ShareAccess(caller, share, _granted(caller, found.get(key)))

    def find_table(
        self, bearer_token: str | None, share: str, schema: str, table: str, *, on_caller: OnCaller = ignore
    ) -> TableAccess:
        share_key, table_key = items.share_key(share), items.table_key(share, schema, table)
        caller, found = self._authenticated_read(bearer_token, on_caller, share_key, table_key, items.SIGNING_KEYS)
        granted, item = _granted(caller, found.get(share_key)), found.get(table_key)
        readable = items.to_table(item) if granted and item and item["share_id"] == granted.id else None
        return TableAccess(caller, f"{share}/{schema}/{table}", readable, self._tokens(found))

    def list_shares(
        self, bearer_token: str | None, request: Request, *, on_caller: OnCaller = ignore
    ) -> Listing[Share]:
        """Skips grants of removed shares, so any page may have fewer entries than requested."""
        caller, found = self._authenticated_read(bearer_token, on_caller, items.SIGNING_KEYS)
        cursor = Cursor(ListRequest.parse(request), ("shares", caller.id), self._tokens(found))
        ahead = sorted(key for key in caller.grants if key > cursor.position)
        keys = [Key(items.SHARES, key) for key in ahead[: cursor.limit]]
        shares = self._read(keys)
        listed = (_granted(caller, shares.get(key)) for key in keys)
        shown = tuple(share for share in listed if share is not None)
        return Listing(shown, cursor.next_page_token(ahead))

    def list_schemas(
        self, bearer_token: str | None, share: str, request: Request, *, on_caller: OnCaller = ignore
    ) -> Listing[Schema]:
        caller, granted, page, found = self._authenticated_listing(bearer_token, on_caller, share, request)
        cursor = Cursor(page, ("schemas", caller.id, granted.id), self._tokens(found))
        return self._children(granted, items.SCHEMAS, cursor, items.to_schema)

    def list_tables(
        self, bearer_token: str | None, share: str, schema: str, request: Request, *, on_caller: OnCaller = ignore
    ) -> Listing[Table]:
        key = items.schema_key(share, schema)
        caller, granted, page, found = self._authenticated_listing(bearer_token, on_caller, share, request, key)
        if key not in found:
            raise NotFoundError(f"schema '{schema}' not found")
        cursor = Cursor(page, ("tables", caller.id, granted.id, names.key(schema)), self._tokens(found))
        return self._children(granted, items.tables_prefix(schema), cursor, items.to_table)

    def list_all_tables(
        self, bearer_token: str | None, share: str, request: Request, *, on_caller: OnCaller = ignore
    ) -> Listing[Table]:
        caller, granted, page, found = self._authenticated_listing(bearer_token, on_caller, share, request)
        cursor = Cursor(page, ("all-tables", caller.id, granted.id), self._tokens(found))
        return self._children(granted, items.TABLES, cursor, items.to_table)

    def _authenticated_listing(
        self, bearer_token: str | None, on_caller: OnCaller, share: str, request: Request, *keys: Key
    ) -> tuple[Caller, Share, ListRequest, dict[Key, Item]]:
        """Checks the token first, then the parameters, then the share. Callers check the page token last."""
        share_key = items.share_key(share)
        caller, found = self._authenticated_read(bearer_token, on_caller, share_key, items.SIGNING_KEYS, *keys)
        page = ListRequest.parse(request)
        return caller, ShareAccess(caller, share, _granted(caller, found.get(share_key))).require(), page, found

    def _tokens(self, found: Mapping[Key, Item]) -> SignedTokens:
        keys = items.to_signing_keys(found[items.SIGNING_KEYS])
        return SignedTokens(keys, self._now(), self._look_up_signing_keys)

    def _look_up_signing_keys(self) -> tuple[SigningKey, ...]:
        """Reads the signing keys again, at most once a second. Returns none if they were read just now."""
        now = self._now()
        if self._cache.get(items.SIGNING_KEYS, now, max_age=SIGNING_KEYS_LOOKUP_SECONDS) is not None:
            return ()
        return items.to_signing_keys(self._fetch([items.SIGNING_KEYS], now)[items.SIGNING_KEYS])

    def _children(self, share: Share, prefix: str, cursor: Cursor, to_entry: Callable[[Item], T]) -> Listing[T]:
        """Reads one entry more than the limit to find out whether there is a next page."""
        pk = items.children_pk(share.name)
        children = self._store.query(pk, prefix, after=cursor.position, limit=cursor.limit + 1)
        ahead = [child["sk"].removeprefix(prefix) for child in children]
        # The cached share may have been replaced by a new share of the same name, whose entries must stay hidden.
        listed = (to_entry(child) for child in children[: cursor.limit] if child["share_id"] == share.id)
        return Listing(tuple(listed), cursor.next_page_token(ahead))

    def _authenticated_read(
        self, bearer_token: str | None, on_caller: OnCaller, *keys: Key
    ) -> tuple[Caller, dict[Key, Item]]:
        """Authenticates the token, and reads it together with `keys` in one call."""
        if bearer_token is None or not looks_like_token(bearer_token):
            raise UnauthenticatedError(UNAUTHENTICATED, token_was_sent=bearer_token is not None)
        token_key = items.token_key(sha256(bearer_token))
        found = self._read([token_key, *keys])
        token = found.get(token_key)
        if token is None:
            raise UnauthenticatedError(UNAUTHENTICATED, token_was_sent=True)
        caller = Caller(token["recipient_id"], token["recipient"], token["grants"], token.get("id"))
        on_caller(caller)
        if token["expires_at"] <= self._now():
            # Only a holder of the token gets this text: nobody else can name its hash.
            message = EXPIRED.format(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(token["expires_at"])))
            raise UnauthenticatedError(message, token_was_sent=True)
        return caller, found

    def _read(self, keys: Sequence[Key]) -> dict[Key, Item]:
        read_at = self._now()
        cached = {key: self._cache.get(key, read_at) for key in keys}
        absent = [key for key, item in cached.items() if item is None]
        if absent and cached.get(items.SIGNING_KEYS):
            absent.append(items.SIGNING_KEYS)  # needs no call of its own, and so follows a rotation early
        return {key: item for key, item in cached.items() if item is not None} | self._fetch(absent, read_at)

    def _fetch(self, keys: Sequence[Key], read_at: float) -> dict[Key, Item]:
        read = self._store.get(keys)
        for key, item in read.items():
            seconds = SIGNING_KEYS_SECONDS if key == items.SIGNING_KEYS else self._cache_seconds
            self._cache.put(key, item, read_at=read_at, seconds=seconds)
        return read


def _granted(caller: Caller, share: Item | None) -> Share | None:
    """Returns the share if it is granted. A grant does not apply to a later share of the same name."""
    if share is None or caller.grants.get(share["sk"]) != share["id"]:
        return None
    return items.to_share(share)
