-- Partitions of the log by day, which `partitions.rs` makes and drops. The records so far stay where they are, in the
-- partition of all earlier days. Attaching it reads it once, and the batches of other gateways and all reads of the log
-- wait for that.
DO $$
DECLARE
    today  bigint := floor(extract(epoch FROM now()) / 86400);
    -- The first day after the partition: other gateways may be writing records of today, and of tomorrow at midnight.
    border bigint := today + CASE WHEN EXISTS (SELECT FROM requests) THEN 2 ELSE 0 END;
BEGIN
    ALTER TABLE requests DETACH PARTITION requests_of_all_days;
    ALTER TABLE requests_of_all_days RENAME TO requests_of_earlier_days;
    -- Records of days without a partition, so that none is refused: those of clocks that are wrong, and those of
    -- gateways of earlier versions, which make no partitions.
    CREATE TABLE requests_of_other_days PARTITION OF requests DEFAULT;
    WITH moved AS (DELETE FROM requests_of_earlier_days WHERE started_at >= border * 86400000000 RETURNING *)
        INSERT INTO requests SELECT * FROM moved;
    EXECUTE format('ALTER TABLE requests ATTACH PARTITION requests_of_earlier_days '
        'FOR VALUES FROM (MINVALUE) TO (%s)', border);
END $$;
