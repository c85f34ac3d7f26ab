"""Reads an index in place of a checkpoint. Query functions ship this half and `layout`, not `write`."""
