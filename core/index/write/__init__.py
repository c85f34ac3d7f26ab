"""Builds indexes and starts index jobs. Functions that serve routes do not ship this half."""
