-- Codes with which the owners of accounts set new passwords.
CREATE TABLE password_resets (
    account    BLOB PRIMARY KEY REFERENCES accounts (id),
    digest     BLOB NOT NULL UNIQUE,
    created_by BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
