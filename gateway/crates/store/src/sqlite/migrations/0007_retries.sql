-- The digest of the idempotency key, by which retries of a completed request are recognised. Few
-- requests have one.
ALTER TABLE requests ADD COLUMN idempotency BLOB;
-- For the requests that ended recently, which a start loads.
CREATE INDEX requests_by_idempotency ON requests (started_at + duration) WHERE idempotency IS NOT NULL;

-- The time for which an answer is read after its client disconnected; null cancels the request.
ALTER TABLE keys ADD COLUMN drain_seconds INTEGER;

-- Admin calls with an idempotency key, kept for a day, so that a repeated call changes nothing.
CREATE TABLE admin_calls (
    actor  BLOB NOT NULL,
    method TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest BLOB NOT NULL,
    object TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (actor, method, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX admin_calls_by_time ON admin_calls (at);
