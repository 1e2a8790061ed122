//! The state of the operator token, as a row of `meta`: `enabled` or `disabled`, and the digest in
//! hexadecimal if there is one.

use std::io;

use async_trait::async_trait;

use super::StoreError;
use domain::account::OperatorToken;
use domain::audit::AuditEntry;
use domain::id::AccountId;

/// The name of the row.
pub(crate) const NAME: &str = "operator_token";

/// The operator token, which all gateways of a database share.
#[async_trait]
pub trait OperatorTokens: Send + Sync {
    /// Returns the state; the default one if it was never changed.
    async fn operator_token(&self) -> Result<OperatorToken, StoreError>;
    /// Replaces the state, as a change of the built-in account `account`.
    async fn set_operator_token(
        &self,
        token: &OperatorToken,
        account: AccountId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Records the digest of the token in the data directory, at start. A database that belongs
    /// to the directory then accepts that token instead of another one, because whoever can replace the file can also
    /// replace the database. A database of several directories does not change.
    async fn adopt_operator_token(&self, digest: [u8; 32]) -> Result<(), StoreError>;
}

/// Returns the text of a state.
pub(crate) fn encode(token: &OperatorToken) -> String {
    let state = if token.is_enabled { "enabled" } else { "disabled" };
    let digest = token
        .digest
        .map(|digest| digest.iter().fold(" ".to_owned(), |text, byte| format!("{text}{byte:02x}")));
    format!("{state}{}", digest.unwrap_or_default())
}

/// Returns the state in the text of the row, if there is one.
///
/// # Errors
/// The text is malformed. The token must not be accepted then.
pub(crate) fn decode(text: Option<String>) -> Result<OperatorToken, StoreError> {
    let Some(text) = text else { return Ok(OperatorToken::default()) };
    let malformed = || {
        let message = "the stored state of the operator token is malformed";
        StoreError::Unavailable(io::Error::new(io::ErrorKind::InvalidData, message).into())
    };
    let (state, digest) = match text.split_once(' ') {
        Some((state, digest)) => (state, Some(bytes(digest).ok_or_else(malformed)?)),
        None => (&*text, None),
    };
    match state {
        "enabled" => Ok(OperatorToken { is_enabled: true, digest }),
        "disabled" => Ok(OperatorToken { is_enabled: false, digest }),
        _ => Err(malformed()),
    }
}

fn bytes(text: &str) -> Option<[u8; 32]> {
    let digits = |at: usize| text.get(at..at + 2).and_then(|it| u8::from_str_radix(it, 16).ok());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_written_and_malformed_ones_refused() {
        for is_enabled in [true, false] {
            for digest in [None, Some([0xa7; 32])] {
                let token = OperatorToken { is_enabled, digest };
                assert_eq!(decode(Some(encode(&token))).unwrap(), token);
            }
        }
        assert_eq!(decode(None).unwrap(), OperatorToken::default());
        for text in ["", "on", "enabled ", "enabled a7", "disabled xy", "enabled é"] {
            decode(Some(text.to_owned())).unwrap_err();
        }
    }
}
