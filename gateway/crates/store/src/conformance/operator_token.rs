//! The state of the operator token.

use super::{ALICE, audit_entry};
use crate::Store;
use domain::account::OperatorToken;

pub(super) async fn run(store: &dyn Store) {
    let found = async || store.operator_token().await.unwrap();
    assert_eq!(found().await, OperatorToken::default());
    store.adopt_operator_token([1; 32]).await.unwrap();
    assert_eq!(found().await, OperatorToken::default(), "never changed");
    for (is_enabled, digest) in [(false, None), (false, Some([7; 32])), (true, Some([9; 32]))] {
        let token = OperatorToken { is_enabled, digest };
        store.set_operator_token(&token, ALICE, &audit_entry("t")).await.unwrap();
        assert_eq!(found().await, token);
        if let Some(digest) = digest {
            store.adopt_operator_token(digest).await.unwrap();
            assert_eq!(found().await, token, "the accepted one");
        }
    }
}
