//! The size and the time of a scrape with a large catalogue.

use std::time::Instant;

use tests::collector::Collector;
use tests::http::Request;
use tests::process::{Gateway, Simulator};

use crate::catalogue::{self, ACCOUNTS, Sizes};
use crate::load::{Kind, Load};
use crate::{median, observe};

/// The media type that selects OpenMetrics.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";
const TEXT: &str = "text/plain";
const SCRAPES: usize = 15;
/// The keys that send requests, each of another account.
const ACTIVE_KEYS: usize = 250;
/// Those of them that also send streams. They are the first ones, whose models get series.
const STREAMING_KEYS: usize = 4;

/// Measures scrapes of a gateway with many models and keys, all of whose models were asked and traced.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures time")]
pub(crate) async fn measure(sizes: Sizes, collector: &Collector, simulator: &Simulator) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    // The first start makes the default plan.
    Gateway::start(dir.path(), |_| {}).await.stop().await;
    let filled = catalogue::fill(&dir.path().join("tollgate.db"), &simulator.url, sizes).await;
    filled.expect("the store takes all of it");
    let Sizes { models, keys } = sizes;
    let active_keys = ACTIVE_KEYS.min(keys).min(models);
    println!("{models} models, {ACCOUNTS} accounts, {keys} keys");
    for top in ["0", "200"] {
        let begun = Instant::now();
        let gateway = Gateway::start(dir.path(), |command| {
            observe(command.args(["--metrics-accounts", top]), collector, 100.0);
        })
        .await;
        println!("with {top} accounts and keys: started in {:.1} s", begun.elapsed().as_secs_f64());
        for number in 0..active_keys {
            let mut load = Load::connect(gateway.http, &catalogue::key(number)).await;
            for model in (number..models).step_by(active_keys) {
                let model = catalogue::model(model);
                load.send(Kind::Plain, &model, 1).await;
                if number < STREAMING_KEYS {
                    load.send(Kind::Burst, &model, 1).await;
                }
            }
        }
        for (name, accept) in [("text", TEXT), ("OpenMetrics", OPEN_METRICS)] {
            let (mut millis, mut bytes) = (Vec::new(), 0);
            for _ in 0..SCRAPES {
                let begun = Instant::now();
                bytes = scrape(&gateway, accept).await;
                millis.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            let longest = millis.iter().copied().fold(0.0, f64::max);
            println!(
                "{name:14} {bytes:9} bytes, median {:.1} ms, longest {longest:.1} ms",
                median(millis)
            );
        }
        gateway.stop().await;
    }
}

/// Scrapes the metrics, and returns their size.
pub(crate) async fn scrape(gateway: &Gateway, accept: &str) -> usize {
    let request = Request::get(gateway.metrics(), "/metrics").header("accept", accept);
    let answer = request.answer().await;
    assert_eq!(answer.status, 200);
    answer.body.len()
}
