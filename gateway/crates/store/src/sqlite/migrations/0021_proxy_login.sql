-- The user and the source of the password for the proxy, as the credential of an upstream; all NULL without a login.
-- In `proxy`, 'direct' stands for no proxy whatever the environment names.
ALTER TABLE upstreams ADD COLUMN proxy_user TEXT;
ALTER TABLE upstreams ADD COLUMN proxy_password_kind TEXT;
ALTER TABLE upstreams ADD COLUMN proxy_password BLOB;
