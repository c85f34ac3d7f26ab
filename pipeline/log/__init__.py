"""A table's log as a Spark data source: the rows of its checkpoint, and the actions of the commits after it."""
