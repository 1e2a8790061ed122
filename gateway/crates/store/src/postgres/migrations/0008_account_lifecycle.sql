-- The number of usable keys from which an account on the plan can make no more.
ALTER TABLE plans ADD COLUMN max_keys bigint NOT NULL DEFAULT 100;
-- Counts the keys of an account that can be usable.
CREATE INDEX unrevoked_keys_by_account ON keys (account) WHERE revoked_at IS NULL;
