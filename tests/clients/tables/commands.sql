-- table plain: no special features
CREATE TABLE {table} (id BIGINT, name STRING) USING delta COMMENT 'Nothing special';
INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, concat('row ', id) FROM range(10);
DELETE FROM {table} WHERE id = 3;
UPDATE {table} SET name = NULL WHERE id = 4;
INSERT OVERWRITE {table} VALUES (1, 'only');

-- table empty: no row was ever written
CREATE TABLE {table} (id BIGINT, name STRING, part INT) USING delta PARTITIONED BY (part);

-- table optimized: files rewritten by OPTIMIZE, with and without ZORDER, without data changes
CREATE TABLE {table} (id BIGINT, name STRING) USING delta;
INSERT INTO {table} SELECT /*+ REPARTITION(4) */ id, concat('row ', id) FROM range(20);
OPTIMIZE {table};
INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, 'more' FROM range(20, 24);
OPTIMIZE {table} ZORDER BY (id);

-- table restored: restored to an earlier version, whose files are added again
CREATE TABLE {table} (id BIGINT) USING delta;
INSERT INTO {table} VALUES (1), (2);
DELETE FROM {table} WHERE id = 1;
INSERT INTO {table} VALUES (3);
RESTORE TABLE {table} TO VERSION AS OF 1;

-- table replaced: another schema and other partitions under the same name
CREATE TABLE {table} (id BIGINT, name STRING) USING delta;
INSERT INTO {table} VALUES (1, 'old');
CREATE OR REPLACE TABLE {table} USING delta PARTITIONED BY (part) AS
  SELECT string(id) AS id, id / 2 AS half, int(id % 2) AS part FROM range(4);
INSERT INTO {table} VALUES ('x', 1.5, NULL);

-- table vacuumed: old files are deleted, so only the last version can be read
SET spark.databricks.delta.retentionDurationCheck.enabled = false;
CREATE TABLE {table} (id BIGINT) USING delta;
INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id FROM range(10);
DELETE FROM {table} WHERE id < 9;
VACUUM {table} RETAIN 0 HOURS;

-- table cloned: a shallow clone, whose files are in the folder of its source
CREATE TABLE delta.`{folder}/cloned_from` (id BIGINT, name STRING) USING delta;
INSERT INTO delta.`{folder}/cloned_from` VALUES (1, 'a'), (2, 'b');
CREATE TABLE {table} SHALLOW CLONE delta.`{folder}/cloned_from`;
INSERT INTO {table} VALUES (3, 'its own');

-- table converted: plain Parquet files, converted in place
INSERT OVERWRITE DIRECTORY '{folder}/converted' USING parquet
  SELECT /*+ REPARTITION(1) */ id, concat('row ', id) AS name FROM range(6);
CONVERT TO DELTA parquet.`{folder}/converted`;
DELETE FROM {table} WHERE id = 2;
