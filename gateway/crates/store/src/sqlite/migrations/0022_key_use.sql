-- What each key has used: the cost of all its requests, and the tokens of those of one month, the
-- last one with requests. Both are written with the records. A start would otherwise read the sums
-- by day of all keys: 2 million rows take a second.
ALTER TABLE keys ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;
-- the first day of the month, in days since 1970 (UTC)
ALTER TABLE keys ADD COLUMN used_month INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN used_tokens INTEGER NOT NULL DEFAULT 0;

CREATE TEMP TABLE last_months AS
    SELECT key, unixepoch(max(day) * 86400, 'unixepoch', 'start of month') / 86400 AS month
    FROM key_days GROUP BY key;
CREATE UNIQUE INDEX temp.last_months_by_key ON last_months (key);
-- In two halves: an overflow of sum() is an error, while that of a product or an addition yields a
-- float, which the cast saturates.
UPDATE keys SET spent = used.spent, used_month = used.month, used_tokens = used.tokens
    FROM (
        SELECT key, month,
            CAST(sum(cost >> 32) * 4294967296 + sum(cost & 4294967295) AS INTEGER) AS spent,
            CAST(sum(((input >> 32) + (output >> 32)) * (day >= month)) * 4294967296
                + sum(((input & 4294967295) + (output & 4294967295)) * (day >= month)) AS INTEGER)
                AS tokens
        FROM key_days JOIN last_months USING (key) GROUP BY key
    ) AS used
    WHERE used.key = keys.id;
DROP TABLE last_months;
