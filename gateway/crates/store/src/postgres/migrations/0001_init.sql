-- Times are microseconds since 1970 (UTC), durations are microseconds, money is nanodollars, and
-- lists that are only read whole are JSON arrays of text. Codes of enums are those of the program.
-- Released migrations are not changed.
--
-- Tables that grow have the account first in their unique index, so that the account can be the
-- distribution key of an engine that spreads rows.

-- Adds without overflow: a sum saturates at the ends of its type.
CREATE FUNCTION saturating_add(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN greatest(least(a::numeric + b::numeric, 9223372036854775807), -9223372036854775808)::bigint;
-- The sum of a list in its order, saturated after each element.
CREATE AGGREGATE saturating_sum(bigint) (SFUNC = saturating_add, STYPE = bigint, INITCOND = '0');
-- An exact sum as the nearest bigint.
CREATE FUNCTION saturated(a numeric) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN greatest(least(a, 9223372036854775807), -9223372036854775808)::bigint;

-- One row: the gateway that may write. `epoch` is the key, because each writing transaction locks
-- the row FOR KEY SHARE, which conflicts with a change of the key and not with one of `heard_at`.
CREATE TABLE lease (
    epoch    bigint PRIMARY KEY,
    node     uuid,
    heard_at timestamptz NOT NULL,
    -- whether the gateway stopped cleanly
    released boolean NOT NULL
);
INSERT INTO lease VALUES (0, NULL, now(), true);

CREATE TABLE meta (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- ---- identities ----

CREATE TABLE accounts (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    -- the name in Unicode lower case, independent of the locale of the database
    folded_name   text NOT NULL UNIQUE,
    password_hash text NOT NULL,
    role          text NOT NULL,
    status        text NOT NULL,
    plan          text NOT NULL,
    created_at    bigint NOT NULL
);

CREATE TABLE invites (
    digest     bytea PRIMARY KEY,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE sessions (
    digest     bytea PRIMARY KEY,
    -- the public id; the digest is a credential
    id         text NOT NULL UNIQUE,
    account    uuid NOT NULL REFERENCES accounts (id),
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account);
CREATE INDEX sessions_by_end ON sessions (expires_at);

CREATE TABLE keys (
    id             text PRIMARY KEY,
    digest         bytea NOT NULL UNIQUE,
    account        uuid NOT NULL REFERENCES accounts (id),
    label          text NOT NULL,
    -- the first key of a chain of rotations; limits and spending are counted by it
    origin         text NOT NULL,
    rpm            bigint,
    tpm            bigint,
    concurrency    bigint,
    monthly_tokens bigint,
    observe        boolean NOT NULL,
    spend_cap      bigint,
    models         text NOT NULL,
    -- how requests of a key are treated that cannot be translated without loss
    translation    text NOT NULL,
    created_at     bigint NOT NULL,
    expires_at     bigint,
    revoked_at     bigint,
    -- the key that replaced a rotated key
    successor      text,
    -- the time for which an answer is read after its client disconnected; null cancels the request
    drain_seconds  bigint,
    -- updated with each batch of records, so that a list of keys does not read the log
    last_used_at   bigint
) WITH (fillfactor = 80);
CREATE INDEX keys_by_account ON keys (account);

-- The trial credit given on each day (days since 1970, UTC).
CREATE TABLE trial_days (
    day    bigint PRIMARY KEY,
    amount bigint NOT NULL
);

-- ---- catalogue ----

CREATE TABLE plans (
    name           text PRIMARY KEY,
    trial_credit   bigint NOT NULL,
    rpm            bigint,
    tpm            bigint,
    concurrency    bigint,
    monthly_tokens bigint,
    observe        boolean NOT NULL,
    models         text NOT NULL
);

CREATE TABLE upstreams (
    name                  text PRIMARY KEY,
    url                   text NOT NULL,
    profile               text NOT NULL,
    connect               bigint,
    first_byte            bigint,
    idle                  bigint,
    total                 bigint,
    proxy                 text,
    ca_certificates       text,
    client_certificate    text,
    client_key            bytea,
    max_connections       bigint,
    max_waiting           bigint,
    health_check          text,
    health_check_interval bigint,
    -- the user and the source of the password, as a credential; all NULL without a login
    proxy_user            text,
    proxy_password_kind   text,
    proxy_password        bytea,
    created_at            bigint NOT NULL
);

CREATE TABLE credentials (
    upstream   text NOT NULL REFERENCES upstreams (name) ON DELETE CASCADE,
    position   bigint NOT NULL,
    kind       text NOT NULL,
    -- a variable's name, a file's path, or the sealed bytes
    credential bytea NOT NULL,
    PRIMARY KEY (upstream, position)
);

CREATE TABLE models (
    id                text PRIMARY KEY,
    display_name      text NOT NULL,
    description       text NOT NULL,
    context_window    bigint,
    max_output_tokens bigint,
    rpm               bigint,
    tpm               bigint,
    concurrency       bigint,
    monthly_tokens    bigint,
    observe           boolean NOT NULL,
    price_input       bigint NOT NULL,
    price_cached      bigint NOT NULL,
    price_output      bigint NOT NULL,
    price_version     bigint NOT NULL,
    abilities         text NOT NULL,
    inputs            text NOT NULL,
    routing           text NOT NULL,
    created_at        bigint NOT NULL
);

-- Ids (at position 0) and aliases in one table, so that no name can mean two models.
CREATE TABLE model_names (
    name     text PRIMARY KEY,
    model    text NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    position bigint NOT NULL
);
CREATE INDEX model_names_by_model ON model_names (model);

CREATE TABLE deployments (
    model          text NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    position       bigint NOT NULL,
    upstream       text NOT NULL REFERENCES upstreams (name),
    upstream_model text NOT NULL,
    weight         bigint NOT NULL,
    priority       bigint NOT NULL,
    PRIMARY KEY (model, position)
);
CREATE INDEX deployments_by_upstream ON deployments (upstream);

-- ---- requests and money: the hot path. No foreign keys: records may name deleted objects.

-- One row: the cursor of the newest record. Each batch locks it, so that the order of cursors is
-- the order of commits: a reader that saw a cursor has seen all smaller ones.
CREATE TABLE log_end (
    seq bigint NOT NULL
);
INSERT INTO log_end VALUES (0);

-- Partitioned by the day of arrival (days since 1970, UTC), so that old days can be dropped; at
-- present one partition holds all days.
CREATE TABLE requests (
    account        uuid NOT NULL,
    day            bigint NOT NULL,
    id             uuid NOT NULL,
    -- the cursor
    seq            bigint NOT NULL,
    key            text NOT NULL,
    started_at     bigint NOT NULL,
    duration       bigint NOT NULL,
    ttft           bigint,
    endpoint       smallint NOT NULL,
    stream         boolean NOT NULL,
    status         smallint NOT NULL,
    http_status    integer,
    basis          smallint NOT NULL,
    -- null, like `output`, if the usage is unknown
    input          bigint,
    cached         bigint,
    output         bigint,
    reasoning      bigint,
    cost           bigint,
    -- the part of the cost that the account could not pay, booked to the operator's account
    overrun        bigint,
    price_version  bigint,
    model          text,
    upstream       text,
    upstream_model text,
    error_code     text,
    notes          text,
    -- the digest of the idempotency key, by which retries of a completed request are recognised
    idempotency    bytea,
    -- the number of requests that the record represents; null means one
    count          bigint,
    -- an id is the same record: its account and day follow from it
    PRIMARY KEY (account, day, id)
) PARTITION BY RANGE (day);
CREATE TABLE requests_of_all_days PARTITION OF requests DEFAULT;
CREATE INDEX requests_by_id ON requests (id);
CREATE INDEX requests_by_seq ON requests (seq);
CREATE INDEX requests_by_account ON requests (account, seq);
-- Ranges of time; batches arrive nearly in its order.
CREATE INDEX requests_by_time ON requests USING brin (started_at) WITH (pages_per_range = 16, autosummarize = on);
-- Pages of requests that did not complete (status 1).
CREATE INDEX requests_by_trouble ON requests (status, seq) WHERE status <> 1;
-- Requests that ended recently, which a start loads. Few have an idempotency key.
CREATE INDEX requests_by_idempotency ON requests ((started_at + duration)) WHERE idempotency IS NOT NULL;

-- Sums by hour (hours since 1970), written in the transactions of their records.
CREATE TABLE request_sums (
    account   uuid NOT NULL,
    hour      bigint NOT NULL,
    key       text NOT NULL,
    model     text,
    status    smallint NOT NULL,
    requests  bigint NOT NULL,
    input     bigint NOT NULL,
    cached    bigint NOT NULL,
    output    bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost      bigint NOT NULL,
    UNIQUE NULLS NOT DISTINCT (account, hour, key, model, status)
) WITH (fillfactor = 80);
CREATE INDEX request_sums_by_hour ON request_sums (hour);

-- The part of `request_sums` whose records were deleted from the log.
CREATE TABLE deleted_sums (
    LIKE request_sums,
    UNIQUE NULLS NOT DISTINCT (account, hour, key, model, status)
);
CREATE INDEX deleted_sums_by_hour ON deleted_sums (hour);

-- Sums by day (days since 1970, UTC): a month of hours has too many groups of all keys.
CREATE TABLE key_days (
    account   uuid NOT NULL,
    day       bigint NOT NULL,
    key       text NOT NULL,
    model     text,
    status    smallint NOT NULL,
    requests  bigint NOT NULL,
    input     bigint NOT NULL,
    cached    bigint NOT NULL,
    output    bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost      bigint NOT NULL,
    UNIQUE NULLS NOT DISTINCT (account, day, key, model, status)
) WITH (fillfactor = 80);
CREATE INDEX key_days_by_day ON key_days (day);

-- Append-only.
CREATE TABLE ledger_entries (
    account uuid NOT NULL,
    seq     bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    amount  bigint NOT NULL,
    kind    smallint NOT NULL,
    request uuid,
    note    text,
    at      bigint NOT NULL,
    PRIMARY KEY (account, seq)
);
CREATE INDEX ledger_entries_by_seq ON ledger_entries (seq);

-- The sum of each account's entries, written with them, so that a start does not read the ledger.
CREATE TABLE balances (
    account uuid PRIMARY KEY,
    amount  bigint NOT NULL
) WITH (fillfactor = 50);

-- ---- responses that later requests may reference ----

CREATE TABLE responses (
    account      uuid NOT NULL,
    id           uuid NOT NULL,
    previous     uuid,
    -- the first response of the chain; old chains are deleted as a whole
    conversation uuid NOT NULL,
    created_at   bigint NOT NULL,
    bytes        bigint NOT NULL,
    input        text NOT NULL,
    object       text NOT NULL,
    PRIMARY KEY (account, id)
);
CREATE INDEX responses_by_time ON responses (account, created_at, id);
CREATE INDEX responses_by_conversation ON responses (account, conversation, created_at);

-- The responses that contain an item.
CREATE TABLE response_items (
    account  uuid NOT NULL,
    item     text NOT NULL,
    response uuid NOT NULL,
    FOREIGN KEY (account, response) REFERENCES responses (account, id) ON DELETE CASCADE
);
-- By a digest, because clients choose ids and an entry of an index must be short.
CREATE UNIQUE INDEX response_items_by_item ON response_items (account, md5(item), response);
CREATE INDEX response_items_by_response ON response_items (account, response);

-- The size of the responses of each account, updated by triggers.
CREATE TABLE response_bytes (
    account uuid PRIMARY KEY,
    bytes   bigint NOT NULL
);
CREATE FUNCTION count_response_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO response_bytes AS stored VALUES (new.account, new.bytes)
            ON CONFLICT (account) DO UPDATE SET bytes = stored.bytes + excluded.bytes;
    ELSE
        UPDATE response_bytes SET bytes = bytes - old.bytes WHERE account = old.account;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER responses_are_counted AFTER INSERT OR DELETE ON responses
    FOR EACH ROW EXECUTE FUNCTION count_response_bytes();

-- ---- audit ----

-- Without foreign keys, because entries may name deleted objects.
CREATE TABLE audit (
    seq     bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at      bigint NOT NULL,
    actor   uuid,
    action  text NOT NULL,
    object  text NOT NULL,
    account uuid,
    details text NOT NULL
);
CREATE INDEX audit_by_account ON audit (account, seq);
CREATE INDEX audit_by_actor ON audit (actor, seq);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Admin calls with an idempotency key, kept for a day, so that a repeated call changes nothing.
CREATE TABLE admin_calls (
    actor  uuid NOT NULL,
    method text NOT NULL,
    key    text NOT NULL,
    digest bytea NOT NULL,
    object text NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (actor, method, key)
);
CREATE INDEX admin_calls_by_time ON admin_calls (at);
