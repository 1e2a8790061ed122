-- Codes with which the owners of accounts set new passwords.
CREATE TABLE password_resets (
    account    uuid PRIMARY KEY REFERENCES accounts (id),
    digest     bytea NOT NULL UNIQUE,
    created_by uuid NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
