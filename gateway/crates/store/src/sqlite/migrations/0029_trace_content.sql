-- Whether the spans of the requests of a key have the text of prompts and answers.
ALTER TABLE keys ADD COLUMN trace_content INTEGER NOT NULL DEFAULT 0;
