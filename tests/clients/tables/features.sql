-- table clustered: liquid clustering; files have a clustering provider
CREATE TABLE {table} (id BIGINT, city STRING) USING delta CLUSTER BY (city);
INSERT INTO {table} SELECT /*+ REPARTITION(2) */ id, concat('city ', id % 3) FROM range(12);
INSERT INTO {table} SELECT id, 'other' FROM range(12, 15);
OPTIMIZE {table};

-- table row_tracking: row ids of files and of moved rows
CREATE TABLE {table} (id BIGINT, name STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id) FROM range(10);
UPDATE {table} SET name = 'updated' WHERE id = 3;
INSERT INTO {table} VALUES (10, 'last');

-- table in_commit_timestamps: enabled from the first commit
CREATE TABLE {table} (id BIGINT) USING delta
  TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true', 'delta.enableChangeDataFeed' = 'true');
INSERT INTO {table} VALUES (1);
INSERT INTO {table} VALUES (2);
DELETE FROM {table} WHERE id = 1;

-- table in_commit_timestamps_late: enabled in the third commit
CREATE TABLE {table} (id BIGINT) USING delta;
INSERT INTO {table} VALUES (1);
ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true');
INSERT INTO {table} VALUES (2);
INSERT INTO {table} VALUES (3);

-- table columns_with_rules: generated, identity and default columns, a constraint, a NOT NULL column
CREATE TABLE {table} (id BIGINT GENERATED ALWAYS AS IDENTITY, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
  name STRING NOT NULL COMMENT 'who', kind STRING DEFAULT 'none') USING delta PARTITIONED BY (day)
  TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported');
ALTER TABLE {table} ADD CONSTRAINT named CHECK (length(name) > 0);
INSERT INTO {table} (at, name) VALUES (TIMESTAMP '2024-05-01 10:00:00 UTC', 'a'), (TIMESTAMP '2024-05-02 10:00:00 UTC', 'b');
INSERT INTO {table} (at, name, kind) VALUES (TIMESTAMP '2024-05-01 11:00:00 UTC', 'c', 'some');

-- table iceberg_compatible: a writer feature that readers can ignore
CREATE TABLE {table} (id BIGINT, name STRING) USING delta
  TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, concat('row ', id) FROM range(4);

-- table vacuum_protocol_check: a reader feature that sharing clients can ignore
CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported');
INSERT INTO {table} VALUES (1);
