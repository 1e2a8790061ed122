//! Pages of the request log are read in the order of an index.

use super::Database;
use crate::RequestFilter;
use crate::postgres::codec::ReadColumn;
use crate::postgres::filter::Selection;
use crate::postgres::requests::{Order, page_conditions, page_sql};
use domain::expression::{Predicate, Term};
use domain::record::RequestStatus;

/// Adds records of a day, of which one of 100 did not complete, with one of five statuses.
const RECORDS: &str = "INSERT INTO requests (account, day, id, seq, key, started_at, duration, \
        endpoint, stream, status, basis) \
    SELECT gen_random_uuid(), 20000, gen_random_uuid(), n, 'k', 20000 * 86400000000 + n, 1, 1, \
        false, CASE WHEN n % 100 = 0 THEN 2 + n / 100 % 5 ELSE 1 END, 1 \
    FROM generate_series(1, 20000) AS n; \
    ANALYZE requests";

#[tokio::test]
async fn each_status_is_read_in_the_order_of_its_index() {
    use RequestStatus::{Completed, Failed, Rejected};
    let Some(database) = Database::create("page_plans").await else { return };
    let store = database.open(1).await.unwrap();
    database.connect().await.batch_execute(RECORDS).await.unwrap();
    let statuses = |statuses: &[RequestStatus], negated| {
        let predicate = Predicate::Status(statuses.to_vec());
        RequestFilter { terms: vec![Term { predicate, negated }], ..RequestFilter::default() }
    };
    let one = RequestFilter { status: Some(Failed), ..RequestFilter::default() };
    let mut connection = store.connection().await.unwrap();
    for (filter, parts) in [
        (one, 1),
        (statuses(&[Failed, Rejected], false), 2),
        (statuses(&[Completed], true), RequestStatus::ALL.len() - 1),
    ] {
        let tx = connection.view().await.unwrap();
        let selection = Selection::of(&tx, &filter).await.unwrap();
        let conditions = page_conditions(&selection, (None, Some(15_000)));
        assert_eq!(conditions.len(), parts, "{filter:?}");
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let sql = format!("EXPLAIN (COSTS FALSE) {}", page_sql(&conditions, order, 10));
            let plan = tx.query_with(&sql, &conditions).await.unwrap();
            let steps: Vec<String> = plan.iter().map(|row| row.column(0).unwrap()).collect();
            let steps = steps.iter().map(|step| step.trim_start().trim_start_matches("->  "));
            let is_other = |step: &&str| {
                !["Limit", "Merge Append", "Sort Key: ", "Index Scan ", "Index Cond: ((status = "]
                    .iter()
                    .any(|expected| step.starts_with(expected))
            };
            // Sorting, or reading other rows and filtering them, would be additional steps.
            let others: Vec<_> = steps.filter(is_other).collect();
            assert!(others.is_empty(), "{sql}: {others:?}");
        }
    }
    drop(connection);
    database.remove(store).await;
}
