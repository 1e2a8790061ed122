//! Metrics of ended requests, counted from their records.
//!
//! The recorder's task passes each record before it is written to the store, so counters and ledger have the same
//! requests, and no request waits for a metric. Records of an earlier process that are replayed at the start are not
//! passed: the counters have what this process has finished.
//!
//! The number of series is bounded whatever clients send: models get their own series in the order of their first
//! request, up to [`MAX_MODELS`]; names that are not in the catalogue share one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;

use super::encoder::Encoder;
use super::exemplars::TracedHistogram;
use super::gen_ai::{self, GenAi};
use super::top::{TopNames, TopSeries};
use crate::directory::Catalogue;
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};

/// The number of models with their own series, which bounds a scrape: each may take 25 kB.
const MAX_MODELS: usize = 64;
/// The number of combinations of endpoint, status and error code that are counted separately for a model.
const MAX_OUTCOMES: usize = 24;
/// The label of what exceeds the number of series.
const OTHER: &str = "other";
/// The label of names that the catalogue does not have.
const UNKNOWN: &str = "unknown";

/// The bounds for durations of requests, in seconds, up to half an hour.
const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1_200.0, 1_800.0,
];
/// The most accounts, and keys, that can have their own series.
pub const MAX_TOP: u32 = 200;
const ACCOUNTS: TopNames = TopNames {
    label: "account",
    requests: "tollgate_account_requests_total",
    input_tokens: "tollgate_account_input_tokens_total",
    output_tokens: "tollgate_account_output_tokens_total",
    cost: "tollgate_account_cost_usd_total",
};
const KEYS: TopNames = TopNames {
    label: "key",
    requests: "tollgate_key_requests_total",
    input_tokens: "tollgate_key_input_tokens_total",
    output_tokens: "tollgate_key_output_tokens_total",
    cost: "tollgate_key_cost_usd_total",
};

/// The metrics of all requests that have ended since the start.
pub struct RequestMetrics(Mutex<Series>);

#[derive(Clone)]
struct Series {
    /// In the order of their first request.
    models: Vec<ModelSeries>,
    by_model: HashMap<ModelId, usize, RandomState>,
    /// Requests that named no model, such as lists of models.
    without_model: ModelSeries,
    unknown: ModelSeries,
    other: ModelSeries,
    /// Of requests that were sent to an upstream, in the order of [`Endpoint::ALL`].
    durations: [TracedHistogram; Endpoint::ALL.len()],
    accounts: TopSeries<AccountId>,
    keys: TopSeries<KeyId>,
}

/// The series of one value of the label `model`.
#[derive(Clone, Default)]
struct ModelSeries {
    model: String,
    requests: Vec<(RequestClass, u64)>,
    input_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    cost: Nanos,
    overrun: Nanos,
    /// `None` until a request was sent to an upstream.
    gen_ai: Option<Box<GenAi>>,
}

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestClass {
    endpoint: Endpoint,
    status: RequestStatus,
    /// The class of the HTTP status; `None` if the client got none.
    http_status: Option<HttpClass>,
    error_code: String,
}

/// The class of an HTTP status: `4xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HttpClass(u16);

// === impl RequestMetrics ===

impl RequestMetrics {
    /// Creates metrics with series for `top` accounts and as many keys.
    pub fn new(top: usize) -> Self {
        Self(Mutex::new(Series::new(top)))
    }

    /// Counts requests that have ended. Names of models are looked up in `catalogue` when they are first seen.
    pub fn observe(&self, records: &[RequestRecord], catalogue: &Catalogue) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            series.observe(record, catalogue);
        }
    }

    pub(super) fn encode(&self, encoder: &mut Encoder<'_>) {
        // Encoding takes longer than copying, and the recorder waits for the lock.
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        series.encode(encoder);
    }
}

// === impl Series ===

impl Series {
    fn new(top: usize) -> Self {
        let named = |model: &str| ModelSeries { model: model.to_owned(), ..Default::default() };
        Self {
            models: Vec::new(),
            by_model: HashMap::default(),
            without_model: ModelSeries::default(),
            unknown: named(UNKNOWN),
            other: named(OTHER),
            durations: std::array::from_fn(|_| TracedHistogram::new(DURATIONS)),
            accounts: TopSeries::new(top),
            keys: TopSeries::new(top),
        }
    }

    fn observe(&mut self, record: &RequestRecord, catalogue: &Catalogue) {
        if record.deployment.is_some() {
            let at = Endpoint::ALL.iter().position(|endpoint| *endpoint == record.endpoint);
            let duration = record.duration.as_secs_f64();
            self.durations[at.expect("`ALL` has every endpoint")].observe(duration, record);
        }
        self.model(record.model.as_ref(), catalogue).observe(record);
        self.accounts.observe(&record.account, record);
        self.keys.observe(&record.key, record);
    }

    fn model(&mut self, name: Option<&ModelId>, catalogue: &Catalogue) -> &mut ModelSeries {
        let Some(name) = name else { return &mut self.without_model };
        if let Some(index) = self.by_model.get(name) {
            return &mut self.models[*index];
        }
        // A request that is refused early has the name that its client wrote, which may be an alias.
        let Some(model) = catalogue.find_model(name.as_str()) else { return &mut self.unknown };
        if let Some(index) = self.by_model.get(&model.id) {
            return &mut self.models[*index];
        }
        match model.id.as_str() {
            UNKNOWN => return &mut self.unknown,
            OTHER => return &mut self.other,
            _ if self.models.len() >= MAX_MODELS => return &mut self.other,
            _ => {}
        }
        self.by_model.insert(model.id.clone(), self.models.len());
        self.models.push(ModelSeries { model: model.id.to_string(), ..Default::default() });
        self.models.last_mut().expect("it was just added")
    }

    fn all(&self) -> impl Iterator<Item = &ModelSeries> {
        let shared = [&self.without_model, &self.unknown, &self.other];
        self.models.iter().chain(shared).filter(|series| !series.requests.is_empty())
    }

    fn encode(&self, encoder: &mut Encoder<'_>) {
        let mut family =
            encoder.counter("tollgate_requests_total", "Recorded requests that have ended.");
        for series in self.all() {
            for (class, count) in &series.requests {
                let http_status = class.http_status.map(HttpClass::as_str);
                let labels = &[
                    ("endpoint", class.endpoint.as_str()),
                    ("model", &series.model),
                    ("status", class.status.as_str()),
                    ("http_status", http_status.unwrap_or_default()),
                    ("error_code", &class.error_code),
                ];
                family.sample(labels, count);
            }
        }
        let mut by_model = |name, help, value: fn(&ModelSeries) -> u64| {
            let mut family = encoder.counter(name, help);
            for series in self.all().filter(|series| series.gen_ai.is_some()) {
                family.sample(&[("model", &series.model)], value(series));
            }
        };
        by_model(
            "tollgate_input_tokens_total",
            "Charged input tokens, cached ones included.",
            |it| it.input_tokens,
        );
        by_model("tollgate_cached_tokens_total", "Input tokens from caches of upstreams.", |it| {
            it.cached_tokens
        });
        by_model(
            "tollgate_output_tokens_total",
            "Charged output tokens, reasoning included.",
            |it| it.output_tokens,
        );
        by_model("tollgate_reasoning_tokens_total", "Output tokens of reasoning.", |it| {
            it.reasoning_tokens
        });
        let mut family = encoder.counter("tollgate_cost_usd_total", "Charged to accounts.");
        for series in self.all().filter(|series| series.gen_ai.is_some()) {
            family.sample(&[("model", &series.model)], series.cost);
        }
        let mut family = encoder.counter(
            "tollgate_overrun_usd_total",
            "Cost in excess of balances, which the operator bears.",
        );
        for series in self.all().filter(|series| series.gen_ai.is_some()) {
            family.sample(&[("model", &series.model)], series.overrun);
        }
        let mut family = encoder.histogram(
            "tollgate_request_duration_seconds",
            "Time from the arrival of a request that was sent to an upstream to the end of its answer.",
        );
        for (endpoint, durations) in Endpoint::ALL.iter().zip(&self.durations) {
            if durations.histogram().count() > 0 {
                family.traced_buckets(&[("endpoint", endpoint.as_str())], durations);
            }
        }
        let gen_ai = self.all().filter_map(|it| Some((&*it.model, it.gen_ai.as_deref()?)));
        gen_ai::encode(encoder, &gen_ai.collect::<Vec<_>>());
        self.accounts.encode(encoder, &ACCOUNTS);
        self.keys.encode(encoder, &KEYS);
    }
}

// === impl ModelSeries ===

impl ModelSeries {
    fn observe(&mut self, record: &RequestRecord) {
        let class = RequestClass::of(record);
        let count = u64::from(record.count.get());
        *self.requests(class) += count;
        if let Some(usage) = &record.usage {
            self.input_tokens += usage.input.0;
            self.cached_tokens += usage.cached.unwrap_or_default().0;
            self.output_tokens += usage.output.0;
            self.reasoning_tokens += usage.reasoning.unwrap_or_default().0;
        }
        self.cost = self.cost + record.cost.unwrap_or_default();
        self.overrun = self.overrun + record.overrun;
        if record.deployment.is_some() {
            self.gen_ai.get_or_insert_default().observe(record);
        }
    }

    fn requests(&mut self, mut class: RequestClass) -> &mut u64 {
        let find = |requests: &[(RequestClass, u64)], class: &RequestClass| {
            requests.iter().position(|(counted, _)| counted == class)
        };
        let mut found = find(&self.requests, &class);
        if found.is_none() && self.requests.len() >= MAX_OUTCOMES && !class.error_code.is_empty() {
            OTHER.clone_into(&mut class.error_code);
            found = find(&self.requests, &class);
        }
        let index = found.unwrap_or_else(|| {
            self.requests.push((class, 0));
            self.requests.len() - 1
        });
        &mut self.requests[index].1
    }
}

// === impl RequestClass ===

impl RequestClass {
    fn of(record: &RequestRecord) -> Self {
        Self {
            endpoint: record.endpoint,
            status: record.status,
            http_status: record.http_status.map(|status| HttpClass(status / 100)),
            error_code: record.error_word().unwrap_or_default().to_owned(),
        }
    }
}

// === impl HttpClass ===

impl HttpClass {
    const fn as_str(self) -> &'static str {
        match self.0 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => OTHER,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
