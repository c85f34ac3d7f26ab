"""Changes recipients, their grants and their tokens.

Token items repeat the grants of their recipient. Every change writes the recipient and all its token items in one
transaction, so readers never see only some of them changed.
"""

from collections.abc import Callable
from dataclasses import replace

from core.catalog import items, names
from core.catalog.admin.base import Administration, Written, new_id
from core.catalog.admin.checks import check_grace, check_lifetime, check_name, check_texts
from core.catalog.errors import EntryNotFoundError, LimitError
from core.catalog.items import Item
from core.catalog.model import Grant, Recipient, Token
from core.catalog.tokens import new_token, sha256

MAX_GRANTS = 1000
MAX_TOKENS = 50


class RecipientAdministration(Administration):
    def recipients(self) -> list[Recipient]:
        return [items.to_recipient(item) for item in self._store.query(items.RECIPIENTS)]

    def recipient(self, recipient: str) -> Recipient:
        return items.to_recipient(self._recipient_item(recipient))

    def put_recipient(self, recipient: str, *, comment: str | None = None) -> Written[Recipient]:
        """Creates or replaces a recipient. Keeps its grants and tokens."""
        check_name("recipient", recipient)
        check_texts(comment=comment)
        key = items.recipient_key(recipient)

        def create_if_absent() -> Written[Recipient] | None:
            if self._store.get([key]):
                return None
            new = Recipient(recipient, new_id(), comment)
            self._store.write([self._store.create(items.recipient_item(new, revision=0))])
            return Written(new, "created")

        return self._retry(create_if_absent) or self._change(recipient, lambda old: replace(old, comment=comment))

    def remove_recipient(self, recipient: str) -> None:
        def change() -> None:
            item = self._recipient_item(recipient)
            tokens = [self._store.delete(items.token_key(token["sha256"])) for token in item["tokens"]]
            self._store.write([self._store.delete(items.recipient_key(recipient), item["revision"]), *tokens])

        self._retry(change)

    def grant(self, recipient: str, share: str) -> Written[Recipient]:
        key = items.share_key(share)
        item = self._store.get([key]).get(key)
        if item is None:
            raise EntryNotFoundError(f"share '{share}' does not exist")
        grant = Grant(item["name"], item["id"])

        def change(old: Recipient) -> Recipient:
            others = _grants_except(old, share)
            if len(others) >= MAX_GRANTS:
                raise LimitError(f"recipient '{old.name}' already has {MAX_GRANTS} grants, which is the maximum")
            return old if grant in old.grants else replace(old, grants=(*others, grant))

        return self._change(recipient, change)

    def revoke(self, recipient: str, share: str) -> Written[Recipient]:
        return self._change(recipient, lambda old: replace(old, grants=_grants_except(old, share)))

    def issue_token(self, recipient: str, *, lifetime_seconds: int) -> tuple[Token, str]:
        """Returns the token as the catalog stores it, and the secret to show once."""
        return self._add_token(recipient, lifetime_seconds, lambda old: old)

    def revoke_token(self, recipient: str, token_id: str) -> Written[Recipient]:
        def change(old: Recipient) -> Recipient:
            _require_token(old, token_id)
            return replace(old, tokens=tuple(token for token in old.tokens if token.id != token_id))

        return self._change(recipient, change)

    def rotate_token(
        self, recipient: str, token_id: str | None = None, *, grace_seconds: int, lifetime_seconds: int
    ) -> tuple[Token, str]:
        """Issues a new token. The old token (by default all) expires when the grace period ends, or earlier."""
        check_grace(grace_seconds)
        latest = int(self._now()) + grace_seconds

        def shorten(old: Recipient) -> Recipient:
            if token_id is not None:
                _require_token(old, token_id)
            shortened = (
                replace(token, expires_at=min(token.expires_at, latest)) if token_id in (None, token.id) else token
                for token in old.tokens
            )
            return replace(old, tokens=tuple(shortened))

        return self._add_token(recipient, lifetime_seconds, shorten)

    def _add_token(
        self, recipient: str, lifetime_seconds: int, prepare: Callable[[Recipient], Recipient]
    ) -> tuple[Token, str]:
        check_lifetime(lifetime_seconds, longest=self.max_token_seconds)
        self._ensure_signing_keys()
        secret, now = new_token(), int(self._now())
        token = Token(new_id(), sha256(secret), now, now + lifetime_seconds)

        def change(old: Recipient) -> Recipient:
            prepared = prepare(old)
            return replace(prepared, tokens=(*prepared.tokens, token))

        self._change(recipient, change)
        return token, secret

    def _drop_grants_of(self, recipient: str, share_id: str) -> None:
        self._change(
            recipient,
            lambda old: replace(old, grants=tuple(grant for grant in old.grants if grant.share_id != share_id)),
        )

    def _change(self, recipient: str, change: Callable[[Recipient], Recipient]) -> Written[Recipient]:
        def attempt() -> Written[Recipient]:
            item = self._recipient_item(recipient)
            old, revision = items.to_recipient(item), item["revision"]
            new = change(old)
            if new == old:
                return Written(old, "unchanged")
            revoked = {token.sha256 for token in old.tokens} - {token.sha256 for token in new.tokens}
            live = self._without_expired_tokens(new)
            expired = [token for token in new.tokens if token not in live.tokens]
            self._store.write(
                [
                    self._store.replace(items.recipient_item(live, revision + 1), revision),
                    *(self._store.put(items.token_item(token, live)) for token in live.tokens),
                    # DynamoDB deletes these later (`items.EXPIRED_TOKEN_SECONDS`).
                    *(self._store.put(items.token_item(token, replace(live, grants=()))) for token in expired),
                    *(self._store.delete(items.token_key(sha256)) for sha256 in revoked),
                ]
            )
            return Written(live, "updated")

        return self._retry(attempt)

    def _without_expired_tokens(self, recipient: Recipient) -> Recipient:
        live = tuple(token for token in recipient.tokens if token.expires_at > self._now())
        if len(live) > MAX_TOKENS:
            raise LimitError(
                f"recipient '{recipient.name}' already has {MAX_TOKENS} tokens, which is the maximum: revoke one"
            )
        return replace(recipient, tokens=live)

    def _recipient_item(self, recipient: str) -> Item:
        key = items.recipient_key(recipient)
        found = self._store.get([key])
        if key not in found:
            raise EntryNotFoundError(f"recipient '{recipient}' does not exist")
        return found[key]


def _grants_except(recipient: Recipient, share: str) -> tuple[Grant, ...]:
    return tuple(grant for grant in recipient.grants if names.key(grant.share) != names.key(share))


def _require_token(recipient: Recipient, token_id: str) -> None:
    if all(token.id != token_id for token in recipient.tokens):
        raise EntryNotFoundError(f"recipient '{recipient.name}' has no token {token_id}")
