"""Builds an index: packs files into chunks, writes them, and moves the head. Routes do not ship this half."""
