-- The oldest schema version whose gateways may use this schema; see `migrations.rs`.
ALTER TABLE schema_version ADD COLUMN oldest_supported bigint;
