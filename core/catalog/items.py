"""The layout of the catalog in its DynamoDB table, and the conversion between items and the model.

    pk              sk                        item
    SHARES          <share>                   a share, with a revision that also covers its schemas and tables
    SHARE#<share>   SCHEMA#<schema>           a schema
    SHARE#<share>   TABLE#<schema>/<table>    a table
    TABLE_ID#<id>   #TABLE_ID                 the names of the tables with this id: one, or one per share
    RECIPIENTS      <recipient>               a recipient with its grants and tokens, and a revision
    TOKEN#<sha256>  #TOKEN                    the recipient of a token, with its grants
    KEYS            #KEYS                     the keys that sign page and refresh tokens

A name in `<…>` is stored as `names.key(name)`. A token item repeats the grants of its recipient, so that one
BatchGetItem of token, share and table is enough to decide whether a request may read the table.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from core.api.tokens import SigningKey
from core.catalog import names
from core.catalog.model import Grant, Recipient, Schema, Share, Table, Token

Item = dict[str, Any]
"""An item as plain Python values, including `pk` and `sk`."""

OWNERS = "table"
"""The attribute of an id's item that names its tables."""
SHARES = "SHARES"
RECIPIENTS = "RECIPIENTS"
SCHEMAS = "SCHEMA#"
TABLES = "TABLE#"
TTL = "ttl"
# An expired token is kept for this time, so that its holder learns that it has expired.
EXPIRED_TOKEN_SECONDS = 90 * 24 * 3600
# The partition keys that requests of recipients read. A function can read no others: not the recipients with their
# grants and tokens, nor the table ids.
READ_BY_FUNCTIONS = ("KEYS", "SHARES", "SHARE#*", "TOKEN#*")


class Key(NamedTuple):
    pk: str
    sk: str


SIGNING_KEYS = Key("KEYS", "#KEYS")


def table_description(table_name: str) -> Any:
    """The arguments for `create_table`."""
    return {
        "TableName": table_name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in Key._fields],
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
    }


def share_key(share: str) -> Key:
    return Key(SHARES, names.key(share))


def children_pk(share: str) -> str:
    """The partition key of the schemas and tables of a share."""
    return f"SHARE#{names.key(share)}"


def tables_prefix(schema: str) -> str:
    """The prefix of the sort keys of a schema's tables."""
    return f"{TABLES}{names.key(schema)}/"


def schema_key(share: str, schema: str) -> Key:
    return Key(children_pk(share), SCHEMAS + names.key(schema))


def table_key(share: str, schema: str, table: str) -> Key:
    return Key(children_pk(share), tables_prefix(schema) + names.key(table))


def table_id_key(table_id: str) -> Key:
    return Key(f"TABLE_ID#{table_id}", "#TABLE_ID")


def recipient_key(recipient: str) -> Key:
    return Key(RECIPIENTS, names.key(recipient))


def token_key(sha256: str) -> Key:
    return Key(f"TOKEN#{sha256}", "#TOKEN")


def share_item(share: Share, revision: int) -> Item:
    return _item(
        share_key(share.name),
        name=share.name,
        id=share.id,
        display_name=share.display_name,
        comment=share.comment,
        properties=share.properties,
        revision=revision,
    )


def to_share(item: Item) -> Share:
    return Share(item["name"], item["id"], item.get("display_name"), item.get("comment"), item["properties"])


def schema_item(schema: Schema, share_id: str) -> Item:
    return _item(schema_key(schema.share, schema.name), name=schema.name, share=schema.share, share_id=share_id)


def to_schema(item: Item) -> Schema:
    return Schema(item["name"], item["share"])


def table_item(table: Table) -> Item:
    return _item(
        table_key(table.share, table.schema, table.name),
        name=table.name,
        schema=table.schema,
        share=table.share,
        share_id=table.share_id,
        id=table.id,
        location=table.location,
        auxiliary_locations=table.auxiliary_locations,
        access_modes=table.access_modes,
        history_shared=table.history_shared,
        start_version=table.start_version,
        staleness_seconds=table.staleness_seconds,
        role_arn=table.role_arn,
        external_id=table.external_id,
        region=table.region,
        kms_key_arn=table.kms_key_arn,
    )


def to_table(item: Item) -> Table:
    return Table(
        name=item["name"],
        schema=item["schema"],
        share=item["share"],
        share_id=item["share_id"],
        id=item["id"],
        location=item["location"],
        auxiliary_locations=tuple(item["auxiliary_locations"]),
        access_modes=tuple(item["access_modes"]),
        history_shared=item["history_shared"],
        start_version=item["start_version"],
        staleness_seconds=float(item["staleness_seconds"]),
        role_arn=item.get("role_arn"),
        external_id=item.get("external_id"),
        region=item.get("region"),
        kms_key_arn=item.get("kms_key_arn"),
    )


def table_id_item(table_id: str, owners: Sequence[str]) -> Item:
    """`owners` are full names. They are one text, so that a write can require that none has changed."""
    return _item(table_id_key(table_id), **{OWNERS: "\n".join(owners)})


def id_owners(item: Item) -> tuple[str, ...]:
    return tuple(item[OWNERS].split("\n"))


def recipient_item(recipient: Recipient, revision: int) -> Item:
    return _item(
        recipient_key(recipient.name),
        name=recipient.name,
        id=recipient.id,
        comment=recipient.comment,
        grants=[{"share": grant.share, "share_id": grant.share_id} for grant in recipient.grants],
        tokens=[
            {
                "id": token.id,
                "sha256": token.sha256,
                "created_at": token.created_at,
                "expires_at": token.expires_at,
            }
            for token in recipient.tokens
        ],
        revision=revision,
    )


def to_recipient(item: Item) -> Recipient:
    return Recipient(
        name=item["name"],
        id=item["id"],
        comment=item.get("comment"),
        grants=tuple(Grant(**grant) for grant in item["grants"]),
        tokens=tuple(Token(**token) for token in item["tokens"]),
    )


def token_item(token: Token, recipient: Recipient) -> Item:
    return _item(
        token_key(token.sha256),
        id=token.id,
        recipient=recipient.name,
        recipient_id=recipient.id,
        grants={names.key(grant.share): grant.share_id for grant in recipient.grants},
        expires_at=token.expires_at,
        **{TTL: token.expires_at + EXPIRED_TOKEN_SECONDS},
    )


def signing_keys_item(keys: tuple[SigningKey, ...], revision: int) -> Item:
    content = [{"secret": key.secret, "created_at": key.created_at} for key in keys]
    return _item(SIGNING_KEYS, keys=content, revision=revision)


def to_signing_keys(item: Item) -> tuple[SigningKey, ...]:
    return tuple(SigningKey(**key) for key in item["keys"])


def _item(key: Key, **content: Any) -> Item:
    present = {name: value for name, value in content.items() if value is not None}
    return {**key._asdict(), **present}


def encode(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_attribute(value) for name, value in item.items()}


def decode(attributes: Mapping[str, Any]) -> Item:
    return {name: _from_attribute(value) for name, value in attributes.items()}


def _to_attribute(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case Mapping():
            return {"M": encode(value)}
        case list() | tuple():
            return {"L": [_to_attribute(element) for element in value]}
    raise TypeError(f"no DynamoDB attribute for {type(value).__name__}")


def _from_attribute(attribute: Mapping[str, Any]) -> Any:
    ((attribute_type, content),) = attribute.items()
    match attribute_type:
        case "N":
            return float(content) if "." in content or "E" in content.upper() else int(content)
        case "M":
            return decode(content)
        case "L":
            return [_from_attribute(element) for element in content]
    return content
