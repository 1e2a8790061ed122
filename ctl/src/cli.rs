//! The command tree and its help texts, as clap types. It has no behaviour.
//!
//! One file per noun; [`value`] parses times, durations, deployments and enum values.

pub(crate) mod account;
pub(crate) mod agent_config;
pub(crate) mod audit;
pub(crate) mod catalogue;
pub(crate) mod doctor;
pub(crate) mod key;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod model;
pub(crate) mod node;
pub(crate) mod operator_token;
pub(crate) mod people;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod seal;
pub(crate) mod session;
pub(crate) mod top;
pub(crate) mod traffic;
pub(crate) mod upstream;
pub(crate) mod usage;
pub(crate) mod value;
pub(crate) mod webhook;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::output::Format;
use crate::profile::EndpointFlags;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "ctl",
    version,
    long_version = version::LONG,
    about = "Administer a Tollgate gateway",
    arg_required_else_help = true,
    after_help = "Example:\n  ctl quickstart\n\n\
        Exit codes: 0 ok, 1 failed, 2 usage, 3 not signed in or not allowed, 4 not found, \
        5 conflict, 6 unavailable"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    #[arg(long, global = true, value_name = "URL", help = HELP_SERVER)]
    pub(crate) server: Option<String>,
    #[arg(long, global = true, value_name = "PROFILE", conflicts_with = "server", help = HELP_GATEWAY)]
    pub(crate) gateway: Option<String>,
    #[arg(long, global = true, value_name = "FILE", help = HELP_TOKEN_FILE)]
    pub(crate) token_file: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE", help = HELP_CA_FILE)]
    pub(crate) ca_file: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE", help = HELP_IDENTITY_FILE)]
    pub(crate) identity_file: Option<PathBuf>,
    #[arg(
        short, long, global = true, value_enum, value_name = "FORMAT",
        default_value_t = Format::Table, hide_possible_values = true, help = HELP_OUTPUT
    )]
    pub(crate) output: Format,
    #[arg(long, global = true, value_name = "KEY", help = HELP_IDEMPOTENCY_KEY)]
    pub(crate) idempotency_key: Option<String>,
    /// Print only data and errors, and only names instead of tables
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Skip confirmations, and overwrite existing files
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
}

impl Globals {
    /// Returns the flags that select the gateway and the token.
    pub(crate) fn endpoint_flags(&self) -> EndpointFlags<'_> {
        EndpointFlags {
            server: self.server.as_deref(),
            profile: self.gateway.as_deref(),
            token_file: self.token_file.as_deref(),
            ca_file: self.ca_file.as_deref(),
            identity_file: self.identity_file.as_deref(),
        }
    }
}

const HELP_SERVER: &str = "Admin address of the gateway: http://HOST:PORT, https://HOST:PORT or \
    unix:/PATH [env: TOLLGATE_SERVER]";
const HELP_GATEWAY: &str = "Profile of the gateway [env: TOLLGATE_PROFILE]";
const HELP_CA_FILE: &str =
    "CA certificates to trust instead of the host's, in PEM [env: TOLLGATE_CA_FILE]";
const HELP_IDENTITY_FILE: &str = "Certificate and private key in PEM, for a gateway that demands a \
    client certificate [env: TOLLGATE_IDENTITY_FILE]";
const HELP_TOKEN_FILE: &str =
    "File that holds the access token [env: TOLLGATE_TOKEN_FILE, or the token in TOLLGATE_TOKEN]";
const HELP_IDEMPOTENCY_KEY: &str = "Apply a change at most once per KEY and day, however often the \
    command runs [default: a new key for each run]";
const HELP_OUTPUT: &str = "Output format: table, json, jsonl or csv";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Get started: create an account and a key, and print working client code
    #[command(after_help = "Example:\n  ctl quickstart\n  \
        ctl quickstart --model sim-chat\n  \
        ctl quickstart --name alice --password-stdin -o json < password.txt")]
    Quickstart(Quickstart),
    /// Print the configuration of a coding agent, or check that it works
    #[command(
        after_help = "Example:\n  ctl agent-config codex > ~/.codex/tollgate.config.toml && codex --profile tollgate\n  \
        ctl agent-config opencode --model llama3 > opencode.json\n  \
        TOLLGATE_API_KEY=$(ctl key create codex --quiet) ctl agent-config codex --check"
    )]
    AgentConfig(agent_config::AgentConfig),
    /// Create an account
    #[command(after_help = "Example:\n  ctl register alice --password-stdin < password.txt")]
    Register(Register),
    /// Sign in; stores the session for the server, or in --token-file
    #[command(after_help = "Example:\n  ctl login alice\n  \
        ctl login alice --password-stdin --token-file alice.token < password.txt\n  \
        ctl login alice --reset-code tgr-1 --password-stdin < password.txt")]
    Login(Login),
    /// Sign out and delete the stored token
    #[command(after_help = "Example:\n  ctl logout")]
    Logout,
    /// Show the account you are signed in to
    #[command(after_help = "Example:\n  ctl whoami -o json")]
    Whoami,
    /// Manage accounts: balance, limits, credit, status, plan, password
    #[command(subcommand, after_help = "Example:\n  ctl account list")]
    Account(account::AccountCommand),
    /// Manage plans: the credit, limits and models of accounts
    #[command(subcommand, after_help = "Example:\n  ctl plan show free")]
    Plan(plan::PlanCommand),
    /// List and revoke your sessions
    #[command(subcommand, after_help = "Example:\n  ctl session revoke --others")]
    Session(session::SessionCommand),
    /// Manage API keys: create, list, rotate, revoke
    #[command(subcommand, after_help = "Example:\n  KEY=$(ctl key create ci --quiet)")]
    Key(key::KeyCommand),
    /// Manage the models that clients can request
    #[command(subcommand, after_help = "Example:\n  ctl model list")]
    Model(model::ModelCommand),
    /// Explain where requests are sent
    #[command(subcommand, after_help = "Example:\n  ctl route explain llama3")]
    Route(route::RouteCommand),
    /// Manage upstreams: the chat servers behind the gateway
    #[command(subcommand, after_help = "Example:\n  ctl upstream list")]
    Upstream(upstream::UpstreamCommand),
    /// Manage nodes: the gateways that share a PostgreSQL database (operators only)
    #[command(subcommand, after_help = "Example:\n  ctl node list")]
    Node(node::NodeCommand),
    /// Manage the operator token: rotate, disable, enable (owners only)
    #[command(subcommand, after_help = "Example:\n  ctl operator-token rotate")]
    OperatorToken(operator_token::OperatorTokenCommand),
    /// Show usage and cost: in total, by model, by day and by key
    #[command(after_help = "Example:\n  ctl usage\n  ctl usage --since 7d --model gpt-5 -o json")]
    Usage(usage::Usage),
    /// Show current traffic and the last hour
    #[command(after_help = "Example:\n  ctl traffic --watch\n  ctl traffic --account '*' -o json")]
    Traffic(traffic::Traffic),
    /// Show the load of the gateway, refreshed: rates, latency, models, accounts, upstreams (operators only)
    #[command(after_help = "Example:\n  ctl top\n  ctl top --once -o json")]
    Top(top::Top),
    /// Query request records: list, show, follow, export
    #[command(
        subcommand,
        after_help = "Example:\n  ctl request tail --filter 'status:failed cost>0.01'"
    )]
    Request(request::RequestCommand),
    /// Query the audit log: who changed what, and when
    #[command(subcommand, after_help = "Example:\n  ctl audit list --since 7d")]
    Audit(audit::AuditCommand),
    /// List ledger entries and verify balances
    #[command(subcommand, after_help = "Example:\n  ctl ledger verify")]
    Ledger(ledger::LedgerCommand),
    /// Apply a catalogue file: plans, upstreams and models (operators only)
    #[command(after_help = "Example:\n  ctl apply -f catalogue.toml --dry-run\n  \
        ctl apply -f catalogue.toml --prune --yes\n\n\
        Each entry in the file is complete: omitted fields get their defaults. Entries that are missing \
        from the file stay, unless --prune is given.")]
    Apply(catalogue::Apply),
    /// Print plans, upstreams and models as a catalogue file (operators only)
    #[command(after_help = "Example:\n  ctl export > catalogue.toml\n\n\
        The file contains no secrets: a credential stored in the gateway is exported as `sealed`, and \
        applying the file leaves it unchanged.")]
    Export,
    /// Diagnose problems on this host and, for operators, in the gateway
    #[command(after_help = "Example:\n  ctl doctor\n  ctl doctor --send-requests -o json\n\n\
        Exits with 1 if it finds a problem.")]
    Doctor(doctor::Doctor),
    /// Manage profiles: named gateways
    #[command(
        subcommand,
        after_help = "Example:\n  ctl profile set prod --server https://gate.example:8081\n  \
        ctl profile use prod"
    )]
    Profile(profile::ProfileCommand),
    /// Back up the database of the running gateway (operators only)
    #[command(
        after_help = "Example:\n  ctl backup tollgate-$(date +%F).db\n  ctl backup - | gzip > tollgate.db.gz\n\n\
        --yes overwrites an existing file. `ctl restore` restores it, together with the original \
        `seal.key`."
    )]
    Backup(Backup),
    /// Restore a backup into a new data directory on this host, and verify it; no gateway has to run
    #[command(after_help = "Example:\n  \
        ctl restore tollgate.db --to /var/lib/tollgate-new --secrets-from /var/lib/tollgate\n\n\
        Runs `gateway restore` of the same directory as ctl, or else of the PATH.")]
    Restore(Restore),
    /// Read the gateway's settings, certificates and credential files again (operators only)
    #[command(after_help = "Example:\n  ctl reload\n\n\
        New connections get the new certificate. Changed settings are validated and named: those of registration, \
        trial credit, CORS and retention apply at once, the others with the next start.")]
    Reload,
    /// Replace the key that encrypts stored secrets (operators only)
    #[command(subcommand, after_help = "Example:\n  ctl seal rotate")]
    Seal(seal::SealCommand),
    /// Test the endpoints that are notified of events (operators only)
    #[command(subcommand, after_help = "Example:\n  ctl webhook test")]
    Webhook(webhook::WebhookCommand),
    /// Show the versions of ctl and of the gateway
    #[command(after_help = "Example:\n  ctl version\n  ctl version -o json")]
    Version,
    /// Print the shell completion script
    #[command(after_help = "Example:\n  \
        ctl completions bash > ~/.local/share/bash-completion/completions/ctl\n  \
        ctl completions zsh > ~/.zfunc/_ctl\n  \
        ctl completions fish > ~/.config/fish/completions/ctl.fish")]
    Completions(Completions),
    /// Write the manual pages of all commands
    #[command(after_help = "Example:\n  ctl man ~/.local/share/man/man1\n  ctl man > ctl.1")]
    Man(Man),
}

/// The source of a password.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the password from a line of stdin instead of prompting for it
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// Arguments of `ctl register`.
#[derive(Debug, Args)]
pub(crate) struct Register {
    /// Account name or email address
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) password: Password,
    /// Invite code, if the gateway requires one
    #[arg(long, value_name = "CODE", default_value = "", hide_default_value = true)]
    pub(crate) invite: String,
}

/// Arguments of `ctl login`.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Account name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) password: Password,
    /// Set a new password with a code from an operator first, without the old one; `-` prompts for the code, or
    /// reads it from a first line of stdin, so that other users of this host do not see it
    #[arg(long, value_name = "CODE")]
    pub(crate) reset_code: Option<String>,
}

/// Arguments of `ctl quickstart`.
#[derive(Debug, Args)]
pub(crate) struct Quickstart {
    /// Account to sign in to, or to register, if you are not signed in [default: a generated name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) password: Password,
    /// Label of the new key
    #[arg(long, default_value = "quickstart")]
    pub(crate) label: String,
    /// Model that the code uses, by id or alias [default: the first that answers]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// Base URL of the API for clients [default: as announced by the gateway, see its `public_url`]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
}

/// Arguments of `ctl backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// File to write, readable only by its owner; `-` for stdout, unless it is a terminal
    pub(crate) file: PathBuf,
}

/// Arguments of `ctl restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// File of `ctl backup`, or a file in the directory `backups` of a data directory
    pub(crate) file: PathBuf,
    /// New data directory, which must be empty or missing
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Old data directory, whose `seal.key` and `operator.token` are copied
    #[arg(long, value_name = "DIR")]
    pub(crate) secrets_from: Option<PathBuf>,
}

/// Arguments of `ctl completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell that runs the script
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Arguments of `ctl man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory for one page per command [default: print only the page of ctl to stdout]
    pub(crate) dir: Option<PathBuf>,
}

/// A shell with completion support.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}
