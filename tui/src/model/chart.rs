//! The chart of a time range above the usage screen: what is drawn, and the values in layers.

use jiff::Timestamp;

use super::money::parse_nanos;
use super::record::{Record, Totals};
use super::usage::{Period, Usage};

use std::collections::BTreeMap;

/// The maximum number of models with a layer of their own.
pub const MAX_LAYERS: usize = 5;
/// The upper bounds of the latency rows in milliseconds, smallest first; the last row has none.
pub const LATENCY_BOUNDS_MS: [f64; 11] =
    [3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0, 100_000.0, 300_000.0];
/// The number of latency rows.
pub const LATENCY_ROWS: usize = LATENCY_BOUNDS_MS.len() + 1;

/// The chart and its cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChartView {
    /// What is drawn.
    pub measure: Measure,
    /// The number of periods between the cursor and the newest one.
    pub back: usize,
}

/// A measured quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// The tokens by model.
    #[default]
    Tokens,
    /// The requests, successful ones and errors.
    Requests,
    /// The cost by model, in billionths of a US dollar.
    Cost,
    /// The duration of requests, as far as they are in the log.
    Latency,
}

/// The values of one kind of requests, one per period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The requests that it counts.
    pub kind: LayerKind,
    /// The values, oldest first.
    pub values: Vec<u64>,
}

/// The requests of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Those that failed or were refused.
    Errors,
    /// Those that did not.
    Successes,
    /// Those of a model; its id is empty for requests without one.
    Model(String),
    /// Those of all other models.
    Others,
    /// All.
    All,
}

/// The durations of the requests of one period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyColumn {
    /// The number of requests per row, by [`LATENCY_BOUNDS_MS`].
    pub rows: [u32; LATENCY_ROWS],
    /// The median in milliseconds, if there is a request.
    pub p50_ms: Option<f64>,
    /// The 99th percentile in milliseconds, if there is a request.
    pub p99_ms: Option<f64>,
}

// === impl Measure ===

impl Measure {
    /// All measures, in the order of the keys.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Requests, Self::Cost, Self::Latency];

    /// Returns the title of the chart.
    pub fn title(self) -> &'static str {
        match self {
            Self::Tokens => "Tokens by model",
            Self::Requests => "Requests and errors",
            Self::Cost => "Cost by model",
            Self::Latency => "Duration of requests",
        }
    }

    /// Returns the measure `steps` further, wrapping around.
    #[must_use]
    pub fn step(self, steps: isize) -> Self {
        let count = Self::ALL.len();
        let place = Self::ALL.iter().position(|it| *it == self).unwrap_or(0) + count;
        Self::ALL[place.saturating_add_signed(steps) % count]
    }

    /// Returns whether the values are divided by model.
    pub fn is_by_model(self) -> bool {
        matches!(self, Self::Tokens | Self::Cost)
    }

    /// Returns the value of a period.
    pub fn of(self, totals: &Totals) -> u64 {
        match self {
            Self::Tokens => totals.tokens.total().unwrap_or(0),
            Self::Requests | Self::Latency => totals.requests,
            Self::Cost => {
                let nanos = totals.cost_usd.as_deref().and_then(parse_nanos).unwrap_or(0);
                u64::try_from(nanos).unwrap_or(0)
            }
        }
    }

    /// Returns the value of each period.
    pub fn values(self, series: &[Period]) -> Vec<u64> {
        series.iter().map(|period| self.of(&period.totals)).collect()
    }
}

/// Returns the layers of a chart from bottom to top. Without sums by model, there is one layer.
pub fn layers(measure: Measure, usage: &Usage) -> Vec<Layer> {
    let series = &usage.series;
    if measure == Measure::Requests {
        let errors = series.iter().map(|it| it.totals.errors);
        let others = series.iter().map(|it| it.totals.requests.saturating_sub(it.totals.errors));
        return vec![
            Layer { kind: LayerKind::Errors, values: errors.collect() },
            Layer { kind: LayerKind::Successes, values: others.collect() },
        ];
    }
    let all = measure.values(series);
    let by_model = by_model(measure, usage);
    if by_model.is_empty() {
        return vec![Layer { kind: LayerKind::All, values: all }];
    }
    let mut rest = all;
    let mut layers = Vec::new();
    for (model, values) in by_model.into_iter().take(MAX_LAYERS) {
        for (left, value) in rest.iter_mut().zip(&values) {
            *left = left.saturating_sub(*value);
        }
        layers.push(Layer { kind: LayerKind::Model(model), values });
    }
    if rest.iter().any(|value| *value > 0) {
        layers.push(Layer { kind: LayerKind::Others, values: rest });
    }
    layers
}

/// Returns the values of each model, those with the greatest sum first.
pub fn by_model(measure: Measure, usage: &Usage) -> Vec<(String, Vec<u64>)> {
    let index_of: BTreeMap<_, _> =
        usage.series.iter().enumerate().map(|(index, it)| (it.start, index)).collect();
    let mut models: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (start, model, totals) in &usage.by_model_and_time {
        if let Some(index) = index_of.get(start) {
            let values = models.entry(model).or_insert_with(|| vec![0; usage.series.len()]);
            values[*index] = values[*index].saturating_add(measure.of(totals));
        }
    }
    let sum = |values: &[u64]| values.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
    let mut models: Vec<_> =
        models.into_iter().map(|(model, values)| (model.to_owned(), values)).collect();
    models.retain(|(_, values)| sum(values) > 0);
    models.sort_by_key(|(_, values)| std::cmp::Reverse(sum(values)));
    models
}

/// Returns the durations of the requests of each period. `starts` are those of the periods, oldest
/// first.
pub fn latency<'a>(
    records: impl Iterator<Item = &'a Record>,
    starts: &[Timestamp],
) -> Vec<LatencyColumn> {
    let mut durations = vec![Vec::new(); starts.len()];
    for record in records {
        let Some((at, took)) = record.started_at.zip(record.duration_ms) else { continue };
        let after = starts.partition_point(|start| *start <= at);
        if let Some(column) = after.checked_sub(1).and_then(|index| durations.get_mut(index)) {
            column.push(took);
        }
    }
    durations.into_iter().map(LatencyColumn::of).collect()
}

// === impl LatencyColumn ===

impl LatencyColumn {
    fn of(mut durations: Vec<f64>) -> Self {
        durations.sort_by(f64::total_cmp);
        let mut column = Self {
            p50_ms: percentile(&durations, 50),
            p99_ms: percentile(&durations, 99),
            ..Self::default()
        };
        for took in durations {
            let row = LATENCY_BOUNDS_MS.partition_point(|bound| *bound <= took);
            column.rows[row] = column.rows[row].saturating_add(1);
        }
        column
    }
}

/// Returns the value that `percent` of the sorted values do not exceed; `None` without values.
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::Tokens;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn totals(requests: u64, errors: u64, tokens: u64) -> Totals {
        let tokens = Tokens { input: Some(tokens), output: Some(0), ..Tokens::default() };
        Totals { requests, errors, tokens, cost_usd: Some("0.5".to_owned()) }
    }

    #[test]
    fn layers_add_up_to_the_total() {
        let models = ["a", "b", "c", "d", "e", "f", "g"];
        let by_model =
            (1..).zip(models).map(|(size, model)| (at(60), model.to_owned(), totals(1, 0, size)));
        let usage = Usage {
            series: vec![
                Period { start: at(0), totals: totals(3, 1, 0) },
                Period { start: at(60), totals: totals(7, 0, 28) },
            ],
            by_model_and_time: by_model.collect(),
            ..Usage::default()
        };
        let requests = layers(Measure::Requests, &usage);
        assert_eq!([&requests[0].values, &requests[1].values], [&[1, 0], &[2, 7]]);
        let tokens = layers(Measure::Tokens, &usage);
        assert_eq!(tokens.len(), MAX_LAYERS + 1);
        assert_eq!(tokens[0].kind, LayerKind::Model("g".to_owned()));
        assert_eq!(tokens.last().unwrap(), &Layer { kind: LayerKind::Others, values: vec![0, 3] });
        assert_eq!(tokens.iter().map(|it| it.values[1]).sum::<u64>(), 28);
        let cost = layers(Measure::Cost, &Usage { by_model_and_time: Vec::new(), ..usage });
        let values = vec![500_000_000; 2];
        assert_eq!(cost, [Layer { kind: LayerKind::All, values }]);
    }

    #[test]
    fn durations_are_counted_in_their_period_and_row() {
        let record = |second, took| Record {
            started_at: Some(at(second)),
            duration_ms: Some(took),
            ..Record::default()
        };
        let records = [record(-1, 5.0), record(0, 2.9), record(59, 3.0), record(60, 1e9)];
        let columns = latency(records.iter(), &[at(0), at(60)]);
        assert_eq!((columns[0].rows[0], columns[0].rows[1]), (1, 1));
        assert_eq!((columns[0].p50_ms, columns[0].p99_ms), (Some(2.9), Some(3.0)));
        assert_eq!(columns[1].rows[LATENCY_ROWS - 1], 1);
        assert_eq!(latency([].iter(), &[at(0)]), [LatencyColumn::default()]);
    }
}
