//! Sample usage: totals of a range, by period, model and key.

use jiff::Timestamp;
use tui::model::record::{Tokens, Totals};
use tui::model::usage::{Period, Range, Usage};

use super::data::{money, name};
use super::{NOW, Sample};

/// Returns the totals of a range, also by period and model.
pub(super) fn usage(state: Sample, range: Range) -> Usage {
    let models = ["qwen3-coder", "gpt-oss-20b", "tiny"];
    let scale = match state {
        Sample::Empty | Sample::Error => 0,
        Sample::Normal => 1_000,
        Sample::Full => u64::MAX / 100,
    };
    let seconds = range.period_seconds();
    let count = range.hours() * 3_600 / seconds;
    let start =
        |index: i64| Timestamp::from_second(NOW / seconds * seconds - seconds * (count - index));
    let of_period = |index: i64, part: u64| {
        let size = u64::try_from(index * 7 % 24).unwrap();
        let (requests, errors) = if scale > 0 { (size + 1, size / 8) } else { (0, 0) };
        let tokens =
            Tokens { input: Some(size * scale / part), output: Some(0), ..Tokens::default() };
        let cost_usd = Some(format!("0.{:09}", size * 1_234_567 / part));
        Totals { requests, errors, tokens, cost_usd }
    };
    let period = |index| Period { start: start(index).unwrap(), totals: of_period(index, 1) };
    let of_models = |index| {
        let of_model = move |(part, model): (u64, &str)| {
            (start(index).unwrap(), model.to_owned(), of_period(index, part))
        };
        (2..).zip(models).map(of_model)
    };
    let series: Vec<_> = (0..=count).map(period).collect();
    let by_model_and_time: Vec<_> = (0..=count).flat_map(of_models).collect();
    match state {
        Sample::Empty | Sample::Error => {
            Usage { totals: totals(0, state), series, ..Usage::default() }
        }
        Sample::Normal => Usage {
            by_model: [("qwen3-coder", 900_000), ("gpt-oss-20b", 310_000), ("tiny", 1_200)]
                .map(|(model, input)| (model.to_owned(), totals(input, state)))
                .to_vec(),
            series,
            by_model_and_time,
            by_key: vec![("laptop".to_owned(), totals(1_211_200, state))],
            totals: totals(1_211_200, state),
        },
        Sample::Full => Usage {
            by_model: (0..40).map(|it| (name("m", it, state), totals(u64::MAX, state))).collect(),
            series,
            by_model_and_time,
            by_key: (0..40).map(|it| (name("k", it, state), totals(1, state))).collect(),
            totals: totals(u64::MAX, state),
        },
    }
}

fn totals(input: u64, state: Sample) -> Totals {
    let used = input > 0;
    Totals {
        requests: if used { 1_234 } else { 0 },
        errors: if used { 7 } else { 0 },
        tokens: Tokens {
            input: Some(input),
            cached: Some(input / 3),
            output: Some(input / 5),
            reasoning: None,
        },
        cost_usd: Some(if used { money(1, state) } else { "0".to_owned() }),
    }
}
