-- Times are microseconds since 1970 (UTC), durations are microseconds, money is nanodollars, and
-- lists that are only read whole are JSON arrays of text. Released migrations are not changed.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- ---- identities ----

CREATE TABLE accounts (
    id            BLOB PRIMARY KEY,
    name          TEXT NOT NULL,
    -- the name in Unicode lower case; NOCASE would only convert ASCII
    folded_name   TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    role          TEXT NOT NULL,
    status        TEXT NOT NULL,
    plan          TEXT NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE invites (
    digest     BLOB PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    digest     BLOB PRIMARY KEY,
    account    BLOB NOT NULL REFERENCES accounts (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    digest       BLOB NOT NULL UNIQUE,
    account      BLOB NOT NULL REFERENCES accounts (id),
    label        TEXT NOT NULL,
    rpm          INTEGER,
    tpm          INTEGER,
    concurrency  INTEGER,
    models       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    -- updated with each batch of records, so that a list of keys does not read the log
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_account ON keys (account);

-- ---- catalogue ----

CREATE TABLE plans (
    name         TEXT PRIMARY KEY,
    trial_credit INTEGER NOT NULL,
    rpm          INTEGER,
    tpm          INTEGER,
    concurrency  INTEGER,
    models       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE upstreams (
    name            TEXT PRIMARY KEY,
    url             TEXT NOT NULL,
    credential_kind TEXT NOT NULL,
    -- a variable's name, a file's path, or the sealed bytes
    credential      BLOB,
    profile         TEXT NOT NULL,
    connect         INTEGER,
    first_byte      INTEGER,
    idle            INTEGER,
    created_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE models (
    id                TEXT PRIMARY KEY,
    display_name      TEXT NOT NULL,
    description       TEXT NOT NULL,
    context_window    INTEGER,
    max_output_tokens INTEGER,
    rpm               INTEGER,
    tpm               INTEGER,
    concurrency       INTEGER,
    price_input       INTEGER NOT NULL,
    price_cached      INTEGER NOT NULL,
    price_output      INTEGER NOT NULL,
    price_version     INTEGER NOT NULL,
    abilities         TEXT NOT NULL,
    created_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Ids (at position 0) and aliases in one table, so that no name can mean two models.
CREATE TABLE model_names (
    name     TEXT PRIMARY KEY,
    model    TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX model_names_by_model ON model_names (model);

CREATE TABLE deployments (
    model          TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    position       INTEGER NOT NULL,
    upstream       TEXT NOT NULL REFERENCES upstreams (name),
    upstream_model TEXT NOT NULL,
    weight         INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    PRIMARY KEY (model, position)
) STRICT, WITHOUT ROWID;

-- ---- requests and money: the hot path. No foreign keys: records may name deleted objects, and a
-- ---- look-up per row would cost more than the row.

CREATE TABLE requests (
    -- the cursor; rows are inserted in its order, so that the table only grows at its end
    seq            INTEGER PRIMARY KEY,
    -- unique: finds one record, and a batch that is sent twice counts once
    id             BLOB NOT NULL UNIQUE,
    account        BLOB NOT NULL,
    key            TEXT NOT NULL,
    started_at     INTEGER NOT NULL,
    duration       INTEGER NOT NULL,
    ttft           INTEGER,
    endpoint       INTEGER NOT NULL,
    stream         INTEGER NOT NULL,
    status         INTEGER NOT NULL,
    http_status    INTEGER,
    basis          INTEGER NOT NULL,
    -- null, like `output`, if the usage is unknown
    input          INTEGER,
    cached         INTEGER,
    output         INTEGER,
    reasoning      INTEGER,
    cost           INTEGER,
    price_version  INTEGER,
    model          TEXT,
    upstream       TEXT,
    upstream_model TEXT,
    error_code     TEXT,
    notes          TEXT
) STRICT;
-- Dropped in 0009: `request_runs` finds the rows of an account. Other pages need no index either:
-- those of all accounts follow `seq`, those of a key use the key's account, times use
-- `request_hours`, and sums have their own tables.
CREATE INDEX requests_by_account ON requests (account);

-- The range of the log that contains the requests that arrived within an hour (hours since 1970).
CREATE TABLE request_hours (
    hour  INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL
) STRICT;

-- Sums by hour, written in the transactions of their records. An empty account with an empty key
-- sums over all accounts. `model` is the number 0 without a model; names are text.
CREATE TABLE request_sums (
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

-- Append-only. `entry_runs` (0009) finds the entries of an account.
CREATE TABLE ledger_entries (
    seq     INTEGER PRIMARY KEY,
    account BLOB NOT NULL,
    amount  INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    request BLOB,
    note    TEXT,
    at      INTEGER NOT NULL
) STRICT;

-- The sum of each account's entries, written with them, so that a start does not read the ledger.
CREATE TABLE balances (
    account BLOB PRIMARY KEY,
    amount  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
