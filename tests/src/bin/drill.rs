//! `drill`: puts the real gateway under load and faults, and reports lost and duplicated data.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use domain::durability::Durability;
use gateway::clock::{Entropy, SystemEntropy};
use tests::drill::clients_gone::{ClientCounts, ClientsGone};
use tests::drill::crash::{Crash, CrashLoad, KillTime};
use tests::drill::deployment::Transport;
#[cfg(target_os = "linux")]
use tests::drill::disk_full::{Disk, DiskFull};
use tests::drill::edge::{EdgeSettings, HostileClients};
use tests::drill::failover::{Failover, FailoverSettings};
use tests::drill::fleet::{Fault, FleetDrill, FleetSettings};
use tests::drill::hostile::{Attack, AttackKind, Hostile};
use tests::drill::overspend::Overspend;
use tests::drill::round::{Drill, Total};
use tests::drill::upstream::{HostileUpstreams, UpstreamSettings};

/// Puts the real gateway under load and faults, and reports lost and duplicated data.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    drill: Command,
    /// How many rounds to run
    #[arg(long, default_value_t = 10, global = true)]
    rounds: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Kill the gateway under load, restart it and reconcile the three logs; finally tamper with
    /// copies of the data to check that the reconciliation detects it
    Crash(CrashArgs),
    /// Send more requests at once than the balance pays for, and every spelling of a cap to
    /// upstreams that accept each of them
    Overspend {
        /// How many requests are sent at once
        #[arg(long, default_value_t = 1_000)]
        requests: usize,
    },
    /// Disconnect from the gateway before, during and after its answers, in every way that TCP
    /// allows
    ClientsGone {
        /// How many concurrent clients there are
        #[arg(long, default_value_t = 32)]
        clients: usize,
        /// How many requests each client sends
        #[arg(long, default_value_t = 40)]
        requests: usize,
    },
    /// Attack the gateway in every way at once (endless bodies in tiny chunks, silent connections,
    /// a revoked key, endless streams, unread answers) and send honest requests meanwhile
    Hostile {
        /// The duration, in seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// How many attackers of each kind there are; ten times as many silent connections
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// Run only these kinds of attackers
        #[arg(long, value_delimiter = ',')]
        only: Vec<AttackKind>,
        /// How long honest requests may take, in percent of their time without the attack; 0 for no
        /// limit
        #[arg(long, default_value_t = 120)]
        max_slowdown: usize,
    },
    /// Serve an honest client beside connections that stall, flood, reset and break the protocol,
    /// one kind after the other
    Edge {
        /// How many connections of each kind there are in a round
        #[arg(long, default_value_t = 2_000)]
        connections: usize,
        /// How many of them are open at a time
        #[arg(long, default_value_t = 500)]
        concurrent: usize,
        /// How long a connection that the gateway does not close stays open, in milliseconds
        #[arg(long, default_value_t = 1_000)]
        hold_ms: u64,
        /// How long it pauses after each burst of a flood, in milliseconds
        #[arg(long, default_value_t = 20)]
        pause_ms: u64,
    },
    /// Kill, hang and slow down one of two deployments under load
    Failover {
        /// How many concurrent clients there are
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// How long each fault lasts, in seconds
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// How long a deployment may take to answer, in milliseconds
        #[arg(long, default_value_t = 500)]
        deadline_ms: u64,
        /// How the gateway reaches the deployments
        #[arg(long, value_enum, default_value_t = Transport::Plain)]
        transport: Transport,
    },
    /// Run three gateways on one PostgreSQL database under load, with one fault in each round: of a
    /// gateway (a kill, a suspension, a partition, a removal, a rolling restart) or of the database
    /// (out of reach, a crash, a standby that takes over). Starts its own server, or uses that in
    /// `TOLLGATE_TEST_POSTGRES` if the programs of PostgreSQL are missing
    Fleet {
        /// How many concurrent clients each gateway has
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// How long no gateway reaches the database while no client may notice, in seconds
        #[arg(long, default_value_t = 20)]
        store_outage_seconds: u64,
        /// Use only these faults
        #[arg(long, value_delimiter = ',')]
        only: Vec<Fault>,
        /// How many seconds the clock of one gateway is ahead, and that of another one behind
        #[arg(long, default_value_t = 300)]
        clock_skew_seconds: i64,
        /// The directory with the programs of PostgreSQL; by default the newest version in
        /// `/usr/lib/postgresql`
        #[arg(long)]
        postgres_bin: Option<PathBuf>,
        /// Repeats the random choices of an earlier run
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Serve requests from upstreams that stall, cut, reset and break the protocol
    Upstream {
        /// How many requests are sent in a round
        #[arg(long, default_value_t = 10_000)]
        requests: usize,
        /// How many concurrent clients there are
        #[arg(long, default_value_t = 16)]
        clients: usize,
        /// How many seconds a request may take; its deadlines add up to 2.5
        #[arg(long, default_value_t = 10)]
        max_wait_seconds: u64,
        /// Repeats the random choices of an earlier run
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Fill the gateway's disk under load, and free it again
    #[cfg(target_os = "linux")]
    DiskFull {
        /// Use an ordinary file system with a limit on file sizes, instead of a tmpfs of 256 MiB,
        /// which needs the right to create user namespaces
        #[arg(long)]
        limit_files: bool,
    },
}

#[derive(Debug, clap::Args)]
struct CrashArgs {
    /// How many concurrent clients there are
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// The shortest time before a kill, in milliseconds
    #[arg(long, default_value_t = 200)]
    at_least_ms: u64,
    /// The longest time before a kill, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    at_most_ms: u64,
    /// Run it with durability = "power": every commit waits for the disk
    #[arg(long)]
    power: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { drill, rounds } = Cli::parse();
    let good = match drill {
        Command::Crash(args) => crash(args, rounds).await,
        Command::Overspend { requests } => {
            play(&mut Overspend::prepare(requests, rounds.clamp(1, 10)).await, rounds).await
        }
        Command::ClientsGone { clients, requests } => {
            play(&mut ClientsGone::prepare(ClientCounts { clients, requests }).await, rounds).await
        }
        Command::Hostile { seconds, clients, only, max_slowdown } => {
            let max_slowdown = (max_slowdown > 0).then_some(max_slowdown);
            let kinds = if only.is_empty() { AttackKind::value_variants().to_vec() } else { only };
            let duration = Duration::from_secs(seconds);
            let attack = Attack { duration, kinds, clients, max_slowdown };
            play(&mut Hostile::prepare(attack).await, rounds).await
        }
        Command::Edge { connections, concurrent, hold_ms, pause_ms } => {
            let hold = Duration::from_millis(hold_ms);
            let pause = Duration::from_millis(pause_ms);
            let settings = EdgeSettings { connections, concurrent: concurrent.max(1), hold, pause };
            play(&mut HostileClients::prepare(settings).await, rounds).await
        }
        Command::Failover { clients, seconds, deadline_ms, transport } => {
            let phase = Duration::from_secs(seconds);
            let settings = FailoverSettings { clients, phase, deadline_ms, transport };
            play(&mut Failover::prepare(settings).await, rounds).await
        }
        Command::Fleet {
            clients,
            store_outage_seconds,
            only,
            clock_skew_seconds,
            postgres_bin,
            seed,
        } => {
            let settings = FleetSettings {
                clients,
                store_outage: Duration::from_secs(store_outage_seconds),
                faults: if only.is_empty() { Fault::ALL.to_vec() } else { only },
                clock_skew_seconds,
                postgres_bin,
                seed: seed.unwrap_or_else(random_seed),
            };
            fleet(settings, rounds).await
        }
        Command::Upstream { requests, clients, max_wait_seconds, seed } => {
            let max_wait = Some(Duration::from_secs(max_wait_seconds));
            let seed = seed.unwrap_or_else(random_seed);
            let settings = UpstreamSettings { requests, clients: clients.max(1), max_wait, seed };
            play(&mut HostileUpstreams::prepare(settings).await, rounds).await
        }
        #[cfg(target_os = "linux")]
        Command::DiskFull { limit_files } => {
            let disk = if limit_files { Disk::Limited } else { Disk::ROOMY };
            play(&mut DiskFull::prepare(disk).await, rounds).await
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns a random seed, and prints it.
#[expect(clippy::print_stdout, reason = "this is a report")]
fn random_seed() -> u64 {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    let seed = u64::from_ne_bytes(random);
    println!("--seed {seed} repeats the choices of this run");
    seed
}

/// Runs all rounds, and returns whether there was no difference.
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
async fn fleet(settings: FleetSettings, rounds: usize) -> bool {
    let Some(mut drill) = FleetDrill::prepare(settings).await else {
        println!(
            "neither the programs of PostgreSQL are installed, nor is TOLLGATE_TEST_POSTGRES set: it must be the URL of a database whose server allows to create others; or no fault is left"
        );
        return false;
    };
    let good = play(&mut drill, rounds).await;
    drill.finish().await;
    good
}

#[expect(clippy::print_stdout, reason = "this is a report")]
async fn crash(args: CrashArgs, rounds: usize) -> bool {
    let (from, to) = (args.at_least_ms, args.at_most_ms);
    let kill = KillTime::Between(Duration::from_millis(from), Duration::from_millis(to));
    let durability = if args.power { Durability::Power } else { Durability::Process };
    let mut drill = Crash::prepare(CrashLoad { clients: args.clients, kill, durability }).await;
    let mut good = play(&mut drill, rounds).await;
    for (tampering, differences) in drill.tamper().await {
        println!("control: {tampering} makes {differences} differences");
        good &= tampering.is_seen_in(differences);
    }
    good
}
