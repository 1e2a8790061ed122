//! `drill`: puts the real gateway under load while something goes wrong, and says what was lost.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tests::drill::crash::{Crash, Load};

/// Puts the real gateway under load while something goes wrong, and says what was lost.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Debug, Subcommand)]
enum Drill {
    /// Kill the gateway in mid-load, start it again, and hold the three logs against each other
    Crash(CrashArgs),
}

#[derive(Debug, clap::Args)]
struct CrashArgs {
    /// How many times it is killed
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// How many clients ask at once
    #[arg(long, default_value_t = 32)]
    workers: usize,
    /// The shortest time before a kill, in milliseconds
    #[arg(long, default_value_t = 200)]
    at_least_ms: u64,
    /// The longest time before a kill, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    at_most_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let good = match Cli::parse().drill {
        Drill::Crash(args) => crash(args).await,
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "this is a report")]
async fn crash(args: CrashArgs) -> bool {
    let load = Load {
        workers: args.workers,
        at_least: Duration::from_millis(args.at_least_ms),
        at_most: Duration::from_millis(args.at_most_ms),
    };
    let mut drill = Crash::prepare(load).await;
    let (mut slowest, mut upstream, mut interrupted, mut differences) = (Duration::ZERO, 0, 0, 0);
    for _ in 0..args.rounds {
        let round = drill.round().await;
        println!("round {:3}: {}, back after {:.0?}", round.number, round.verdict, round.restart);
        for difference in &round.verdict.differences {
            println!("  {difference}");
        }
        slowest = slowest.max(round.restart);
        upstream += round.verdict.upstream;
        interrupted += round.verdict.interrupted;
        differences += round.verdict.differences.len();
    }
    println!(
        "{} after {} kills: {upstream} requests reached the upstream, {interrupted} were \
            interrupted, {differences} differences, slowest restart to first answer {slowest:.0?}",
        if differences == 0 { "nothing lost, nothing doubled" } else { "the logs differ" },
        args.rounds,
    );
    differences == 0
}
