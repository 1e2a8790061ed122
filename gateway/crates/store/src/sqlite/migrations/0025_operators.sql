-- The account of the operator token grants roles to the others.
UPDATE accounts SET role = 'owner' WHERE folded_name = 'operator';

-- The address of the client that requested the change, or `unix`.
ALTER TABLE audit ADD COLUMN address TEXT;
