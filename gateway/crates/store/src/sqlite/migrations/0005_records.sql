-- The part of `request_sums` whose records were deleted from the log.
CREATE TABLE forgotten_sums (
    account   BLOB NOT NULL,
    hour      INTEGER NOT NULL,
    key       TEXT NOT NULL,
    model     ANY NOT NULL,
    status    INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    input     INTEGER NOT NULL,
    cached    INTEGER NOT NULL,
    output    INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost      INTEGER NOT NULL,
    PRIMARY KEY (account, hour, key, model, status)
) STRICT, WITHOUT ROWID;

-- Dropped in 0009: `entry_runs` finds the entries of an account.
CREATE INDEX ledger_entries_by_account ON ledger_entries (account);

-- Pages of requests that did not complete (status 1); without it, those of a rare status would read
-- the whole log.
CREATE INDEX requests_by_trouble ON requests (status) WHERE status <> 1;
