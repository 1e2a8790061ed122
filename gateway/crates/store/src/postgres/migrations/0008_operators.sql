-- The role of an account. Gateways of earlier versions know two roles, which they read from `role`.
ALTER TABLE accounts ADD COLUMN admin_role text NOT NULL DEFAULT 'member';
UPDATE accounts SET admin_role = CASE folded_name WHEN 'operator' THEN 'owner' ELSE role END;

-- The address of the client that requested the change, or `unix`.
ALTER TABLE audit ADD COLUMN address text;
