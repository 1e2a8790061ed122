-- Sums by day and key are also by model: the sums of one model by hour are spread over all keys.
DROP TABLE key_days;
CREATE TABLE key_days (
    day       INTEGER NOT NULL,
    account   BLOB NOT NULL,
    key       TEXT NOT NULL,
    -- as in request_sums
    model     ANY NOT NULL,
    status    INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    input     INTEGER NOT NULL,
    cached    INTEGER NOT NULL,
    output    INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost      INTEGER NOT NULL,
    PRIMARY KEY (day, account, key, model, status)
) STRICT, WITHOUT ROWID;
-- Row by row: a GROUP BY would sort all rows at once. On overflow, a sum saturates.
INSERT INTO key_days
    SELECT hour / 24, account, key, model, status, requests, input, cached, output, reasoning, cost
    FROM request_sums WHERE account <> x''
    ON CONFLICT DO UPDATE SET
        requests = CAST(requests + excluded.requests AS INTEGER),
        input = CAST(input + excluded.input AS INTEGER),
        cached = CAST(cached + excluded.cached AS INTEGER),
        output = CAST(output + excluded.output AS INTEGER),
        reasoning = CAST(reasoning + excluded.reasoning AS INTEGER),
        cost = CAST(cost + excluded.cost AS INTEGER);
