//! The confirmation of destructive commands on a terminal.

use crate::harness::signed_in;

#[tokio::test]
async fn a_missing_object_is_reported_before_the_confirmation() {
    let (fake, mut user) = signed_in().await;
    user.environment.interactive = true;
    for (line, noun) in [
        ("key revoke nosuch", "key"),
        ("model remove nosuch", "model"),
        ("upstream remove nosuch", "upstream"),
        ("node remove nosuch", "node"),
    ] {
        let result = user.ctl_with(line, "y\n").await;
        assert_eq!((result.code, result.out.as_str()), (4, ""), "{line}");
        let expected = format!(
            "error: {noun} `nosuch` does not exist\n`ctl {noun} list` shows those that do\n"
        );
        assert_eq!(result.err, expected, "{line}");
    }
    assert!(fake.calls().iter().all(|call| call.method.starts_with("List")));
}

#[tokio::test]
async fn the_confirmation_names_the_object_and_requires_yes() {
    let (fake, mut user) = signed_in().await;
    for (line, question, method) in [
        ("key revoke 9f2c41d0", "Revoke key 9f2c41d0 (ci)?", "RevokeKey"),
        ("model remove sim-fast", "Remove model sim-fast?", "RemoveModel"),
        ("upstream remove example", "Remove upstream example (https", "RemoveUpstream"),
        ("node remove gate-2", "Remove node gate-2 (10.0.0.7:8080)?", "RemoveNode"),
        ("account people remove carol", "Remove person carol?", "RemovePerson"),
    ] {
        user.environment.interactive = true;
        for (stdin, code) in [("n\n", 1), ("\n", 1), ("", 1), ("y\n", 0), ("YES\n", 0)] {
            let result = user.ctl_with(line, stdin).await;
            assert_eq!(result.code, code, "{line} {stdin:?}: {result:?}");
            assert!(result.err.starts_with(question) && result.err.contains("[y/N]"), "{result:?}");
            assert_eq!(fake.last().method == method, code == 0, "{line} {stdin:?}");
        }
        // No confirmation with --yes, nor without a terminal.
        let before = fake.calls().len();
        user.ctl(&format!("{line} --yes")).await.ok();
        user.environment.interactive = false;
        user.ctl(line).await.ok();
        let calls: Vec<_> = fake.calls().iter().skip(before).map(|call| call.method).collect();
        assert_eq!(calls, [method; 2], "{line}");
    }
}
