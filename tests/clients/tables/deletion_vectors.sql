-- table deletion_vectors: DELETE, UPDATE, MERGE, a second DELETE in the same file, then a purge
CREATE TABLE {table} (id BIGINT, name STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(3) */ id, concat('row ', id) FROM range(60);
DELETE FROM {table} WHERE id % 7 = 0;
UPDATE {table} SET name = upper(name) WHERE id % 10 = 1;
MERGE INTO {table} AS old USING (SELECT id * 5 AS id FROM range(20)) AS new ON old.id = new.id
  WHEN MATCHED AND old.id > 30 THEN DELETE
  WHEN MATCHED THEN UPDATE SET name = 'merged'
  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (new.id, 'inserted');
DELETE FROM {table} WHERE id IN (1, 2, 3);
REORG TABLE {table} APPLY (PURGE);

-- table deletion_vectors_partitioned: disabled while some are still live
CREATE TABLE {table} (id BIGINT, name STRING, part STRING) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id), nullif(concat('p ', id % 4), 'p 3') FROM range(40);
DELETE FROM {table} WHERE id % 5 = 0;
UPDATE {table} SET name = NULL WHERE id % 6 = 1;
MERGE INTO {table} AS old USING (SELECT id, 'p 9' AS part FROM range(38, 42)) AS new ON old.id = new.id
  WHEN MATCHED THEN UPDATE SET part = new.part
  WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (new.id, 'inserted', new.part);
DELETE FROM {table} WHERE part = 'p 1';
ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false');
INSERT INTO {table} VALUES (100, 'after', 'p 1');

-- table deletion_vectors_dropped: the feature is dropped, which rewrites the files
CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id FROM range(30);
DELETE FROM {table} WHERE id < 5;
ALTER TABLE {table} DROP FEATURE deletionVectors;

-- table deletion_vectors_in_checkpoints: in checkpoints and in later commits
CREATE TABLE {table} (id BIGINT, name STRING) USING delta
  TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3');
INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, concat('row ', id) FROM range(40);
DELETE FROM {table} WHERE id % 3 = 0;
DELETE FROM {table} WHERE id % 4 = 0;
DELETE FROM {table} WHERE id % 5 = 0;
INSERT INTO {table} SELECT id, 'more' FROM range(40, 44);
