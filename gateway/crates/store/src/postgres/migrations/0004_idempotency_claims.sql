-- The requests with an idempotency key that a gateway serves or has answered. A request is claimed
-- before it goes upstream, and its claim is deleted if it is not answered completely.
CREATE TABLE idempotency_claims (
    account     uuid NOT NULL,
    -- the digest of the idempotency key
    digest      bytea NOT NULL,
    request     uuid NOT NULL,
    -- the digest of the request's endpoint and body
    body        bytea NOT NULL,
    -- the process that serves it
    node        uuid NOT NULL,
    epoch       bigint NOT NULL,
    claimed_at  timestamptz NOT NULL,
    -- set in the transaction that writes the record of the request
    answered_at timestamptz,
    PRIMARY KEY (account, digest)
);
CREATE INDEX idempotency_claims_by_end ON idempotency_claims (answered_at);
