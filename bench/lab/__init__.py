"""Tools that the benchmarks share: an embedded AWS, fresh processes, request counters, load clients."""
