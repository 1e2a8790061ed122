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

-- Whether an account is `closed` or `deleted`; its status is then `suspended`.
ALTER TABLE accounts ADD COLUMN ended text;

-- Deleted accounts whose texts are still being removed from large tables.
CREATE TABLE account_deletions (
    account uuid PRIMARY KEY,
    at      bigint NOT NULL
);

-- The audit log is append-only, but for the texts about deleted accounts.
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND EXISTS (SELECT FROM account_deletions WHERE account = old.account) THEN
        RETURN new;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
DROP TRIGGER audit_is_append_only ON audit;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
