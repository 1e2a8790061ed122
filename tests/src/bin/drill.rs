//! `drill`: puts the real gateway under load while something goes wrong, and says what was lost.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use domain::durability::Durability;
use tests::drill::clients_gone::{ClientsGone, Crowd};
use tests::drill::crash::{Crash, Kill, Pressure};
#[cfg(target_os = "linux")]
use tests::drill::disk_full::{Disk, DiskFull};
use tests::drill::hostile::{Attack, Hostile, Kind};
use tests::drill::overspend::Overspend;
use tests::drill::round::{Drill, Total};

/// Puts the real gateway under load while something goes wrong, and says what was lost.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    drill: Name,
    /// How many times it goes wrong
    #[arg(long, default_value_t = 10, global = true)]
    rounds: usize,
}

#[derive(Debug, Subcommand)]
enum Name {
    /// Kill the gateway in mid-load, start it again, and hold the three logs against each other; in
    /// the end, tamper with copies of what is left to see that it would have been found
    Crash(CrashArgs),
    /// Send more requests at once than the balance pays for, and every spelling of a cap to upstreams that
    /// honour each one
    Overspend {
        /// How many requests are sent at once
        #[arg(long, default_value_t = 1_000)]
        requests: usize,
    },
    /// Leave the gateway alone before, in and after its answers, in every way that TCP has
    ClientsGone {
        /// How many clients come at once
        #[arg(long, default_value_t = 32)]
        clients: usize,
        /// How many times each comes
        #[arg(long, default_value_t = 40)]
        requests: usize,
    },
    /// Attack the gateway in every way at once: bodies in crumbs, silent connections, a revoked key, endless
    /// streams, answers that nobody reads; and ask honest questions meanwhile
    Hostile {
        /// How long, in seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// How many attackers of each kind there are; ten times as many that say nothing
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// Leave out all attackers but these
        #[arg(long, value_delimiter = ',')]
        only: Vec<Kind>,
        /// How long honest requests may take, in percent of what they take undisturbed; 0 for no limit
        #[arg(long, default_value_t = 120)]
        max_slowdown: usize,
    },
    /// Fill the gateway's disk under load, and make room again
    #[cfg(target_os = "linux")]
    DiskFull {
        /// Instead of a file system of 256 MiB, which takes the right to make user namespaces, use an
        /// ordinary one on which no file may grow
        #[arg(long)]
        limit_files: bool,
    },
}

#[derive(Debug, clap::Args)]
struct CrashArgs {
    /// How many clients ask at once
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// The shortest time before a kill, in milliseconds
    #[arg(long, default_value_t = 200)]
    at_least_ms: u64,
    /// The longest time before a kill, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    at_most_ms: u64,
    /// Run it with durability = "power": everything waits for the disk
    #[arg(long)]
    power: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { drill, rounds } = Cli::parse();
    let good = match drill {
        Name::Crash(args) => crash(args, rounds).await,
        Name::Overspend { requests } => {
            play(&mut Overspend::prepare(requests, rounds.clamp(1, 10)).await, rounds).await
        }
        Name::ClientsGone { clients, requests } => {
            play(&mut ClientsGone::prepare(Crowd { clients, requests }).await, rounds).await
        }
        Name::Hostile { seconds, clients, only, max_slowdown } => {
            let max_slowdown = (max_slowdown > 0).then_some(max_slowdown);
            let kinds = if only.is_empty() { Kind::value_variants().to_vec() } else { only };
            let duration = Duration::from_secs(seconds);
            let attack = Attack { duration, kinds, clients, max_slowdown };
            play(&mut Hostile::prepare(attack).await, rounds).await
        }
        #[cfg(target_os = "linux")]
        Name::DiskFull { limit_files } => {
            let disk = if limit_files { Disk::Limited } else { Disk::ROOMY };
            play(&mut DiskFull::prepare(disk).await, rounds).await
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays all rounds, and returns whether no difference was found.
#[expect(clippy::print_stdout, reason = "this is a report")]
async fn play(drill: &mut impl Drill, rounds: usize) -> bool {
    let mut total = Total::default();
    for number in 1..=rounds {
        let round = drill.round().await;
        println!("round {number:3}: {round}");
        total.add(&round);
    }
    println!("{total}");
    total.differences == 0
}

#[expect(clippy::print_stdout, reason = "this is a report")]
async fn crash(args: CrashArgs, rounds: usize) -> bool {
    let (from, to) = (args.at_least_ms, args.at_most_ms);
    let kill = Kill::Between(Duration::from_millis(from), Duration::from_millis(to));
    let durability = if args.power { Durability::Power } else { Durability::Process };
    let mut drill = Crash::prepare(Pressure { clients: args.clients, kill, durability }).await;
    let mut good = play(&mut drill, rounds).await;
    for (sabotage, differences) in drill.sabotage().await {
        println!("control: {sabotage} makes {differences} differences");
        good &= sabotage.is_seen_in(differences);
    }
    good
}
