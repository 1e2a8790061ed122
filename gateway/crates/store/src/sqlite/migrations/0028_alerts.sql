-- The conditions that operators were notified of.
CREATE TABLE alerts (
    kind    TEXT NOT NULL,
    -- an account without hyphens, a key, or an upstream
    subject TEXT NOT NULL,
    -- the gateway, for conditions that each gateway sees for itself; empty for others, and with SQLite
    node    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (kind, subject, node)
) STRICT, WITHOUT ROWID;
