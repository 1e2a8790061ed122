-- The URL of the proxy through which the upstream is reached; NULL without one.
ALTER TABLE upstreams ADD COLUMN proxy TEXT;
