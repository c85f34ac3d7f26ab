"""Measures signed URLs per second, compared with botocore's `generate_presigned_url`.

Both alternate in one process, so that noise affects both alike. The ratio is the median of the ratios per round.
"""

import statistics
import time
from collections.abc import Callable

import botocore.session
from botocore.config import Config

from bench.report import Result, write
from core.storage.presign import UrlSigner
from core.storage.roles import Credentials

ROUNDS = 15
TARGET_RATIO = 30
BUCKET = "acme-lakehouse-eu-west-1"
REGION = "eu-west-1"
# The session token is as long as those of STS.
CREDENTIALS = Credentials("ASIAQ3EGRWPLK7EXAMPL", "x" * 40, "IQoJb3JpZ2luX2VjE+/=" * 50, 0.0)
KEYS = [
    f"warehouse/trips/pickup_date=2024-{month:02}-{day:02}/"
    f"part-{day:05}-8b0086f2-7b27-4935-ac5a-8ed6215a66{month:02}.c000.snappy.parquet"
    for month in range(1, 13)
    for day in range(1, 26)
]


def sign_with_sluice() -> None:
    signer = UrlSigner(
        CREDENTIALS,
        bucket=BUCKET,
        region=REGION,
        endpoint_url=None,
        path_style=False,
        signed_at=time.time(),
        expires_in=3600,
    )
    for key in KEYS:
        signer.sign(key)


def botocore_signer() -> Callable[[], None]:
    client = botocore.session.Session().create_client(
        "s3",
        region_name=REGION,
        aws_access_key_id=CREDENTIALS.access_key_id,
        aws_secret_access_key=CREDENTIALS.secret_access_key,
        aws_session_token=CREDENTIALS.session_token,
        config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}),
    )

    def sign() -> None:
        for key in KEYS:
            client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=3600)

    return sign


def urls_per_second(sign: Callable[[], None]) -> float:
    started = time.perf_counter()
    sign()
    return len(KEYS) / (time.perf_counter() - started)


def main() -> None:
    sign_with_botocore = botocore_signer()
    sign_with_botocore()
    sign_with_sluice()
    rounds = [(urls_per_second(sign_with_sluice), urls_per_second(sign_with_botocore)) for _ in range(ROUNDS)]
    ratio = statistics.median(sluice_rate / botocore_rate for sluice_rate, botocore_rate in rounds)
    write(
        "sign",
        [
            Result("sluice", round(statistics.median(sluice_rate for sluice_rate, _ in rounds)), "URLs/s"),
            Result("botocore", round(statistics.median(botocore_rate for _, botocore_rate in rounds)), "URLs/s"),
            Result("ratio", round(ratio, 1), "x", TARGET_RATIO, ratio >= TARGET_RATIO),
        ],
    )


if __name__ == "__main__":
    main()
