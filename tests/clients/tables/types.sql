-- table types_primitive: extremes, nulls, and values that are hard to represent in JSON and pandas
CREATE TABLE {table} (id BIGINT, tiny TINYINT, small SMALLINT, whole INT, price DECIMAL(38, 10),
  cents DECIMAL(5, 2), ratio DOUBLE, share FLOAT, day DATE, at TIMESTAMP,
  name STRING, short VARCHAR(5), flag BOOLEAN, data BINARY) USING delta;
INSERT INTO {table} VALUES
  (9007199254740993, -128, -32768, -2147483648, 1234567890123456789012345678.0123456789, -999.99,
   double('Infinity'), float('-Infinity'), DATE '1969-12-31',
   TIMESTAMP '1969-12-31 23:59:59.999999 UTC', 'é "quoted" \\ \u2028 😀', 'short', true, X'00FF10'),
  (-9223372036854775808, 127, 32767, 2147483647, -0.0000000001, 0.00, -0.0, float('0.1'),
   DATE '2262-01-01', TIMESTAMP '2261-12-31 12:00:00.123456 UTC', '', '', false, X''),
  (9223372036854775807, 0, 0, 0, 0, 1.10, 1e-300, float(3.4e38),
   DATE '1900-01-01', TIMESTAMP '2024-02-29 00:00:00 UTC', ' ', ' ', NULL, NULL);
INSERT INTO {table} (id) VALUES (1);

-- table types_nested: structs, arrays and maps nested in each other
CREATE TABLE {table} (id BIGINT, place STRUCT<city: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>>, tags ARRAY<STRING>,
  counts MAP<STRING, INT>, deep ARRAY<STRUCT<key: STRING, values: MAP<STRING, ARRAY<INT>>>>) USING delta;
INSERT INTO {table} SELECT 1, named_struct('city', 'Zürich', 'geo', named_struct('lat', 47.4, 'lon', 8.5)), array('a', NULL, ''),
  map('x', 1, 'y', NULL), array(named_struct('key', 'k', 'values', map('m', array(1, NULL, 3))));
INSERT INTO {table} SELECT 2, NULL, array(), map(), array(NULL);

-- table types_partitions: partition columns of many types, with nulls, special characters and the empty string
CREATE TABLE {table} (id BIGINT, p_text STRING, p_int INT, p_day DATE, p_at TIMESTAMP, p_flag BOOLEAN, p_price DECIMAL(10, 3))
  USING delta PARTITIONED BY (p_text, p_int, p_day, p_at, p_flag, p_price);
INSERT INTO {table} VALUES
  (1, 'a/b=c d%20+&?#', 1, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789012 UTC', true, 1.500),
  (2, 'é😀:*"|<>', -1, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59 UTC', false, -0.001),
  (3, '', NULL, NULL, NULL, NULL, NULL),
  (4, NULL, 2147483647, DATE '9999-12-31', TIMESTAMP '2024-01-01 00:00:00 UTC', true, 9999999.999),
  (5, ' %41 {x} [y] ~^`', 0, DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00 UTC', false, 0);

-- table types_timestamp_ntz: as a data column and as a partition column
CREATE TABLE {table} (id BIGINT, local TIMESTAMP_NTZ, p_local TIMESTAMP_NTZ) USING delta PARTITIONED BY (p_local);
INSERT INTO {table} VALUES
  (1, TIMESTAMP_NTZ '2024-03-31 02:30:00.123456', TIMESTAMP_NTZ '2024-03-31 02:30:00'), (2, NULL, NULL);

-- table types_widened: three columns and a nested field, with files from before and after
CREATE TABLE {table} (id INT, small SMALLINT, price DECIMAL(6, 2), nested STRUCT<n: INT>) USING delta
  TBLPROPERTIES ('delta.enableTypeWidening' = 'true');
INSERT INTO {table} SELECT /*+ REPARTITION(1) */ int(id), smallint(id), id * 1.25, struct(int(id)) FROM range(6);
ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT;
INSERT INTO {table} VALUES (9007199254740993, 1, 2.5, struct(1));
ALTER TABLE {table} ALTER COLUMN small TYPE INT;
ALTER TABLE {table} ALTER COLUMN price TYPE DECIMAL(12, 4);
ALTER TABLE {table} ALTER COLUMN nested.n TYPE BIGINT;
INSERT INTO {table} VALUES (7, 100000, 12345678.1234, struct(9007199254740993));

-- table types_variant: scalars, objects, arrays and nulls
CREATE TABLE {table} (id BIGINT, value VARIANT) USING delta;
INSERT INTO {table} SELECT 1, parse_json('{"a": [1, 2.5, null, "x"], "b": {"c": true}}');
INSERT INTO {table} VALUES (2, parse_json('3')), (3, parse_json('null')), (4, NULL);

-- table types_variant_shredded: the field `a` has its own column
SET spark.sql.variant.writeShredding.enabled = true;
SET spark.sql.variant.forceShreddingSchemaForTest = a BIGINT;
CREATE TABLE {table} (id BIGINT, value VARIANT) USING delta TBLPROPERTIES ('delta.enableVariantShredding' = 'true');
INSERT INTO {table} SELECT id, parse_json(concat('{"a": ', id, ', "b": "x"}')) FROM range(4);
