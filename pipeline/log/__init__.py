"""A table's log as Arrow batches: the files of its checkpoint and the actions of the commits after it."""
