-- Tokens per month, and whether requests that exceed the limits are served nevertheless.
ALTER TABLE plans ADD COLUMN monthly_tokens INTEGER;
ALTER TABLE plans ADD COLUMN observe INTEGER NOT NULL DEFAULT 0;
ALTER TABLE models ADD COLUMN monthly_tokens INTEGER;
ALTER TABLE models ADD COLUMN observe INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN monthly_tokens INTEGER;
ALTER TABLE keys ADD COLUMN observe INTEGER NOT NULL DEFAULT 0;

-- The maximum total spending of a key.
ALTER TABLE keys ADD COLUMN spend_cap INTEGER;

-- The first key of a chain of rotations; limits and spending are counted by it.
ALTER TABLE keys ADD COLUMN origin TEXT NOT NULL DEFAULT '';
WITH RECURSIVE chain (id, origin) AS (
    SELECT id, id FROM keys
        WHERE id NOT IN (SELECT successor FROM keys WHERE successor IS NOT NULL)
    UNION ALL
    SELECT keys.successor, chain.origin FROM chain JOIN keys ON keys.id = chain.id
        WHERE keys.successor IS NOT NULL
)
UPDATE keys SET origin = (SELECT chain.origin FROM chain WHERE chain.id = keys.id);
