"""What an index costs in DynamoDB, on demand, by its list prices of us-east-1."""

from core.index.store import Head

# US dollars for a million units: a write of one kilobyte, or a read of four (of eight, if eventually consistent).
MILLION_WRITES = 0.625
MILLION_READS = 0.125
READ_BYTES = 8 * 1024
# What a selective query reads: the head, the root if it is not known yet, and a chunk or two.
CHUNKS_OF_A_SELECTIVE_QUERY = 2


def build_cost(units: int) -> float:
    return units * MILLION_WRITES / 1e6


def query_costs(head: Head) -> tuple[float, float]:
    """Of one that lists all files, and of one that needs but a few."""
    per_chunk = head.content_bytes / max(head.chunks, 1)
    return _reads(head.content_bytes), _reads(per_chunk * min(CHUNKS_OF_A_SELECTIVE_QUERY, head.chunks))


def _reads(size: float) -> float:
    return (1 + size / READ_BYTES) * MILLION_READS / 1e6
