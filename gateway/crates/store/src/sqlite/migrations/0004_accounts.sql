-- The audit log. Without foreign keys, because entries may name deleted objects.
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   BLOB,
    action  TEXT NOT NULL,
    object  TEXT NOT NULL,
    account BLOB,
    details TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_account ON audit (account);
CREATE INDEX audit_by_actor ON audit (actor);
CREATE TRIGGER audit_keeps_what_it_has BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_loses_nothing BEFORE DELETE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;

-- The public id of a session; its digest is a credential.
ALTER TABLE sessions ADD COLUMN id TEXT NOT NULL DEFAULT '';
UPDATE sessions SET id = lower(hex(randomblob(6)));
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_account ON sessions (account);

-- The key that replaced a rotated key.
ALTER TABLE keys ADD COLUMN successor TEXT;

-- The trial credit given on each day (days since 1970, UTC).
CREATE TABLE trial_days (
    day    INTEGER PRIMARY KEY,
    amount INTEGER NOT NULL
) STRICT;
