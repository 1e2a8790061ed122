-- Several gateways on one database.

DROP TABLE lease;

-- The gateways. Each start in a data directory increments `epoch`, and so does a removal. The pair
-- (id, epoch) is a key, because each writing transaction locks its row FOR KEY SHARE, which
-- conflicts with a change of a key and not with a heartbeat.
CREATE TABLE nodes (
    id                  uuid PRIMARY KEY,
    name                text NOT NULL,
    epoch               bigint NOT NULL,
    heard_at            timestamptz NOT NULL,
    started_at          timestamptz NOT NULL,
    version             text NOT NULL,
    address             text NOT NULL,
    -- the silence, in microseconds, after which it refuses requests
    patience            bigint NOT NULL,
    draining            boolean NOT NULL,
    -- whether it stopped cleanly
    stopped             boolean NOT NULL,
    removed_at          timestamptz,
    in_flight           bigint NOT NULL,
    requests_per_second bigint NOT NULL,
    waiting_records     bigint NOT NULL,
    UNIQUE (id, epoch)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX nodes_by_name ON nodes (name) WHERE removed_at IS NULL;

-- One row: the number of the newest change. Each transaction that changes accounts, keys or the
-- catalogue locks it first, so that the order of numbers is the order of commits.
CREATE TABLE change_log_end (
    seq bigint NOT NULL
);
INSERT INTO change_log_end VALUES (0);

-- The changed objects, which every node loads again.
CREATE TABLE changes (
    seq         bigint PRIMARY KEY,
    object_kind text NOT NULL,
    object_id   text NOT NULL
);
