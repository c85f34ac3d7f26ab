"""The location of a table, parsed from `s3://`, `s3a://` or `s3n://`."""

import re
from dataclasses import dataclass

SCHEMES = ("s3", "s3a", "s3n")
# S3's rule for bucket names, plus the capitals and underscores of old buckets. Strict, because the bucket becomes part
# of a host name.
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")


class InvalidLocationError(ValueError):
    """Not an S3 location. The message contains the location, so only the provider may see it."""


@dataclass(frozen=True, slots=True)
class S3Location:
    bucket: str
    prefix: str
    """Without leading or trailing slash. Empty for a table at the root of the bucket."""

    @classmethod
    def parse(cls, uri: str) -> "S3Location":
        scheme, separator, rest = uri.partition("://")
        bucket, _, prefix = rest.partition("/")
        if not separator or scheme.lower() not in SCHEMES or not BUCKET.fullmatch(bucket):
            raise InvalidLocationError(f"not an S3 location: {uri!r} (expected s3://bucket/path)")
        return cls(bucket, prefix.strip("/"))

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    def key(self, relative: str) -> str:
        return f"{self.prefix}/{relative}" if self.prefix else relative

    def resolved(self) -> "S3Location":
        """Resolves `.`, `..` and double slashes, which S3 takes literally but clients may not. Does not decode `%`."""
        parts: list[str] = []
        for part in self.prefix.split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return S3Location(self.bucket, "/".join(parts))

    def covers(self, other: "S3Location") -> bool:
        """Whether `other` is this directory or is inside it. `t1` does not cover `t10`."""
        return self.bucket == other.bucket and f"{other.prefix}/".startswith(self.key(""))
