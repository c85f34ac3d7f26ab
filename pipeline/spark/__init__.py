"""The parts of a build that need Spark: log replay, sorting, packing and writing."""
