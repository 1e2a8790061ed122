-- The number of requests that a record stands for; NULL means one.
ALTER TABLE requests ADD COLUMN count INTEGER;
