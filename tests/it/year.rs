//! A year of a team on one gateway, within seconds: accounts and their people come and go, keys and certificates rotate,
//! months end, the database is upgraded twice, backed up, restored and swept, the clock is wrong once, and the disk is full
//! once. Nothing is lost, and the audit log says who did each step.

mod first_schema;
mod operations;
mod people;
mod proofs;
mod team;

use jiff::SignedDuration;
use tests::ManualClock;

use self::team::{OPERATOR, Year};

#[tokio::test]
async fn the_ledger_the_usage_and_the_audit_log_of_a_year_agree() {
    let clock = ManualClock::at("2026-01-01T09:00:00Z");
    let mut year = Box::pin(Year::begin(&clock)).await;
    year.rehearse_rollback().await;
    for month in 1..=12 {
        year.use_last_months_key().await;
        year.rotate_the_founders_key().await;
        year.welcome(month).await;
        year.part(month).await;
        year.share_accounts(month).await;
        match month {
            2 => year.grant_deputy().await,
            3 | 9 => year.rotate_certificate().await,
            7 => year.revoke_deputy().await,
            _ => {}
        }
        year = Box::pin(year.restart_under_a_stream()).await;
        year.check_retention().await;
        match month {
            6 => year = Box::pin(year.move_to_another_host()).await,
            8 => {
                let by = SignedDuration::from_hours(400 * 24);
                year = Box::pin(year.start_with_the_clock_ahead(by)).await;
            }
            _ => {}
        }
        year.advance_to_the_next_month();
    }
    let year = Box::pin(year.fill_the_disk()).await;
    assert_eq!(year.actor, OPERATOR);
    year.check_sums().await;
    year.check_audit().await;
    year.check_backups().await;
}
