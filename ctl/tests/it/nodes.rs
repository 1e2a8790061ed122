//! Tests of `ctl node …`.

use crate::harness::signed_in;

#[tokio::test]
async fn nodes_are_listed() {
    let (_fake, user) = signed_in().await;
    for format in ["table", "json"] {
        let printed = user.ctl(&format!("node list -o {format}")).await.ok();
        insta::assert_snapshot!(format!("node_list_{format}"), printed);
    }
}

#[tokio::test]
async fn a_node_is_drained_and_serves_again() {
    let (fake, user) = signed_in().await;
    for (line, draining) in [("node drain gate-1", true), ("node drain gate-1 --undo", false)] {
        user.ctl(line).await.ok();
        let sent = fake.last().message;
        assert!(sent.contains(&format!("name: \"gate-1\", draining: {draining}")), "{sent}");
    }
}

#[tokio::test]
async fn only_a_lost_node_is_removed_as_lost() {
    let (fake, user) = signed_in().await;
    for (line, lost) in [("node remove gate-2", false), ("node remove gate-2 --lost", true)] {
        user.ctl(line).await.ok();
        let sent = fake.last().message;
        assert!(sent.contains(&format!("name: \"gate-2\", lost: {lost}")), "{sent}");
    }
}
