"""The YAML file that describes shares: a superset of the reference server's configuration file.

All problems of a file are reported together, each with its line and key. Server settings of the reference server are
accepted, so its users can keep their file. The caller declares which of these settings it supports; one warning names
the others.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from cli.apply import yaml_lines
from cli.apply.yaml_lines import Document, KeyPath
from cli.common.errors import CommandError
from core.catalog import names
from core.catalog.admin.checks import KMS_KEY_ARN, MAX_PROPERTIES, MAX_STALENESS_SECONDS
from core.storage.location import InvalidLocationError, S3Location

CURRENT_VERSION = 1
MAX_BYTES = 4 * 1024 * 1024
MAX_LONG = 2**63 - 1
ROLE_ARN = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+")
ID = re.compile(r"[!-~]{1,128}")
REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")
# Where a missing key is reported, by the name of the enclosing list or mapping.
OWNERS = {
    "shares": " in a share",
    "schemas": " in a schema",
    "tables": " in a table",
    "recipients": " in a recipient",
    "authorization": " in 'authorization'",
}
# Error messages by the error type of pydantic.
MESSAGES = {
    "extra_forbidden": "unknown key",
    "string_type": "must be text (put it in quotes)",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of {expected}",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "too_short": "must have at least {min_length} entry",
    "too_long": "must have at most {max_length} entries",
}


class SharesFileError(CommandError):
    """All problems of a file, one per line: `shares.yaml:12: shares[0].name: …`."""


Problem: TypeAlias = tuple[KeyPath, str]
Entries: TypeAlias = list[tuple[KeyPath, dict[str, Any]]]


def _name(kind: names.Kind) -> AfterValidator:
    def check(value: str) -> str:
        if problem := names.problem(kind, value):
            raise ValueError(problem)
        return value

    return AfterValidator(check)


def _matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is not {expected}")
        return value

    return AfterValidator(check)


def _s3_location(value: str) -> str:
    try:
        S3Location.parse(value)
    except InvalidLocationError as error:
        raise ValueError(str(error)) from error
    return value


def _table_location(value: str, info: ValidationInfo) -> str:
    """Returns an S3 location unchanged and a local directory as an absolute path."""
    scheme, separator, _ = value.partition("://")
    if separator and scheme.lower() != "file":
        return _s3_location(value)
    folder = cast("dict[str, Path | None]", info.context)["folder"]
    if folder is None:
        raise ValueError(
            f"{value!r} is not an S3 location (expected s3://bucket/path): "
            "only `sluice serve` with the embedded AWS supports local directories"
        )
    directory = folder / (unquote(urlsplit(value).path) if separator else value)
    if not (directory / "_delta_log").is_dir():
        raise ValueError(f"no Delta table in {directory} (it has no _delta_log folder)")
    return str(directory.resolve())


class _Entry(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TableEntry(_Entry):
    name: Annotated[str, _name("table")]
    location: Annotated[str, AfterValidator(_table_location)]
    id: Annotated[str, _matching(ID, "1 to 128 ASCII characters without white space")] | None = None
    history_shared: bool = False
    start_version: Annotated[int, Field(ge=0, le=MAX_LONG)] = 0
    access_modes: Annotated[list[Literal["url", "dir"]], Field(min_length=1)] = ["url"]
    auxiliary_locations: list[Annotated[str, AfterValidator(_s3_location)]] = []
    staleness_seconds: Annotated[float, Field(ge=0, le=MAX_STALENESS_SECONDS)] = 0.0
    role_arn: Annotated[str, _matching(ROLE_ARN, "the ARN of an IAM role")] | None = None
    external_id: Annotated[str, Field(min_length=2, max_length=1224)] | None = None
    region: Annotated[str, _matching(REGION, "the name of an AWS region")] | None = None
    kms_key_arn: Annotated[str, _matching(KMS_KEY_ARN, "the ARN of a KMS key")] | None = None

    @model_validator(mode="after")
    def _external_id_belongs_to_a_role(self) -> Self:
        if self.external_id and not self.role_arn:
            raise ValueError("'externalId' has no effect without 'roleArn'")
        return self

    @property
    def directory(self) -> Path | None:
        """The local directory of the table, or None if it is in S3."""
        return None if "://" in self.location else Path(self.location)


class SchemaEntry(_Entry):
    name: Annotated[str, _name("schema")]
    tables: list[TableEntry] = []


class ShareEntry(_Entry):
    name: Annotated[str, _name("share")]
    id: Annotated[str, _matching(ID, "1 to 128 ASCII characters without white space")] | None = None
    display_name: str | None = None
    comment: str | None = None
    properties: Annotated[dict[str, str], Field(max_length=MAX_PROPERTIES)] = {}
    schemas: list[SchemaEntry] = []


class RecipientEntry(_Entry):
    name: Annotated[str, _name("recipient")]
    comment: str | None = None
    shares: list[str] = []


class Authorization(_Entry):
    bearer_token: str


class Ssl(_Entry):
    self_signed: bool = False
    certificate_file: str | None = None
    certificate_key_file: str | None = None
    certificate_password_file: str | None = None


class ServerSettings(_Entry):
    """Server settings of the reference server."""

    host: str | None = None
    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    endpoint: str | None = None
    authorization: Authorization | None = None
    ssl: Ssl | None = None
    pre_signed_url_timeout_seconds: int | None = None
    temporary_credential_validity_seconds: int | None = None
    delta_table_cache_size: int | None = None
    staleness_acceptable: bool | None = None
    evaluate_predicate_hints: bool | None = None
    evaluate_json_predicate_hints: bool | None = None
    evaluate_json_predicate_hints_v2: Annotated[bool | None, Field(alias="evaluateJsonPredicateHintsV2")] = None
    request_timeout_seconds: int | None = None
    query_table_page_size_limit: int | None = None
    query_table_page_token_ttl_ms: int | None = None
    refresh_token_ttl_ms: int | None = None


def _version(value: int) -> int:
    """Uses the error messages of the reference server."""
    if value <= 0:
        raise ValueError("'version' must be greater than 0")
    if value > CURRENT_VERSION:
        raise ValueError(
            f"The 'version' in the server config is {value} which is too new. The current release supports "
            f"version {CURRENT_VERSION} and below. Please upgrade to a newer release."
        )
    return value


class SharesFile(ServerSettings):
    version: Annotated[int, AfterValidator(_version)]
    shares: list[ShareEntry] = []
    recipients: list[RecipientEntry] | None = None
    """None if the file has no recipients; those in the catalog then stay unchanged."""

    def warning(self, *, supported: Collection[str] = ()) -> str | None:
        """Returns a warning about the file's server settings that are not in `supported`, or None."""
        fields = ServerSettings.model_fields
        ignored = [
            str(fields[name].alias) for name in fields if name in self.model_fields_set and name not in supported
        ]
        if not ignored:
            return None
        return f"These settings of the reference server have no effect here: {', '.join(ignored)}."


def load(path: Path, *, local_tables: bool = False) -> SharesFile:
    """Reads and validates a file. `local_tables` allows directories, relative to the file, as locations."""
    text = _text(path)
    try:
        document = yaml_lines.read(text)
    except yaml_lines.InvalidYamlError as error:
        raise SharesFileError(f"{path}:{error.line}: {error.message}") from error
    problems = list(_problems_across_entries(document))
    desired = None
    try:
        context = {"folder": path.parent.absolute() if local_tables else None}
        desired = SharesFile.model_validate(document.value or {}, context=context)
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors(include_url=False)]
    if problems or desired is None:
        problems.sort(key=lambda problem: document.line(problem[0]))
        lines = (f"{path}:{document.line(key_path)}: {_dotted(key_path)}{text}" for key_path, text in problems)
        raise SharesFileError("\n".join(lines))
    return desired


def _text(path: Path) -> str:
    if path.suffix not in (".yaml", ".yml"):
        raise SharesFileError(f"{path}: the file must be a yml or yaml file")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SharesFileError(f"{path}: the file is larger than {MAX_BYTES // 1024**2} MiB")
        return content.decode()
    except OSError as error:
        raise SharesFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SharesFileError(f"{path}: the file is not UTF-8") from error


def _problems_across_entries(document: Document) -> Iterator[Problem]:
    """Finds duplicates, and grants of shares that do not exist.

    Checks the plain values before validation, so these problems are reported together with all others.
    """
    for key_path in document.duplicates:
        yield key_path, "the key is a duplicate"
    shares = _entries(document.value, (), "shares")
    schemas = [_entries(share, key_path, "schemas") for key_path, share in shares]
    tables = [_entries(schema, key_path, "tables") for siblings in schemas for key_path, schema in siblings]
    recipients = _entries(document.value, (), "recipients")
    for siblings in (shares, *schemas, *tables, recipients):
        yield from _duplicate_values(document, siblings, "name")
    yield from _duplicate_values(document, shares, "id")
    known = {names.key(share["name"]) for _, share in shares if isinstance(share.get("name"), str)}
    for key_path, recipient in recipients:
        granted = recipient.get("shares")
        for index, share in enumerate(granted if isinstance(granted, list) else ()):
            if isinstance(share, str) and names.key(share) not in known:
                yield (*key_path, "shares", index), f"the file has no share '{share}'"


def _entries(parent: Any, key_path: KeyPath, key: str) -> Entries:
    entries = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(entries, list):
        return []
    return [((*key_path, key, index), entry) for index, entry in enumerate(entries) if isinstance(entry, dict)]


def _duplicate_values(document: Document, entries: Entries, key: str) -> Iterator[Problem]:
    first_lines: dict[str, int] = {}
    for entry_path, entry in entries:
        value = entry.get(key)
        if isinstance(value, str):
            key_path = (*entry_path, key)
            folded = names.key(value)
            if folded in first_lines:
                yield key_path, f"'{value}' is already used on line {first_lines[folded]}"
            first_lines.setdefault(folded, document.line(key_path))


def _problem(details: ErrorDetails) -> Problem:
    key_path = details["loc"]
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            owner = OWNERS.get(next((part for part in reversed(key_path[:-1]) if isinstance(part, str)), ""), "")
            text = f"'{key_path[-1]}'{owner} must be provided"
        case "value_error":
            text = str(context["error"])
        case error_type:
            text = MESSAGES.get(error_type, details["msg"]).format(**context)
    return key_path, text


def _dotted(key_path: KeyPath) -> str:
    """Returns `shares[0].schemas[1].name: `, or an empty string for the whole file."""
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path)
    return f"{dotted.removeprefix('.')}: " if key_path else ""
