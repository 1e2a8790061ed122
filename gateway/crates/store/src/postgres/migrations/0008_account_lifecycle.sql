-- The number of usable keys from which an account on the plan can make no more.
ALTER TABLE plans ADD COLUMN max_keys bigint NOT NULL DEFAULT 100;
-- Counts the keys of an account that can be usable.
CREATE INDEX unrevoked_keys_by_account ON keys (account) WHERE revoked_at IS NULL;

-- The public id of an invite, what it gives to the new account, and the account that used it.
ALTER TABLE invites ADD COLUMN id text NOT NULL UNIQUE DEFAULT substr(replace(gen_random_uuid()::text, '-', ''), 1, 12);
ALTER TABLE invites ADD COLUMN created_by uuid;
ALTER TABLE invites ADD COLUMN plan text;
ALTER TABLE invites ADD COLUMN credit bigint;
ALTER TABLE invites ADD COLUMN used_at bigint;
ALTER TABLE invites ADD COLUMN used_by uuid;
