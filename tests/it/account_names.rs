//! Account names: no confusable names, and no characters that are harmful where a name is printed.

use proto::v1;
use tests::{Product, Session};
use tonic::{Code, Status};

async fn register(product: &Product, name: &str) -> Result<String, Status> {
    let request = v1::RegisterRequest {
        name: name.to_owned(),
        password: format!("correct horse battery {name}"),
        invite_code: String::new(),
    };
    let answer = product.anonymous().await.accounts().register(request).await;
    answer.map(|answer| answer.into_inner().account.unwrap().name)
}

#[tokio::test]
async fn a_confusable_name_is_refused() {
    let product = Product::start().await;
    for name in ["bob", "scope", "anna@example.org"] {
        assert_eq!(register(&product, name).await.unwrap(), name);
    }
    let invalid =
        ["operator\u{200b}", "bob\u{202e}", "b\u{43e}b", "*", "=1+1", "admin", "a\u{1b}[2J", "x y"];
    for name in invalid {
        let refused = register(&product, name).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{name:?}: {refused:?}");
        assert!(!refused.message().contains(proto::text::is_hidden), "{refused:?}");
    }
    // each name uses a single script and is confusable with an existing one
    for name in ["\u{455}\u{441}\u{43e}\u{440}\u{435}", "ＢＯＢ", "b0b"] {
        let refused = register(&product, name).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{name}: {refused:?}");
    }
    // where an id is expected, it would stand for another account
    let refused = register(&product, "01a2144a-af26-71b7-b2bd-a69665111208").await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}");
    assert_eq!(
        register(&product, "ａｌｉｃｅ").await.unwrap(),
        "alice",
        "stored in its normal form"
    );
    assert_eq!(register(&product, "\u{438}\u{432}\u{430}\u{43d}").await.unwrap(), "иван");
}

#[tokio::test]
async fn an_account_with_a_now_invalid_name_can_sign_in_and_keeps_its_name() {
    let product = Product::start().await;
    product.member("bob").await;
    let home = product.stop().await;
    let database = rusqlite::Connection::open(home.data_dir().join("tollgate.db")).unwrap();
    let odd = "bob\u{202e}";
    let sql = "UPDATE accounts SET name = ?1, folded_name = ?1 WHERE name = 'bob'";
    assert_eq!(database.execute(sql, [odd]).unwrap(), 1);
    drop(database);
    let product = home.start().await;
    let password = "correct horse battery bob".to_owned();
    let request = v1::SignInRequest { name: odd.to_owned(), password };
    let answer = product.anonymous().await.accounts().sign_in(request).await.unwrap();
    let session = Session::with_token(&product.admin, odd, &answer.into_inner().token).await;
    assert_eq!(session.account().await.name, odd);
    assert_eq!(register(&product, "bob").await.unwrap_err().code(), Code::AlreadyExists);
}
