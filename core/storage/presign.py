"""Signs URLs of S3 objects with Signature Version 4 in the query string.

botocore takes 463 µs per URL, which is 4.6 s for 10,000 files. This signer takes about 3 µs: the files of a request
share credentials, bucket, time and expiry, so everything but the object's path is computed once. The URLs equal
botocore's byte for byte; a property test compares them.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from core.storage.endpoint import BucketEndpoint
from core.storage.roles import Credentials

HMAC_BLOCK_BYTES = 64
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~/-"
UNSAFE = re.compile(rb"[^%b]" % re.escape(SAFE))
ESCAPES = {bytes([byte]): b"%%%02X" % byte for byte in range(256)}
# Unsafe characters of typical paths: `=` in partitions, `:` and spaces in times, `+` in names.
COMMON_ESCAPES = {byte: f"%{byte:02X}" for byte in b"=: +"}


class UrlSigner:
    """Signs GET requests for the objects of one bucket, with the credentials and time of one request."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        bucket: str,
        region: str,
        endpoint_url: str | None,
        path_style: bool,
        signed_at: float,
        expires_in: int,
    ) -> None:
        endpoint = BucketEndpoint.of(bucket, region=region, endpoint_url=endpoint_url, path_style=path_style)
        url = urlsplit(endpoint.url)
        timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(signed_at))
        scope = f"{timestamp[:8]}/{region}/s3/aws4_request"
        constant = (
            "X-Amz-Algorithm=AWS4-HMAC-SHA256"
            f"&X-Amz-Credential={quote(f'{credentials.access_key_id}/{scope}', safe='')}"
            f"&X-Amz-Date={timestamp}&X-Amz-Expires={expires_in}"
        )
        token = ""
        if credentials.session_token is not None:
            token = f"&X-Amz-Security-Token={quote(credentials.session_token, safe='')}"
        signed_headers = "&X-Amz-SignedHeaders=host"
        # HTTP clients send the host in lower case and without the default port of the scheme.
        host = url.netloc.lower().removesuffix(DEFAULT_PORTS[url.scheme])

        self._origin = f"{url.scheme}://{url.netloc}"
        self._directory = f"{url.path}/" if endpoint.virtual else f"{url.path}/{bucket}/"
        # Signature Version 4 signs the parameters sorted by name. The URL keeps botocore's order.
        self._signed_tail = f"\n{constant}{token}{signed_headers}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD".encode()
        self._query = f"?{constant}{signed_headers}{token}&X-Amz-Signature="
        signing_key = f"AWS4{credentials.secret_access_key}".encode()
        for part in scope.split("/"):
            signing_key = hmac.digest(signing_key, part.encode(), "sha256")
        # HMAC written out as two prepared SHA-256 hashes, because copying `hmac` objects takes three times as long.
        block = signing_key.ljust(HMAC_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._inner.update(f"AWS4-HMAC-SHA256\n{timestamp}\n{scope}\n".encode())
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def sign(self, key: str) -> str:
        return self.sign_all([key])[0]

    def sign_all(self, keys: Sequence[str]) -> list[str]:
        """The hot path: runs for millions of files, so attributes are bound to local names."""
        get_hash, inner_hash, outer_hash = hashlib.sha256(b"GET\n").copy, self._inner.copy, self._outer.copy
        origin, query, tail = self._origin, self._query, self._signed_tail
        urls = []
        for path in _escaped(self._directory, keys):
            request, inner, outer = get_hash(), inner_hash(), outer_hash()
            request.update(path.encode())
            request.update(tail)  # long: joining it with the path first would copy it twice
            inner.update(request.hexdigest().encode())
            outer.update(inner.digest())
            urls.append(f"{origin}{path}{query}{outer.hexdigest()}")
        return urls


def _escaped(directory: str, keys: Sequence[str]) -> list[str]:
    """Percent-encodes keys in 0.3 µs each. `urllib.parse.quote` takes 7 µs for a key with one `=`."""
    unsafe = set("".join(keys).encode().translate(None, SAFE))
    if not unsafe <= COMMON_ESCAPES.keys():
        return [directory + UNSAFE.sub(lambda byte: ESCAPES[byte[0]], key.encode()).decode() for key in keys]
    for byte in unsafe:
        keys = [key.replace(chr(byte), COMMON_ESCAPES[byte]) for key in keys]
    return [directory + key for key in keys]
