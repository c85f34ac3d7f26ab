"""The Arrow schema of a live file: the columns of an `add` action, for the index and for Spark.

Integers are 64 bits wide, as in the JSON of a commit. Checkpoints store a vector's offset and size in 32 bits.
"""

from collections.abc import Mapping

from arro3.core import DataType, Field, Schema


def _map_of_strings() -> DataType:
    key, value = Field("key", DataType.string(), nullable=False), Field("value", DataType.string(), nullable=True)
    return DataType.map(key, value, keys_sorted=False)


VECTOR_TYPES: Mapping[str, DataType] = {
    "storageType": DataType.string(),
    "pathOrInlineDv": DataType.string(),
    "offset": DataType.int64(),
    "sizeInBytes": DataType.int64(),
    "cardinality": DataType.int64(),
}
FILE_TYPES: Mapping[str, DataType] = {
    "path": DataType.string(),
    "partitionValues": _map_of_strings(),
    "size": DataType.int64(),
    "modificationTime": DataType.int64(),
    "dataChange": DataType.bool(),
    "stats": DataType.string(),
    "deletionVector": DataType.struct(
        [Field(name, data_type, nullable=True) for name, data_type in VECTOR_TYPES.items()]
    ),
    "tags": _map_of_strings(),
    "baseRowId": DataType.int64(),
    "defaultRowCommitVersion": DataType.int64(),
    "clusteringProvider": DataType.string(),
}
FILE_SCHEMA = Schema([Field(name, data_type, nullable=True) for name, data_type in FILE_TYPES.items()])
