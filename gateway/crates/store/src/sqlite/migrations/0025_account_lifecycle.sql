-- The number of usable keys from which an account on the plan can make no more.
ALTER TABLE plans ADD COLUMN max_keys INTEGER NOT NULL DEFAULT 100;
-- Counts the keys of an account that can be usable.
CREATE INDEX unrevoked_keys_by_account ON keys (account) WHERE revoked_at IS NULL;

-- The public id of an invite, what it gives to the new account, and the account that used it.
ALTER TABLE invites ADD COLUMN id TEXT NOT NULL DEFAULT '';
UPDATE invites SET id = lower(hex(randomblob(6)));
CREATE UNIQUE INDEX invites_by_id ON invites (id);
ALTER TABLE invites ADD COLUMN created_by BLOB;
ALTER TABLE invites ADD COLUMN plan TEXT;
ALTER TABLE invites ADD COLUMN credit INTEGER;
ALTER TABLE invites ADD COLUMN used_at INTEGER;
ALTER TABLE invites ADD COLUMN used_by BLOB;
