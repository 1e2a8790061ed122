-- Amounts of shared pools that were moved to a gateway, which alone can use them. What is available
-- in a pool is its size minus the sum of its rows: for `balance` the balance, for `spend_cap` the
-- cap minus what was spent, for `monthly_tokens` the quota minus what was used, and for limits per
-- minute and on concurrency the limit.
CREATE TABLE allocations (
    kind       text NOT NULL,
    -- an account, or an owner of limits such as `model:NAME`
    subject    text NOT NULL,
    -- the start of the month of a quota; otherwise zero
    month      bigint NOT NULL,
    node       uuid NOT NULL,
    epoch      bigint NOT NULL,
    amount     bigint NOT NULL CHECK (amount >= 0),
    -- the end of an allocation of an earlier process, whose use of the last minute still counts
    expires_at timestamptz,
    PRIMARY KEY (kind, subject, month, node, epoch)
) WITH (fillfactor = 50);
CREATE INDEX allocations_by_node ON allocations (node);

-- The last operation of each process on its allocations, and its answer: an operation whose answer
-- was lost is sent again, and must not be executed twice.
CREATE TABLE allocation_operations (
    node      uuid PRIMARY KEY,
    epoch     bigint NOT NULL,
    operation bigint NOT NULL,
    answer    text NOT NULL
);

-- What a key with a spending cap has spent, and what a model has used in a month.
CREATE INDEX key_days_by_key ON key_days (key, day);
CREATE INDEX key_days_by_model ON key_days (model, day);
CREATE INDEX keys_by_origin ON keys (origin);
