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

-- Whether an account is `closed` or `deleted`; its status is then `suspended`.
ALTER TABLE accounts ADD COLUMN ended TEXT;

-- Deleted accounts whose texts are still being removed from large tables.
CREATE TABLE account_deletions (
    account BLOB PRIMARY KEY,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit log is append-only, but for the texts about deleted accounts.
DROP TRIGGER audit_keeps_what_it_has;
CREATE TRIGGER audit_keeps_what_it_has BEFORE UPDATE ON audit
    WHEN NOT EXISTS (SELECT 1 FROM account_deletions WHERE account = old.account)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
