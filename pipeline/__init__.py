"""The PySpark job that builds the file index. So far: a Java to run Spark on, and the local session."""
