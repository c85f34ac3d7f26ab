-- table change_feed: every kind of change, a MERGE that changes nothing, OPTIMIZE, and a new column
CREATE TABLE {table} (id BIGINT, name STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, concat('row ', id) FROM range(20);
UPDATE {table} SET name = 'updated' WHERE id < 3;
DELETE FROM {table} WHERE id BETWEEN 5 AND 7;
MERGE INTO {table} AS old USING (SELECT id FROM range(8, 24)) AS new ON old.id = new.id
  WHEN MATCHED AND old.id < 10 THEN DELETE
  WHEN MATCHED AND old.id < 12 THEN UPDATE SET name = 'merged'
  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (new.id, 'inserted');
SET spark.databricks.delta.skipRecordingEmptyCommits = false;
MERGE INTO {table} AS old USING (SELECT -1 AS id) AS new ON old.id = new.id
  WHEN MATCHED THEN UPDATE SET name = 'never';
INSERT INTO {table} VALUES (50, 'one more file');
OPTIMIZE {table};
ALTER TABLE {table} ADD COLUMN note STRING;
INSERT INTO {table} VALUES (100, 'new', 'with a note');
DELETE FROM {table} WHERE id = 100;

-- table change_feed_partitioned: rows that move to another partition
CREATE TABLE {table} (id BIGINT, part STRING) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, nullif(concat('a/b ', id % 3, '%'), 'a/b 2%') FROM range(9);
UPDATE {table} SET part = 'moved' WHERE id = 4;
DELETE FROM {table} WHERE part IS NULL;
INSERT OVERWRITE {table} VALUES (1, 'x'), (2, NULL);

-- table change_feed_late: enabled after the second commit, disabled, and enabled again
CREATE TABLE {table} (id BIGINT, name STRING) USING delta;
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, 'early' FROM range(4);
ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
UPDATE {table} SET name = 'seen' WHERE id = 1;
INSERT INTO {table} VALUES (10, 'seen too');
ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false');
UPDATE {table} SET name = 'unseen' WHERE id = 2;
ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
DELETE FROM {table} WHERE id = 3;

-- table change_feed_deletion_vectors: deletes without change files; readers derive the changes from the deletion vectors
CREATE TABLE {table} (id BIGINT, name STRING) USING delta
  TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id) FROM range(50);
DELETE FROM {table} WHERE id % 10 = 0;
DELETE FROM {table} WHERE id % 10 = 1;
UPDATE {table} SET name = 'updated' WHERE id < 6;
MERGE INTO {table} AS old USING (SELECT id FROM range(45, 55)) AS new ON old.id = new.id
  WHEN MATCHED THEN UPDATE SET name = 'merged'
  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (new.id, 'inserted');
DELETE FROM {table};

-- table change_feed_column_mapping: column mapping with deletion vectors, partitions and a new column
CREATE TABLE {table} (id BIGINT, name STRING, part INT) USING delta PARTITIONED BY (part) TBLPROPERTIES
  ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id), int(id % 2) FROM range(12);
DELETE FROM {table} WHERE id % 3 = 0;
UPDATE {table} SET name = 'updated' WHERE id < 5;
ALTER TABLE {table} ADD COLUMN note STRING;
INSERT INTO {table} VALUES (20, 'new', 0, 'with a note');
