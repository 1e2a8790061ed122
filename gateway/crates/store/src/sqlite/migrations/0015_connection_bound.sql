-- The most connections to an upstream and the most requests that wait for one; both NULL without a bound.
ALTER TABLE upstreams ADD COLUMN max_connections INTEGER;
ALTER TABLE upstreams ADD COLUMN max_waiting INTEGER;
