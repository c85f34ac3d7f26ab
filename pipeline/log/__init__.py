"""Reads a log segment as Arrow batches: the files of its checkpoint and the actions of its commits."""
