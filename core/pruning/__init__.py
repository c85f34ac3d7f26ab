"""File skipping: decides from the log alone which files of a table may contain rows that match a predicate.

1. `parsing/` parses SQL and JSON hints into one expression tree (`expressions`).
2. `compiler` binds the tree to the table's columns (`schema`) and converts each literal to a range (`literals`). It
   first reads literals whose declared type is unreliable by the type of their column (`texts`).
3. `ranges` converts the partition values and statistics of many files (`columns`) to ranges.
4. `evaluate` compares the ranges. `predicate` runs it on partition values first, then on statistics.
5. `zone_maps` applies the same predicate to whole chunks of an index.

Every step is conservative: a file is kept if a hint, a literal or a statistic is missing or not understood. An extra
file costs time; a missing one is silent data loss.
"""
