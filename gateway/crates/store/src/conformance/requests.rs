//! Request records and balances: query results are compared with those of a list of records.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::{ALICE, BOB, at, audit_entry, predicates};
use crate::{Cursor, RequestFilter, Store, Summary, TimeUnit, Totals};
use jiff::Timestamp;

use domain::endpoint::Endpoint;
use domain::id::{KeyId, ModelId, RequestId, UpstreamName};
use domain::idempotency::{Answered, IdempotencyDigest};
use domain::ledger::{Entry, EntryKind, HOUSE};
use domain::money::Nanos;
use domain::month::month_start;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};

const STATUSES: [RequestStatus; 6] = [
    RequestStatus::Completed,
    RequestStatus::Incomplete,
    RequestStatus::Failed,
    RequestStatus::Cancelled,
    RequestStatus::Interrupted,
    RequestStatus::Rejected,
];

pub(super) async fn run(store: &dyn Store) {
    assert_eq!(store.newest().await.unwrap(), Cursor(0));
    assert_eq!(store.commit(Arc::default()).await.unwrap(), Cursor(0));
    assert_eq!(store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap().by_day, []);

    let mut records: Vec<_> = (0..180).map(record).collect();
    commits_once(store, &records).await;
    // A batch is written account by account.
    records[..100].sort_by_key(|record| record.account);
    records[100..].sort_by_key(|record| record.account);
    for record in &records {
        assert_eq!(store.find_request(record.id).await.unwrap().as_ref(), Some(record));
    }
    assert_eq!(store.find_request(RequestId(uuid::Uuid::max())).await.unwrap(), None);
    let before_all = Some(Cursor(i64::MIN));
    let all = RequestFilter::default();
    assert_eq!(store.requests_before(&all, before_all, 9).await.unwrap(), []);
    for filter in filters() {
        queries_match_the_list(store, &records, &filter).await;
        minutes_are_sums(store, &records, &filter).await;
    }
    answered_requests_are_found(store, &records).await;
    keys_have_their_last_use(store, &records).await;
    balances_are_sums(store, &records).await;
    consumption_is_sums(store, &records).await;
}

/// Keys count with and without limits: Bob's has a monthly quota and a spending cap, Alice's neither.
async fn consumption_is_sums(store: &dyn Store, records: &[RequestRecord]) {
    for now in [at(0), at(61), at(1_500), at(100_000)] {
        let mut consumption = store.consumption(now).await.unwrap();
        let start = month_start(now);
        let counted = records.iter().filter(|record| record.started_at >= start);
        let (mut accounts, mut models) = (BTreeMap::new(), BTreeMap::new());
        for record in counted {
            let tokens = record.usage.unwrap_or_default().total().0;
            *accounts.entry(record.account).or_default() += tokens;
            if let Some(model) = &record.model {
                *models.entry(model.clone()).or_default() += tokens;
            }
        }
        consumption.accounts.sort();
        consumption.models.sort();
        assert_eq!(consumption.accounts, accounts.clone().into_iter().collect::<Vec<_>>());
        assert_eq!(consumption.models, models.into_iter().collect::<Vec<_>>());
        consumption.keys.sort();
        consumption.spent.sort();
        let (mut tokens, mut spent) = (BTreeMap::new(), BTreeMap::new());
        for record in records {
            let key = record.key.clone();
            if record.started_at >= start {
                *tokens.entry(key.clone()).or_default() +=
                    record.usage.unwrap_or_default().total().0;
            }
            let sum: &mut Nanos = spent.entry(key).or_default();
            *sum = *sum + record.cost.unwrap_or_default();
        }
        assert_eq!(consumption.keys, tokens.into_iter().collect::<Vec<_>>());
        spent.retain(|_, cost| *cost != Nanos::ZERO);
        consumption.spent.retain(|(_, cost)| *cost != Nanos::ZERO);
        let spent: Vec<_> = spent.into_iter().collect();
        assert_eq!(consumption.spent, spent, "independent of the month");
    }
}

async fn commits_once(store: &dyn Store, records: &[RequestRecord]) {
    let first = store.commit(Arc::new(records[..100].to_vec())).await.unwrap();
    assert_eq!(store.newest().await.unwrap(), first);
    // A repeated batch, alone and with more records, counts once; so does a duplicate within a
    // batch.
    assert_eq!(store.commit(Arc::new(records[..100].to_vec())).await.unwrap(), first);
    let mut rest = records[50..].to_vec();
    rest.insert(72, records[121].clone());
    let last = store.commit(Arc::new(rest)).await.unwrap();
    assert!(last > first);
    assert_eq!(store.newest().await.unwrap(), last);
}

async fn queries_match_the_list(
    store: &dyn Store,
    records: &[RequestRecord],
    filter: &RequestFilter,
) {
    let expected: Vec<_> = records.iter().filter(|record| holds(filter, record)).cloned().collect();

    let mut forward = Vec::new();
    let mut after = Cursor::default();
    loop {
        let page = store.requests_after(filter, after, 7).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        assert_eq!(store.count_requests(filter, after, *last).await.unwrap(), page.len() as u64);
        after = *last;
        forward.extend(page);
    }
    assert!(forward.iter().map(|(_, record)| record).eq(&expected), "{filter:?}");

    let mut backward = Vec::new();
    let mut before = None;
    loop {
        let page = store.requests_before(filter, before, 7).await.unwrap();
        assert!(page.len() <= 7);
        let Some((last, _)) = page.last() else { break };
        before = Some(*last);
        backward.extend(page);
    }
    backward.reverse();
    assert_eq!(backward, forward, "{filter:?}");

    let end = store.newest().await.unwrap();
    let count = store.count_requests(filter, Cursor(0), end).await.unwrap();
    assert_eq!(count, expected.len() as u64);
    check_summary(store, filter, &expected).await;
}

/// Compares the sums by minute with those of the matching `records`.
async fn minutes_are_sums(store: &dyn Store, records: &[RequestRecord], filter: &RequestFilter) {
    let by_minute = store.summarize(filter, TimeUnit::Minute).await.unwrap();
    let mut expected = BTreeMap::<_, Totals>::new();
    for record in records.iter().filter(|record| holds(filter, record)) {
        let minute = record.started_at.as_second().div_euclid(60) * 60;
        add(expected.entry(Timestamp::from_second(minute).unwrap()).or_default(), record);
    }
    assert!(by_minute.by_minute.iter().copied().eq(expected), "{filter:?}");
    let by_hour = store.summarize(filter, TimeUnit::Hour).await.unwrap();
    let by_hour_too = Summary {
        by_minute: Vec::new(),
        by_model_and_time: by_hour.by_model_and_time.clone(),
        ..by_minute
    };
    assert_eq!(by_hour_too, by_hour, "{filter:?}");
}

/// Compares the sums over `filter` with those over the `expected` records.
pub(super) async fn check_summary(
    store: &dyn Store,
    filter: &RequestFilter,
    expected: &[RequestRecord],
) {
    let mut totals = Totals::default();
    let mut by_model = HashMap::<_, Totals>::new();
    let mut by_day = BTreeMap::<_, Totals>::new();
    let mut by_hour = BTreeMap::<_, Totals>::new();
    let mut by_hour_and_model = BTreeMap::<_, Totals>::new();
    let mut by_key = HashMap::<_, Totals>::new();
    for record in expected {
        let day = record.started_at.strftime("%F").to_string();
        add(&mut totals, record);
        add(by_model.entry(record.model.clone()).or_default(), record);
        add(by_day.entry(day).or_default(), record);
        let hour = record.started_at.as_second().div_euclid(3_600) * 3_600;
        let hour = Timestamp::from_second(hour).unwrap();
        add(by_hour.entry(hour).or_default(), record);
        add(by_hour_and_model.entry((hour, record.model.clone())).or_default(), record);
        add(by_key.entry((record.account, record.key.clone())).or_default(), record);
    }
    let by_hour_too = store.summarize(filter, TimeUnit::Hour).await.unwrap();
    assert!(by_hour_too.by_hour.iter().copied().eq(by_hour), "{filter:?}");
    let summary = store.summarize(filter, TimeUnit::Day).await.unwrap();
    let of_models = by_hour_too.by_model_and_time.iter().cloned();
    let of_models = of_models.map(|(start, model, totals)| ((start, model), totals));
    assert!(of_models.eq(by_hour_and_model), "{filter:?}");
    let by_day_too = Summary {
        by_hour: Vec::new(),
        by_model_and_time: summary.by_model_and_time.clone(),
        ..by_hour_too
    };
    assert_eq!(by_day_too, summary, "{filter:?}");
    assert_eq!(summary.totals, totals, "{filter:?}");
    assert!(summary.by_day.iter().cloned().eq(by_day), "{filter:?}");
    assert!(summary.by_model.is_sorted_by(|(_, a), (_, b)| a.cost >= b.cost), "{filter:?}");
    assert_eq!(summary.by_model.into_iter().collect::<HashMap<_, _>>(), by_model, "{filter:?}");
    assert!(summary.by_key.is_sorted_by(|a, b| a.totals.cost >= b.totals.cost), "{filter:?}");
    assert!(summary.by_key.iter().all(|sum| sum.label.is_some()), "{filter:?}");
    let keys = summary.by_key.into_iter().map(|sum| ((sum.account, sum.key), sum.totals));
    assert_eq!(keys.collect::<HashMap<_, _>>(), by_key, "{filter:?}");
}

async fn answered_requests_are_found(store: &dyn Store, records: &[RequestRecord]) {
    for since in [at(-9_000), at(90), at(1_440), at(9_000)] {
        let answered = records.iter().filter_map(|record| {
            let at = record.started_at + record.duration;
            Some(Answered { digest: record.idempotency?, id: record.id, at })
        });
        let mut expected: Vec<_> = answered.filter(|answered| answered.at >= since).collect();
        expected.sort_by_key(|answered| answered.at);
        for limit in [0, 3, usize::MAX] {
            let newest = &expected[expected.len().saturating_sub(limit)..];
            assert_eq!(store.answered_since(since, limit).await.unwrap(), newest);
        }
    }
}

async fn keys_have_their_last_use(store: &dyn Store, records: &[RequestRecord]) {
    for (key, last_used) in store.keys(None).await.unwrap() {
        let uses = records.iter().filter(|record| record.key == key.id);
        assert_eq!(last_used, uses.map(|record| record.started_at).max(), "{}", key.id);
    }
}

async fn balances_are_sums(store: &dyn Store, records: &[RequestRecord]) {
    let charged = |account| -> Nanos {
        records
            .iter()
            .filter(|r| r.account == account)
            .filter_map(|r| r.cost)
            .map(|cost| -cost)
            .sum()
    };
    let alice = Nanos(5_000) + charged(ALICE);
    assert_eq!(store.balance(ALICE).await.unwrap(), alice);
    let lost: Nanos = records.iter().map(|record| -record.overrun).sum();
    assert_eq!(store.balance(HOUSE).await.unwrap(), lost);
    for (amount, kind) in [
        (-1_000, EntryKind::Credit("refund of order 7".into())),
        (777, EntryKind::Correction("double booking".into())),
    ] {
        let entry = Entry { account: BOB, amount: Nanos(amount), kind, at: at(99) };
        store.add_entry(&entry, &audit_entry("e")).await.unwrap();
    }
    let bob = charged(BOB) + Nanos(60 - 223);
    assert_eq!(store.balance(BOB).await.unwrap(), bob);
    let unknown = domain::id::AccountId(uuid::Uuid::from_u128(404));
    assert_eq!(store.balance(unknown).await.unwrap(), Nanos::ZERO);
    let mut balances = store.load().await.unwrap().balances;
    balances.sort();
    assert_eq!(balances, [(HOUSE, lost), (BOB, bob), (ALICE, alice)]);
}

fn filters() -> Vec<RequestFilter> {
    let all = RequestFilter::default();
    let mut filters = vec![
        all.clone(),
        RequestFilter { account: Some(ALICE), ..all.clone() },
        RequestFilter { key: Some(KeyId::new("b1")), ..all.clone() },
        RequestFilter { key: Some(KeyId::new("unknown")), ..all.clone() },
        RequestFilter { account: Some(BOB), key: Some(KeyId::new("a1")), ..all.clone() },
        RequestFilter { model: Some(ModelId::new("gpt")), ..all.clone() },
        RequestFilter { model: Some(ModelId::new("0")), ..all.clone() },
    ];
    filters.extend(STATUSES.map(|status| RequestFilter { status: Some(status), ..all.clone() }));
    let times = [None, Some(at(-9_000)), Some(at(0)), Some(at(90)), Some(at(95)), Some(at(1_440))]
        .into_iter()
        .chain([Some(at(2_911)), Some(at(9_000))]);
    for since in times.clone() {
        for until in times.clone() {
            let within = RequestFilter { since, until, ..all.clone() };
            let narrower = RequestFilter { account: Some(ALICE), ..within.clone() };
            let key = Some(KeyId::new("a2"));
            let model = RequestFilter { model: Some(ModelId::new("gpt")), ..within.clone() };
            filters.push(RequestFilter { key, ..model.clone() });
            filters.extend([within, narrower, model]);
        }
    }
    for terms in predicates::choices() {
        let all = RequestFilter { terms, ..all.clone() };
        let since = RequestFilter { since: Some(at(95)), ..all.clone() };
        let account = RequestFilter { account: Some(ALICE), ..since.clone() };
        let until = RequestFilter { until: Some(at(2_911)), ..since.clone() };
        filters.extend([all, since, account, until]);
    }
    filters
}

fn holds(filter: &RequestFilter, record: &RequestRecord) -> bool {
    filter.account.is_none_or(|account| record.account == account)
        && filter.key.as_ref().is_none_or(|key| record.key == *key)
        && (filter.model.is_none() || record.model == filter.model)
        && filter.status.is_none_or(|status| record.status == status)
        && filter.since.is_none_or(|since| record.started_at >= since)
        && filter.until.is_none_or(|until| record.started_at < until)
        && filter.terms.iter().all(|term| predicates::holds(term, record))
}

fn add(totals: &mut Totals, record: &RequestRecord) {
    let usage = record.usage.unwrap_or_default();
    let requests = u64::from(record.count.get());
    totals.requests += requests;
    if let RequestStatus::Failed | RequestStatus::Interrupted | RequestStatus::Rejected =
        record.status
    {
        totals.errors += requests;
    }
    totals.input += usage.input.0;
    totals.cached += usage.cached.unwrap_or_default().0;
    totals.output += usage.output.0;
    totals.reasoning += usage.reasoning.unwrap_or_default().0;
    totals.cost = totals.cost + record.cost.unwrap_or_default();
}

/// Returns the n-th request of the suite. Each optional field is absent in some requests. Requests
/// arrive over three days, from the evening before the first day, and do not end in the order of
/// arrival.
fn record(n: u64) -> RequestRecord {
    let has = |every: u64| !n.is_multiple_of(every);
    let minute = i64::try_from((n * 37) % 180 * 25).unwrap() - 120;
    RequestRecord {
        id: RequestId(uuid::Uuid::from_u128(u128::from(n * 7_919 % 1_009) << 64 | u128::from(n))),
        account: if n.is_multiple_of(3) { BOB } else { ALICE },
        key: KeyId::new(["b1", "a1", "a2"][usize::try_from(n % 3).unwrap()]),
        endpoint: Endpoint::ALL[usize::try_from(n % 4).unwrap()],
        model: has(7)
            .then(|| ModelId::new(["gpt", "echo", "", "0"][usize::try_from(n % 4).unwrap()])),
        deployment: has(5).then(|| ServedBy {
            upstream: UpstreamName::new("sim"),
            upstream_model: format!("m{n}").into(),
        }),
        stream: has(2),
        status: STATUSES[usize::try_from(n / 5 % 6).unwrap()],
        http_status: has(6).then_some(200),
        error_code: (!has(6)).then(|| "rate_limit_exceeded".to_owned()),
        usage: has(4).then(|| Usage {
            input: Tokens(n * 10),
            cached: has(3).then_some(Tokens(n)),
            output: Tokens(n),
            reasoning: (!has(3)).then_some(Tokens(n / 2)),
        }),
        basis: if has(4) { UsageBasis::Upstream } else { UsageBasis::None },
        cost: has(4).then(|| Nanos(i64::try_from(n * n).unwrap())),
        overrun: if has(11) { Nanos::ZERO } else { Nanos(i64::try_from(n).unwrap()) },
        price_version: has(4).then_some(3),
        started_at: at(minute) + Duration::from_micros(n),
        duration: Duration::from_micros(n * 1_001),
        ttft: has(5).then(|| Duration::from_micros(n)),
        notes: if has(9) { vec![] } else { vec!["a \"note\"".into(), "ü".into()] },
        count: NonZeroU32::new(if has(13) { 1 } else { 1_234 }).unwrap(),
        trace: None,
        idempotency: (!has(8)).then(|| IdempotencyDigest([u8::try_from(n % 251).unwrap(); 32])),
    }
}
