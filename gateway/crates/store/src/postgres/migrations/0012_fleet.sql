-- What each gateway process has counted in each minute of the last hour, so that every gateway can
-- show the traffic of all.
CREATE TABLE traffic_minutes (
    node       uuid NOT NULL,
    epoch      bigint NOT NULL,
    -- the start of the minute, which is one of the process
    started_at bigint NOT NULL,
    -- the last change of the row
    written_at timestamptz NOT NULL,
    -- figures over all accounts, and by account
    total      jsonb NOT NULL,
    accounts   jsonb NOT NULL,
    PRIMARY KEY (node, epoch, started_at)
);

-- The answer to a claimed request, which other gateways replay. It is deleted with the claim.
ALTER TABLE idempotency_claims ADD COLUMN answer_stream boolean;
-- the request that it answers: an earlier version may claim the key for another one and leave the answer
ALTER TABLE idempotency_claims ADD COLUMN answer_request uuid;
-- names and values as a JSON array
ALTER TABLE idempotency_claims ADD COLUMN answer_headers text;
ALTER TABLE idempotency_claims ADD COLUMN answer bytea;
