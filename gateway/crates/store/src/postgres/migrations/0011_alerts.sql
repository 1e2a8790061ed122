-- The conditions that operators were notified of.
CREATE TABLE alerts (
    kind    text NOT NULL,
    -- an account without hyphens, a key, or an upstream
    subject text NOT NULL,
    -- the gateway, for conditions that each gateway sees for itself; empty for others
    node    text NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (kind, subject, node)
);
