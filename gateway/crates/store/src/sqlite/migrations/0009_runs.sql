-- Which stretches of the log, and of the ledger, are one account's: a batch writes each account's rows one
-- after another, so that one row here finds all of them. An index by account took a row for each.
CREATE TABLE request_runs (
    owner BLOB NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    PRIMARY KEY (owner, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE entry_runs (
    owner BLOB NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    PRIMARY KEY (owner, first)
) STRICT, WITHOUT ROWID;

-- A run's rows are as far from each other in the table as among those of their account.
INSERT INTO request_runs
    SELECT account, min(seq), max(seq)
    FROM (SELECT account, seq, seq - row_number() OVER (PARTITION BY account ORDER BY seq) AS run FROM requests)
    GROUP BY account, run ORDER BY 1, 2;
INSERT INTO entry_runs
    SELECT account, min(seq), max(seq)
    FROM (SELECT account, seq, seq - row_number() OVER (PARTITION BY account ORDER BY seq) AS run FROM ledger_entries)
    GROUP BY account, run ORDER BY 1, 2;

DROP INDEX requests_by_account;
DROP INDEX ledger_entries_by_account;
