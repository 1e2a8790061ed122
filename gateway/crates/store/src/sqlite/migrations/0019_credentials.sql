-- The credentials of an upstream after the first one, which is in `upstreams`.
CREATE TABLE further_credentials (
    upstream   TEXT NOT NULL REFERENCES upstreams (name) ON DELETE CASCADE,
    -- the order among the further credentials
    position   INTEGER NOT NULL,
    -- as in upstreams
    kind       TEXT NOT NULL,
    credential BLOB NOT NULL,
    PRIMARY KEY (upstream, position)
) STRICT, WITHOUT ROWID;
