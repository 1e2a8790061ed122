-- The number of requests that a record represents; NULL means one.
ALTER TABLE requests ADD COLUMN count INTEGER;
