-- How requests of a key are treated that cannot be translated without loss.
ALTER TABLE keys ADD COLUMN translation TEXT NOT NULL DEFAULT 'lenient';

-- Responses that later requests may reference.
CREATE TABLE responses (
    id           BLOB PRIMARY KEY,
    account      BLOB NOT NULL,
    previous     BLOB,
    -- the first response of the chain; old chains are deleted as a whole
    conversation BLOB NOT NULL,
    created_at   INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    input        TEXT NOT NULL,
    object       TEXT NOT NULL
) STRICT;
CREATE INDEX responses_by_account ON responses (account, created_at, bytes);
CREATE INDEX responses_by_conversation ON responses (conversation, created_at);

-- The responses that contain an item.
CREATE TABLE response_items (
    account  BLOB NOT NULL,
    item     TEXT NOT NULL,
    response BLOB NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
    PRIMARY KEY (account, item, response)
) STRICT, WITHOUT ROWID;
CREATE INDEX response_items_by_response ON response_items (response);

-- The size of the responses of each account, updated by triggers.
CREATE TABLE response_bytes (
    account BLOB PRIMARY KEY,
    bytes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER responses_added AFTER INSERT ON responses BEGIN
    INSERT INTO response_bytes VALUES (new.account, new.bytes)
        ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER responses_removed AFTER DELETE ON responses BEGIN
    UPDATE response_bytes SET bytes = bytes - old.bytes WHERE account = old.account;
END;
