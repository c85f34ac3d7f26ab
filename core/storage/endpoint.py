"""The endpoint of a bucket: regional or custom, with the bucket in the host or in the path.

The rules are botocore's, so that signed URLs use the same endpoint as its client. A property test compares them.
"""

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

# Partitions whose regions are not under amazonaws.com.
DNS_SUFFIXES = {
    "cn-": "amazonaws.com.cn",
    "eusc-": "amazonaws.eu",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "us-isof-": "csp.hci.ic.gov",
    "eu-isoe-": "cloud.adc-e.uk",
}
HOST_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class BucketEndpoint(NamedTuple):
    """`url` has no trailing slash. If `virtual`, its host includes the bucket."""

    url: str
    virtual: bool

    @classmethod
    def of(cls, bucket: str, *, region: str, endpoint_url: str | None, path_style: bool) -> "BucketEndpoint":
        base = (endpoint_url or _regional_endpoint(region)).rstrip("/")
        scheme, _, rest = base.partition("://")
        # A wildcard certificate covers one label, so over https a bucket with dots goes into the path.
        labels = bucket.split(".") if scheme == "http" else [bucket]
        hostable = len(bucket) >= 3 and all(map(HOST_LABEL.fullmatch, labels)) and not _is_ip(bucket)
        if path_style or not hostable or _is_ip(urlsplit(base).hostname or ""):
            return cls(base, virtual=False)
        return cls(f"{scheme}://{bucket}.{rest}", virtual=True)


def _regional_endpoint(region: str) -> str:
    if region == "us-east-1":
        return "https://s3.amazonaws.com"  # botocore's default
    for prefix, suffix in DNS_SUFFIXES.items():
        if region.startswith(prefix):
            return f"https://s3.{region}.{suffix}"
    return f"https://s3.{region}.amazonaws.com"


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
