-- A person of an account has a row, too: a name and a password, but no ledger entries and no keys.
-- Its status is `suspended`, because earlier versions take it for an account.
ALTER TABLE accounts ADD COLUMN belongs_to BLOB REFERENCES accounts (id);
ALTER TABLE accounts ADD COLUMN person_role TEXT;
CREATE INDEX people_by_account ON accounts (belongs_to) WHERE belongs_to IS NOT NULL;

-- The account or the person that created a key.
ALTER TABLE keys ADD COLUMN created_by BLOB;
