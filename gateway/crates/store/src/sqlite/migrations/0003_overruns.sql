-- What a request cost beyond what its account could pay, booked to the house.
ALTER TABLE requests ADD COLUMN overrun INTEGER;
