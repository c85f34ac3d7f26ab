"""File skipping: decides from the log alone which files of a table may hold rows that match a predicate.

Hints in SQL or JSON are parsed into one expression tree (`parsing/`, `expressions`), bound to the table's columns
(`schema`, `literals`, `compiler`), and evaluated on partition values and statistics (`columns`, `ranges`, `evaluate`).
Every step is conservative: whatever is not understood or not known keeps files.
"""
