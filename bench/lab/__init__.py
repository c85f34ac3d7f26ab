"""Tools that the benchmarks share: an embedded AWS, fresh processes, queries, request counters, load clients."""
