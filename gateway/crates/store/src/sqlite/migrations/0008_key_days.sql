-- Sums by day (days since 1970, UTC) and key: a summary by key over all accounts would read too
-- many sums by hour.
CREATE TABLE key_days (
    day       INTEGER NOT NULL,
    account   BLOB NOT NULL,
    key       TEXT NOT NULL,
    status    INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    input     INTEGER NOT NULL,
    cached    INTEGER NOT NULL,
    output    INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost      INTEGER NOT NULL,
    PRIMARY KEY (day, account, key, status)
) STRICT, WITHOUT ROWID;
-- Dropped, recreated and filled in 0010.
