"""Reads Delta tables: the log, the versions and snapshots that it describes, and what a process caches of them.

Read the modules in this order. Each builds on those before it, and none imports a later one.

1. `model`: the actions of a log as plain values, and the key that identifies a file.
2. `log/segment` and `log/listing`: a listing of the log, and the segment of it that one version is read from.
3. `log/actions`, `log/commits`, `log/checkpoint`: decode the files of a segment.
4. `log/replay`: applies commits to a checkpoint.
5. `snapshot`: the result, a table at a version. `features` decides whether this server can read it.
6. `reader`: fetches a segment and replays it.
7. `cache/` and `tables`: the same for many tables and requests, from a cache, and from an `index` if there is one.

Also here: `history` (the version at a timestamp), `paths` (the S3 key of a file), and `cross_check`.
"""
