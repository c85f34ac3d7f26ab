-- table checkpoint_classic: a checkpoint in one file, then in several
CREATE TABLE {table} (id BIGINT, part INT) USING delta PARTITIONED BY (part) TBLPROPERTIES ('delta.checkpointInterval' = '2');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, int(id % 5) FROM range(20);
DELETE FROM {table} WHERE part = 1;
SET spark.databricks.delta.checkpoint.partSize = 2;
DELETE FROM {table} WHERE id = 7;
INSERT INTO {table} VALUES (100, 1), (101, NULL);
UPDATE {table} SET part = 3 WHERE id = 9;

-- table checkpoint_struct_stats: statistics only as columns, for every type that has statistics
CREATE TABLE {table} (id BIGINT, tiny TINYINT, small SMALLINT, price DECIMAL(20, 4), ratio DOUBLE, share FLOAT, day DATE,
  at TIMESTAMP, local TIMESTAMP_NTZ, name STRING, flag BOOLEAN, data BINARY, nested STRUCT<a: INT, b: STRUCT<c: STRING>>,
  list ARRAY<INT>, part DATE) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsJson' = 'false',
    'delta.checkpoint.writeStatsAsStruct' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, tinyint(id), smallint(-id), id * 1.2345, id / 7, float(id / 3),
  date_add(DATE '2024-01-01', int(id)), timestamp_micros(1700000000123456 + id), TIMESTAMP_NTZ '2024-01-01 00:00:00.123456',
  concat('é "', id), id > 2, cast(string(id) AS BINARY), struct(int(id), struct(concat('c', id))), array(int(id)),
  date_add(DATE '2024-01-01', int(id % 2)) FROM range(6);
INSERT INTO {table} (id) VALUES (100);
INSERT INTO {table} (id, name) VALUES (101, repeat('long ', 20));

-- table checkpoint_v2_json: a V2 checkpoint in JSON, with sidecars
SET spark.databricks.delta.checkpointV2.topLevelFileFormat = json;
SET spark.databricks.delta.checkpoint.partSize = 3;
CREATE TABLE {table} (id BIGINT, part INT) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2', 'delta.enableDeletionVectors' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, int(id % 7) FROM range(21);
DELETE FROM {table} WHERE id IN (8, 9);
INSERT INTO {table} VALUES (100, NULL);
DELETE FROM {table} WHERE part = 6;
INSERT INTO {table} VALUES (101, 6);

-- table checkpoint_v2_parquet: a V2 checkpoint in Parquet, with sidecars
SET spark.databricks.delta.checkpointV2.topLevelFileFormat = parquet;
SET spark.databricks.delta.checkpoint.partSize = 3;
CREATE TABLE {table} (id BIGINT, part INT) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, int(id % 7) FROM range(21);
DELETE FROM {table} WHERE id IN (8, 9);
INSERT INTO {table} VALUES (100, NULL);
DELETE FROM {table} WHERE part = 6;
INSERT INTO {table} VALUES (101, 6);
