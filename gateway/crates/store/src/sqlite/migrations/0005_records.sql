-- The part of `request_sums` whose records were removed from the log: sums = records + this.
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

-- The last page of one account; without it a quiet account's page reads the whole ledger.
CREATE INDEX ledger_entries_by_account ON ledger_entries (account);

-- Pages of everything that did not complete (1): without it, those of a rare status read the whole log.
CREATE INDEX requests_by_trouble ON requests (status) WHERE status <> 1;
