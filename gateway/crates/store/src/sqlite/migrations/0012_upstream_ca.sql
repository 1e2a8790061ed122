-- The certificates to trust for an upstream instead of the host's and the public ones, in PEM.
ALTER TABLE upstreams ADD COLUMN ca_certificates TEXT;
