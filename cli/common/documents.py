"""Catalog entries as JSON documents of the command line, with the protocol's field names."""

from datetime import UTC, datetime
from typing import Any

from core.catalog.model import Recipient, Schema, Share, Table, Token


def share_document(share: Share) -> dict[str, Any]:
    return {
        "name": share.name,
        "id": share.id,
        "displayName": share.display_name,
        "comment": share.comment,
        "properties": dict(share.properties),
    }


def schema_document(schema: Schema) -> dict[str, Any]:
    return {"name": schema.name, "share": schema.share}


def table_document(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "schema": table.schema,
        "share": table.share,
        "shareId": table.share_id,
        "id": table.id,
        "location": table.location,
        "auxiliaryLocations": list(table.auxiliary_locations),
        "accessModes": list(table.access_modes),
        "historyShared": table.history_shared,
        "startVersion": table.start_version,
        "stalenessSeconds": table.staleness_seconds,
        "roleArn": table.role_arn,
        "externalId": table.external_id,
        "region": table.region,
        "kmsKeyArn": table.kms_key_arn,
    }


def recipient_document(recipient: Recipient) -> dict[str, Any]:
    return {
        "name": recipient.name,
        "id": recipient.id,
        "comment": recipient.comment,
        "shares": [grant.share for grant in recipient.grants],
        "tokens": [token_document(token) for token in recipient.tokens],
    }


def token_document(token: Token) -> dict[str, Any]:
    return {"id": token.id, "createdAt": timestamp(token.created_at), "expiresAt": timestamp(token.expires_at)}


def profile_document(endpoint: str, secret: str, token: Token) -> dict[str, Any]:
    """Returns the content of a profile file."""
    return {
        "shareCredentialsVersion": 1,
        "endpoint": endpoint,
        "bearerToken": secret,
        "expirationTime": timestamp(token.expires_at),
    }


def timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
