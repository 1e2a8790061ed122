-- What the retries of a request that was answered are known by: the digest of its idempotency key. Few
-- requests have one.
ALTER TABLE requests ADD COLUMN idempotency BLOB;
-- Those that a start must know of: the ones that ended a short time ago.
CREATE INDEX requests_by_idempotency ON requests (started_at + duration) WHERE idempotency IS NOT NULL;

-- What becomes of a request whose client has gone: null to cancel it, else for how long its answer is read.
ALTER TABLE keys ADD COLUMN drain_seconds INTEGER;

-- Changes that were asked for with an idempotency key; for a day, so that asking again does nothing.
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
