-- The kinds of input that a model accepts; empty if unknown.
ALTER TABLE models ADD COLUMN inputs TEXT NOT NULL DEFAULT '[]';
