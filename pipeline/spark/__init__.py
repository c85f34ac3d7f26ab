"""The parts of a build that run on Spark: log replay, sorting, packing and writing."""
