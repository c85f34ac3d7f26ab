"""Estimated DynamoDB costs of an index, at the on-demand list prices of us-east-1."""

from core.index.layout.head import Head

# US dollars per million units. A write unit is 1 KB; a read unit is 4 KB, or 8 KB for eventually consistent reads.
MILLION_WRITES = 0.625
MILLION_READS = 0.125
READ_BYTES = 8 * 1024
# A selective query reads one or two chunks, besides the head and (if not cached) the root.
CHUNKS_OF_A_SELECTIVE_QUERY = 2


def build_cost(units: int) -> float:
    return units * MILLION_WRITES / 1e6


def query_costs(head: Head) -> tuple[float, float]:
    """Returns the cost in US dollars of a query for all files, and of a selective query."""
    per_chunk = head.content_bytes / max(head.chunks, 1)
    return _reads(head.content_bytes), _reads(per_chunk * min(CHUNKS_OF_A_SELECTIVE_QUERY, head.chunks))


def _reads(size: float) -> float:
    return (1 + size / READ_BYTES) * MILLION_READS / 1e6
