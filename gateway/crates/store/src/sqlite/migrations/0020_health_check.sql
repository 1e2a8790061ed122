-- The path of the background health check of an upstream, and its interval in microseconds; both NULL without one.
ALTER TABLE upstreams ADD COLUMN health_check TEXT;
ALTER TABLE upstreams ADD COLUMN health_check_interval INTEGER;
