"""The process of a function that streams, as Lambda starts it, for benchmarks: `python -m bench.lab.streaming`.

It runs on one core. `BENCH_STREAMING` has the options of the benchmark as JSON: a longer session token, because the
tokens of the emulator are shorter than those of AWS; strong compression; no limit on the size of an answer; an index
where the log is faster; CPU times of the layers, which are written to a file at the end of each request.
"""

import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partialmethod
from pathlib import Path
from typing import Any

OPTIONS_VARIABLE = "BENCH_STREAMING"


@dataclass(frozen=True, slots=True)
class Options:
    core: int | None = None
    """The core that the process runs on. None lets the system choose."""
    token_characters: int = 0
    """The length of the session token in signed URLs. 0 leaves it as it is. Nothing reads these URLs."""
    strong: bool = False
    """Whether to compress strongly, as on a slow link."""
    limited: bool = True
    """Whether an answer that is too large for Lambda gets reduced statistics."""
    by_index: bool = False
    """Whether to read an index where the log would be faster, as it is for full listings."""
    layers_path: str = ""

    def environment(self) -> dict[str, str]:
        return {OPTIONS_VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Options":
        return cls(**json.loads(environment[OPTIONS_VARIABLE]))


def main() -> None:
    options = Options.of(os.environ)
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    from core.runtime import compression, limit, streaming

    if options.strong:
        compression.FAST_LINK = compression.SLOW_LINK = -1.0  # every link is slow
    if not options.limited:
        limit.LIMIT = sys.maxsize
    if options.by_index:
        _read_indexes()
    if options.token_characters:
        _lengthen_tokens(options.token_characters)
    if options.layers_path:
        _measure_layers(Path(options.layers_path))
    streaming.main()


def _read_indexes() -> None:
    from core.delta.source import Way
    from core.delta.tables import DeltaTables

    DeltaTables.__init__ = partialmethod(DeltaTables.__init__, way=Way.INDEX)  # type: ignore[assignment]


def _lengthen_tokens(characters: int) -> None:
    from core.storage.session import StorageSession

    signer = StorageSession.signer
    # Base64 without a pattern, as in AWS, so that it compresses no better than a real one.
    token = base64.b64encode(hashlib.shake_256(b"token").digest(characters))[:characters].decode()

    def signer_with_long_token(session: StorageSession, bucket: str | None = None) -> Any:
        return signer(replace(session, credentials=replace(session.credentials, session_token=token)), bucket)

    StorageSession.signer = signer_with_long_token  # type: ignore[method-assign]


def _measure_layers(path: Path) -> None:
    """Writes the CPU seconds of the last request, by layer."""
    from bench.lab.layers import Layers
    from core.runtime.function import LambdaFunction

    layers, started = Layers(), [0.0]
    layers.install()
    stream, record = LambdaFunction.stream, LambdaFunction._record  # noqa: SLF001

    def stream_measured(*arguments: Any, **options: Any) -> Any:
        layers.reset()
        started[0] = time.process_time()
        return stream(*arguments, **options)

    def record_measured(*arguments: Any, **options: Any) -> None:
        path.write_text(json.dumps({**layers.seconds, "all": time.process_time() - started[0]}))
        record(*arguments, **options)

    LambdaFunction.stream = stream_measured  # type: ignore[method-assign]
    LambdaFunction._record = record_measured  # type: ignore[method-assign]  # noqa: SLF001


if __name__ == "__main__":
    main()
