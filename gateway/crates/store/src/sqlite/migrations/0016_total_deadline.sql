-- The longest time from a request to the end of its answer, in microseconds; NULL without a deadline.
ALTER TABLE upstreams ADD COLUMN total INTEGER;
