//! What observation costs: the CPU time of a request with all of it on and with all of it off, and the size and the
//! time of a scrape with a large catalogue.
//!
//! `cargo bench -p tests --bench observability -- ROUNDS REQUESTS PERCENT MODELS KEYS` runs two gateways of one worker each in
//! front of one simulator, which is another process: one with metrics that are scraped once in each round, the
//! access log, and the export of traces, metrics and logs over OTLP; the other with none of it. PERCENT of the
//! requests are traced. In each round, both get REQUESTS plain requests one after the other, then streams whose
//! events arrive in bursts. Printed are the medians over the rounds of the CPU time that the kernel counted for each
//! process, and the median of their ratios.
//!
//! Then a gateway with MODELS models and KEYS keys (10,000 and 100,000 by default), all of whose models were asked, is
//! scraped in both formats, with and without series of accounts and keys.
//!
//! Build the binaries in the same profile before (`cargo build --release -p gateway`), or name another one in
//! `TOLLGATE_TEST_GATEWAY`.

mod catalogue;
mod load;
mod scrapes;

use tests::collector::{Behaviour, Collector};
use tests::priced_model;
use tests::process::{Gateway, Simulator};
use tokio::process::Command;

use crate::catalogue::Sizes;
use crate::load::{Kind, Load};

/// The arguments, with their defaults.
struct Arguments {
    rounds: usize,
    requests: usize,
    traced_percent: f64,
    sizes: Sizes,
}

#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u32>().ok());
    let arguments = Arguments {
        rounds: numbers.next().unwrap_or(9) as usize,
        requests: numbers.next().unwrap_or(20_000) as usize,
        traced_percent: numbers.next().unwrap_or(10).into(),
        sizes: Sizes {
            models: numbers.next().unwrap_or(10_000) as usize,
            keys: numbers.next().unwrap_or(100_000) as usize,
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    runtime.block_on(async {
        println!(
            "{} rounds, {} requests each, {} % traced",
            arguments.rounds, arguments.requests, arguments.traced_percent
        );
        let collector = Collector::start(Behaviour::Discard).await;
        let simulator = Simulator::start("/dev/null".as_ref()).await;
        Box::pin(compare(&arguments, &collector, &simulator)).await;
        Box::pin(scrapes::measure(arguments.sizes, &collector, &simulator)).await;
    });
}

/// Turns all observation on. The log goes to a pipe, as with a service manager.
fn observe(command: &mut Command, collector: &Collector, traced_percent: f64) {
    command.args(["--metrics-listen", "127.0.0.1:0", "--access-log", "on"]);
    command.args(["--log-format", "json", "--otlp-metrics-seconds", "10"]);
    command.args(["--otlp-endpoint", &collector.http]);
    command.args(["--otlp-trace-ratio", &(traced_percent / 100.0).to_string()]);
}

/// Compares the CPU time of requests with and without observation.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
async fn compare(arguments: &Arguments, collector: &Collector, simulator: &Simulator) {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory can be made"));
    let observed = Gateway::start(dirs[0].path(), |command| {
        observe(command.args(["--workers", "1"]), collector, arguments.traced_percent);
    })
    .await;
    let plain = Gateway::start(dirs[1].path(), |command| {
        command.args(["--workers", "1", "--log", "warn,gateway::app=info"]);
    })
    .await;
    let mut loads = Vec::new();
    for (gateway, dir) in [(&observed, &dirs[0]), (&plain, &dirs[1])] {
        let operator = tests::drill::rig::operator(gateway, dir.path()).await;
        let upstream = proto::v1::Upstream {
            name: "measured".to_owned(),
            url: simulator.url.clone(),
            ..Default::default()
        };
        operator.add_upstream(upstream).await;
        let mut model = priced_model("measured", &[("measured", "sim-chat")]);
        // Free, so that no balance ends.
        model.price = None;
        operator.add_model(model).await;
        loads.push(Load::connect(gateway.http, &operator.key().await.secret).await);
    }
    for kind in [Kind::Plain, Kind::Burst] {
        let count = kind.count(arguments.requests);
        let mut rounds = Vec::new();
        // The first round warms up.
        for round in 0..=arguments.rounds {
            let mut costs = [0.0; 2];
            // Which one is first alternates, so that a drift of the machine does not favour one.
            for side in [round % 2, (round + 1) % 2] {
                let gateway = [&observed, &plain][side];
                let begun = cpu_seconds(gateway.id());
                loads[side].send(kind, "measured", count).await;
                if side == 0 {
                    scrapes::scrape(&observed, scrapes::OPEN_METRICS).await;
                }
                costs[side] = cpu_seconds(gateway.id()) - begun;
            }
            rounds.push(costs);
        }
        rounds.remove(0);
        let units = kind.units(count);
        let micros = |side: usize| {
            median(rounds.iter().map(|costs: &[f64; 2]| costs[side]).collect()) * 1e6 / units
        };
        let ratio = median(rounds.iter().map(|[on, off]| on / off).collect());
        println!(
            "{:14} on {:7.1} µs, off {:7.1} µs of CPU time, ratio {ratio:.3}",
            kind.unit(),
            micros(0),
            micros(1)
        );
    }
    plain.stop().await;
    observed.stop().await;
}

/// Returns the CPU time that a process has used, with all its threads.
fn cpu_seconds(process: u32) -> f64 {
    /// The unit in which Linux states it, on each architecture.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let text = text.expect("the process runs");
    // The name in parentheses may contain spaces.
    let (_, fields) = text.rsplit_once(") ").expect("the name is in parentheses");
    let ticks = |field: &str| field.parse::<u32>().expect("a number of ticks");
    let used: u32 = fields.split(' ').skip(11).take(2).map(ticks).sum();
    f64::from(used) / TICKS_PER_SECOND
}

/// Returns the median of these numbers; zero if there are none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}
