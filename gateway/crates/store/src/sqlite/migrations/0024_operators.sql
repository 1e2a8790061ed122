-- The account of the operator token grants roles to the others.
UPDATE accounts SET role = 'owner' WHERE folded_name = 'operator';
