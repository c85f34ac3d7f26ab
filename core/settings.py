"""Settings from environment variables, read once per process.

`infra/template.yaml` sets these variables for deployed functions, and `sluice serve` for the local server.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

# Role chaining limits sessions to one hour, and signed URLs expire with the session (docs/decisions/0004).
MAX_URL_SECONDS = 3600
# Spark rejects URLs that expire in less than 15 minutes. Five more minutes allow for clock skew.
MIN_URL_SECONDS = 1200
DEFAULT_MAX_TOKEN_DAYS = 365


class InvalidSettingError(ValueError):
    """An environment variable has an invalid value. The message is for the provider, not for recipients."""


@dataclass(frozen=True, slots=True)
class Settings:
    catalog_table: str = "sluice-catalog"
    catalog_cache_seconds: float = 5.0
    index_table: str | None = None
    """Name of the DynamoDB table that holds the indexes. None disables them."""
    query_queue_url: str | None = None
    """URL of the SQS queue of the worker that prepares asynchronous queries. None disables these."""
    index_queue_url: str | None = None
    """URL of the SQS queue that starts the index job (infra/index.yaml). Used by the worker."""
    async_log_mb: float | None = None
    """Size of a log, in megabytes, beyond which a query without a usable index is not answered at once. None is no
    limit; 0 answers no query from the log, to try asynchronous queries on small tables.
    """
    storage_role_arn: str | None = None
    storage_external_id: str | None = None
    staleness_seconds: float = 0.0
    """How long a cached version may be served without looking for a newer one. A table can allow more."""
    snapshot_cache_mb: float = 128.0
    """Memory for everything that is kept of tables between requests, including their indexes, in megabytes."""
    url_seconds: int = MAX_URL_SECONDS
    max_token_days: float = DEFAULT_MAX_TOKEN_DAYS
    """The longest lifetime of new bearer tokens. Used by commands, not by functions."""
    region: str = "us-east-1"
    s3_endpoint_url: str | None = None
    s3_path_style: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        get = environment.get
        endpoint = get("AWS_ENDPOINT_URL_S3") or get("AWS_ENDPOINT_URL") or None
        url_seconds = int(_number(environment, "SLUICE_URL_SECONDS", MAX_URL_SECONDS))
        return cls(
            catalog_table=get("SLUICE_CATALOG_TABLE", "sluice-catalog"),
            catalog_cache_seconds=_number(environment, "SLUICE_CATALOG_CACHE_SECONDS", 5),
            index_table=get("SLUICE_INDEX_TABLE") or None,
            query_queue_url=get("SLUICE_QUERY_QUEUE_URL") or None,
            index_queue_url=get("SLUICE_INDEX_QUEUE_URL") or None,
            async_log_mb=_number(environment, "SLUICE_ASYNC_LOG_MB", 0) if get("SLUICE_ASYNC_LOG_MB") else None,
            staleness_seconds=_number(environment, "SLUICE_STALENESS_SECONDS", 0),
            snapshot_cache_mb=_number(environment, "SLUICE_SNAPSHOT_CACHE_MB", 128),
            storage_role_arn=get("SLUICE_STORAGE_ROLE_ARN") or None,
            storage_external_id=get("SLUICE_STORAGE_EXTERNAL_ID") or None,
            url_seconds=min(max(url_seconds, MIN_URL_SECONDS), MAX_URL_SECONDS),
            max_token_days=_number(environment, "SLUICE_MAX_TOKEN_DAYS", DEFAULT_MAX_TOKEN_DAYS),
            region=get("AWS_REGION") or get("AWS_DEFAULT_REGION") or "us-east-1",
            s3_endpoint_url=endpoint,
            # Custom endpoints rarely support a host name per bucket.
            s3_path_style=get("SLUICE_S3_ADDRESSING", "path" if endpoint else "virtual") == "path",
        )


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        unit = {"MB": "megabytes", "DAYS": "days"}.get(name.rpartition("_")[2], "seconds")
        raise InvalidSettingError(f"{name} is {text!r}. It must be a number of {unit}, at least 0.")
    return number
