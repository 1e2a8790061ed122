-- The certificate chain in PEM with which the gateway identifies itself, and its encrypted key; both NULL without
-- one.
ALTER TABLE upstreams ADD COLUMN client_certificate TEXT;
ALTER TABLE upstreams ADD COLUMN client_key BLOB;
