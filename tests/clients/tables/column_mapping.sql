-- table column_mapping_name: columns renamed, dropped and added again; a renamed struct field
CREATE TABLE {table} (id BIGINT, name STRING, place STRUCT<city: STRING, zip: INT>, gone INT) USING delta
  TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id), struct(concat('c', id), int(id)), int(id) FROM range(8);
ALTER TABLE {table} RENAME COLUMN name TO `full name`;
ALTER TABLE {table} RENAME COLUMN place.city TO town;
ALTER TABLE {table} DROP COLUMN gone;
INSERT INTO {table} SELECT id, 'renamed', struct('t', 1) FROM range(8, 10);
ALTER TABLE {table} ADD COLUMN gone STRING;
INSERT INTO {table} SELECT id, 'back', NULL, 'not the old one' FROM range(10, 12);
DELETE FROM {table} WHERE id IN (0, 9);

-- table column_mapping_id: partitioned, with the partition column renamed
CREATE TABLE {table} (id BIGINT, `a b,c;{}()=` STRING, part DATE) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.columnMapping.mode' = 'id');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id), date_add(DATE '2024-02-28', int(id % 3)) FROM range(9);
ALTER TABLE {table} RENAME COLUMN part TO day;
ALTER TABLE {table} DROP COLUMN id;
INSERT INTO {table} VALUES ('last', NULL);

-- table column_mapping_upgraded: column mapping enabled later, so old files have logical names
CREATE TABLE {table} (id BIGINT, old_name STRING) USING delta;
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id) FROM range(5);
ALTER TABLE {table} SET TBLPROPERTIES
  ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5');
ALTER TABLE {table} RENAME COLUMN old_name TO new_name;
INSERT INTO {table} VALUES (5, 'new');

-- table column_mapping_deletion_vectors: both features, and a checkpoint
CREATE TABLE {table} (id BIGINT, name STRING, part INT) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '4');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id), int(id % 2) FROM range(20);
DELETE FROM {table} WHERE id % 4 = 1;
ALTER TABLE {table} RENAME COLUMN part TO `the part`;
UPDATE {table} SET name = 'even' WHERE id IN (0, 2);
ALTER TABLE {table} DROP COLUMN name;
DELETE FROM {table} WHERE id > 15;
