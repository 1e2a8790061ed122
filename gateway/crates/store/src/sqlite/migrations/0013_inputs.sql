-- What a model's messages may hold; empty if nobody said.
ALTER TABLE models ADD COLUMN inputs TEXT NOT NULL DEFAULT '[]';
