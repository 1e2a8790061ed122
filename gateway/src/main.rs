//! The `gateway` binary: parses the command line, runs a command and returns an exit code.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use gateway::app::{self, InheritedSockets, Listeners, Seams};
use gateway::clock::SystemEntropy;
use gateway::config::{MigrateArgs, RestoreArgs, Settings, SettingsSource, listen_address};
use gateway::connections::descriptors;
use gateway::demo::{self, DemoArgs};
use gateway::programs::Programs;
use gateway::telemetry::LogFormat;
use gateway::{telemetry, welcome};
use simulator::{Simulator, TruthLog};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

// Linked, mimalloc replaces `malloc` on Linux for SQLite and for Rust code. As `#[global_allocator]` it is slower,
// because every allocation passes an alignment. Without transparent huge pages, an idle process takes 17 MB instead
// of 32, and a held stream 37 KB instead of 58; differences in CPU time were within the noise.
use mimalloc as _;

/// The version, the commit, and the schemas that the program migrates databases to.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let schemas = app::SCHEMAS.map(|schema| schema.to_string()).join(", ");
    format!("{}\n{schemas}", version::LONG)
});

/// An OpenAI-compatible gateway with accounts, keys, limits and exact metering.
#[derive(Debug, Parser)]
#[command(version, long_version = LONG_VERSION.as_str(), args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
    /// Log filter, in the syntax of `RUST_LOG` [default: info]
    #[arg(long, global = true, value_name = "FILTER", env = "TOLLGATE_LOG")]
    log: Option<String>,
    /// Format of the log, `human`, `json` or `journald` [default: human on a terminal, journald if systemd's journal takes
    /// it, else json]
    #[arg(long, global = true, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API and the admin plane (the default without a command)
    Serve(Box<ServeCommand>),
    /// Validate the settings, the certificate, and the database with its key, without starting
    Check(Box<ServeArgs>),
    /// Demonstrate the gateway with the built-in simulator, then keep serving
    Demo(DemoArgs),
    /// Upgrade the schema of a stopped gateway's SQLite database, or copy the database into an empty PostgreSQL database
    Migrate(MigrateArgs),
    /// Restore a backup of a SQLite database into a new data directory, and verify it
    Restore(RestoreArgs),
    /// Manage the operator token of a stopped gateway
    #[command(subcommand)]
    OperatorToken(OperatorTokenCommand),
    /// Serve only the built-in simulator, as an upstream for tests
    Simulator(SimulatorArgs),
    /// Write the manual: a page for each command into a directory, or only that of `gateway` to stdout
    Man(ManArgs),
    /// Print a script that completes the commands and flags of `gateway` in a shell
    Completions(CompletionsArgs),
}

#[derive(Debug, Subcommand)]
enum OperatorTokenCommand {
    /// Have the token in the data directory accepted again, after it was disabled or replaced
    Enable(Box<ServeArgs>),
}

#[derive(Debug, clap::Args)]
struct ManArgs {
    /// Directory for the pages
    dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct CompletionsArgs {
    /// Shell that runs the script
    shell: Shell,
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// A TOML file with the settings below; flags and environment variables take precedence
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, clap::Args)]
struct ServeCommand {
    /// Replace the gateway that uses the data directory: take its listening sockets and serve while it finishes its
    /// requests; with PostgreSQL, only after them
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    args: ServeArgs,
}

impl ServeArgs {
    fn source(self) -> SettingsSource {
        SettingsSource { file: self.config, flags: self.settings }
    }
}

#[derive(Debug, clap::Args)]
struct SimulatorArgs {
    /// Listen address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090", value_parser = listen_address)]
    listen: SocketAddr,
    /// Append requests and responses to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    truth_log: Option<PathBuf>,
    /// Seed of the generated responses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    // The first map registers the process for `membarrier`, for which the kernel waits some 10 ms if there are
    // other threads.
    drop(papaya::HashMap::<(), ()>::new());
    match runtime().and_then(|runtime| runtime.block_on(run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the runtime of everything but requests, which have the threads of the workers: the admin plane, the
/// store, and accepting connections.
fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("starting the runtime")
}

async fn run() -> Result<()> {
    let cli = Cli::parse();
    // The demo prints to stdout and logs only warnings by default.
    let demo_filter = matches!(cli.command, Some(Command::Demo(_))).then_some("warn");
    let filter = cli.log.as_deref().or(demo_filter);
    let (log, _log_guard) = telemetry::init(filter, cli.log_format, journal_stream().as_deref())?;
    let seams = Seams { log, ..Seams::default() };
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is already installed"))?;
    handle_file_size_signal()?;
    raise_descriptor_limit();
    let shutdown = shutdown_on_signal()?;
    match cli.command {
        None => serve(cli.serve, seams, shutdown).await,
        Some(Command::Serve(command)) if command.take_over => {
            let preparing = app::take_over(command.args.source());
            let Some(prepared) = shutdown.run_until_cancelled(Box::pin(preparing)).await else {
                anyhow::bail!("stopped by a signal");
            };
            let (config, listeners) = prepared?;
            app::run(&config, listeners, seams, shutdown).await
        }
        Some(Command::Serve(command)) => serve(command.args, seams, shutdown).await,
        Some(Command::Check(args)) => check(*args).await,
        Some(Command::Demo(args)) => {
            Box::pin(demo::run(args, &programs(), &mut std::io::stdout(), shutdown)).await
        }
        Some(Command::Migrate(args)) => {
            let (migration, mut out) = (args.resolve()?, std::io::stdout());
            let migrating = app::migrate(&migration, Arc::new(SystemEntropy), &mut out);
            let ended = shutdown.run_until_cancelled(Box::pin(migrating)).await;
            ended.unwrap_or_else(|| Err(anyhow::anyhow!("stopped by a signal")))
        }
        Some(Command::Restore(args)) => Box::pin(app::restore(&args, &mut std::io::stdout())).await,
        Some(Command::OperatorToken(OperatorTokenCommand::Enable(args))) => {
            let config = args.source().resolve()?;
            Box::pin(app::enable_operator_token(&config, &mut std::io::stdout())).await
        }
        Some(Command::Simulator(args)) => simulate(args, shutdown).await,
        Some(Command::Man(args)) => manual(args.dir.as_deref()),
        Some(Command::Completions(args)) => completions(args.shell),
    }
}

/// Writes the man pages, which are generated from the command-line definition.
fn manual(dir: Option<&Path>) -> Result<()> {
    let mut command = Cli::command().name("gateway").disable_help_subcommand(true);
    command.build();
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return Ok(std::io::stdout().write_all(&page)?);
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .with_context(|| format!("writing the manual to `{}`", dir.display()))
}

/// Prints the completion script of a shell, which is generated from the command-line definition.
fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gateway", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

async fn serve(args: ServeArgs, seams: Seams, shutdown: CancellationToken) -> Result<()> {
    let mut source = args.source();
    let inherited = inherited_sockets()?;
    inherited.set_addresses(&mut source.flags).context("reading the addresses of sockets")?;
    let config = source.resolve()?;
    let listeners = Listeners::bind_rest(inherited, config.listen, config.admin_listen.clone())?;
    let listeners = listeners.with_metrics(config.metrics_listen)?;
    if welcome::is_first_start(&config) {
        let admin = listeners.admin.address()?;
        eprint!("{}", welcome::text(&config, &admin, &programs()));
    }
    app::run(&config, listeners, seams, shutdown).await
}

/// Returns the stream of journald that this process was started with.
#[expect(
    clippy::disallowed_methods,
    reason = "not a setting: it describes what the process was started with"
)]
fn journal_stream() -> Option<String> {
    std::env::var("JOURNAL_STREAM").ok()
}

/// Returns the listening sockets that the service manager passed to this process.
#[expect(
    clippy::disallowed_methods,
    reason = "not a setting: it describes the sockets that the process was started with"
)]
fn inherited_sockets() -> Result<InheritedSockets> {
    InheritedSockets::from_service_manager(std::env::var("LISTEN_FDNAMES").ok().as_deref())
}

/// Validates what `serve` would use with the same arguments, and says so.
async fn check(args: ServeArgs) -> Result<()> {
    let found = app::check(&args.source().resolve()?).await?;
    Ok(writeln!(std::io::stdout(), "{found}")?)
}

/// Returns the programs for printed hints. Only `cargo run` sets `CARGO_PKG_NAME`.
#[expect(
    clippy::disallowed_methods,
    reason = "not a setting: it shows how the process was started"
)]
fn programs() -> Programs {
    if std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME")) {
        return Programs::with_cargo_run();
    }
    Programs::beside(std::env::args_os().next().unwrap_or_default().as_ref())
}

async fn simulate(args: SimulatorArgs, shutdown: CancellationToken) -> Result<()> {
    let truth = match &args.truth_log {
        Some(path) => {
            TruthLog::file(path).with_context(|| format!("opening `{}`", path.display()))?
        }
        None => TruthLog::memory(),
    };
    let simulator = Simulator::new(simulator::Settings { seed: args.seed, truth });
    let listener = tokio::net::TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("listening on {}", args.listen))?;
    tracing::info!(listen = %listener.local_addr()?, "simulating");
    app::run_simulator(listener, simulator, shutdown).await;
    Ok(())
}

/// Handles SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`, systemd's `LimitFSIZE`) fails with an
/// error like one on a full disk. Without a handler, the signal ends the process.
fn handle_file_size_signal() -> Result<()> {
    // The handler stays installed after its stream is dropped.
    _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    Ok(())
}

/// Raises the soft limit on file descriptors, of which each client and upstream connection needs one.
fn raise_descriptor_limit() {
    if let Err(error) = descriptors::raise_limit() {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// Returns a token that the first SIGTERM or SIGINT cancels. A second one ends the process immediately.
///
/// SIGHUP, by which services are asked to reload their configuration, shuts a process down only if it was
/// started on a terminal that no longer exists. It does not affect a shutdown in progress.
fn shutdown_on_signal() -> Result<CancellationToken> {
    let shutdown = CancellationToken::new();
    let (mut terminate, mut interrupt, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    let had_terminal = std::io::stdin().is_terminal();
    let token = shutdown.clone();
    let wait = async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {}
            }
            if had_terminal && std::fs::File::open("/dev/tty").is_err() {
                tracing::info!("the terminal is gone: shutting down");
                break;
            }
        }
        token.cancel();
        // Shells and terminals may send SIGHUP several times: it must not end requests in progress.
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {}
            }
        }
        std::process::exit(130);
    };
    #[expect(clippy::disallowed_methods, reason = "it must run until the end of the process")]
    tokio::spawn(wait);
    Ok(shutdown)
}
