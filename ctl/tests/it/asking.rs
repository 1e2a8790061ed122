//! What cannot be undone is asked about, once it is sure that it can be done.

use crate::harness::signed_in;

#[tokio::test]
async fn what_is_not_there_is_said_before_anything_is_asked() {
    let (fake, mut person) = signed_in().await;
    person.environment.interactive = true;
    for (line, noun) in [
        ("key revoke nosuch", "key"),
        ("model remove nosuch", "model"),
        ("upstream remove nosuch", "upstream"),
    ] {
        let ran = person.ctl_with(line, "y\n").await;
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{line}");
        let said = format!(
            "error: {noun} `nosuch` does not exist\n`ctl {noun} list` shows those that do\n"
        );
        assert_eq!(ran.err, said, "{line}");
    }
    assert!(fake.calls().iter().all(|call| call.method.starts_with("List")));
}

#[tokio::test]
async fn what_is_there_is_named_and_stays_unless_the_answer_is_yes() {
    let (fake, mut person) = signed_in().await;
    for (line, asked, method) in [
        ("key revoke 9f2c41d0", "Revoke key 9f2c41d0 (ci)?", "RevokeKey"),
        ("model remove sim-fast", "Remove model sim-fast?", "RemoveModel"),
        ("upstream remove example", "Remove upstream example (https", "RemoveUpstream"),
    ] {
        person.environment.interactive = true;
        for (stdin, code) in [("n\n", 1), ("\n", 1), ("", 1), ("y\n", 0), ("YES\n", 0)] {
            let ran = person.ctl_with(line, stdin).await;
            assert_eq!(ran.code, code, "{line} {stdin:?}: {ran:?}");
            assert!(ran.err.starts_with(asked) && ran.err.contains("[y/N]"), "{ran:?}");
            assert_eq!(fake.last().method == method, code == 0, "{line} {stdin:?}");
        }
        // a script is not asked, and neither is who says --yes
        let before = fake.calls().len();
        person.ctl(&format!("{line} --yes")).await.ok();
        person.environment.interactive = false;
        person.ctl(line).await.ok();
        let calls: Vec<_> = fake.calls().iter().skip(before).map(|call| call.method).collect();
        assert_eq!(calls, [method; 2], "{line}");
    }
}
