-- The part of the cost that the request's account could not pay, booked to the operator's account.
ALTER TABLE requests ADD COLUMN overrun INTEGER;
