-- The wait for an answer after which a request is also sent to the next deployment, in microseconds.
ALTER TABLE models ADD COLUMN hedge_after bigint;
