-- The ranges of rows of the log, and of the ledger, that belong to one account. A batch writes the
-- rows of an account adjacently, so that one row here finds all of them; an index by account needed
-- an entry for each.
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

-- Within a range, `seq` and the row's number among those of its account grow equally.
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
