//! The command tree with its help text; what was typed, nothing of what it does.
//!
//! A file per noun; [`value`] turns words into times, spans, deployments and enums.

pub(crate) mod account;
pub(crate) mod agent_config;
pub(crate) mod audit;
pub(crate) mod catalogue;
pub(crate) mod doctor;
pub(crate) mod key;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod traffic;
pub(crate) mod upstream;
pub(crate) mod usage;
pub(crate) mod value;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::output::Format;
use crate::profile::Choice;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "ctl",
    version,
    about = "Administers a Tollgate gateway",
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

/// What every command takes.
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
    /// How data is printed
    #[arg(
        short, long, global = true, value_enum, value_name = "FORMAT",
        default_value_t = Format::Table, hide_possible_values = true, help = HELP_OUTPUT
    )]
    pub(crate) output: Format,
    #[arg(long, global = true, value_name = "KEY", help = HELP_IDEMPOTENCY_KEY)]
    pub(crate) idempotency_key: Option<String>,
    /// Print data and errors alone, and of tables the names alone
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Ask nothing: do what cannot be undone, and replace files
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
}

impl Globals {
    /// What the command line says of the gateway that is meant and who asks.
    pub(crate) fn choice(&self) -> Choice<'_> {
        Choice {
            server: self.server.as_deref(),
            profile: self.gateway.as_deref(),
            token_file: self.token_file.as_deref(),
            ca_file: self.ca_file.as_deref(),
        }
    }
}

const HELP_SERVER: &str = "The gateway's admin address: http://HOST:PORT, https://HOST:PORT or \
    unix:/PATH [env: TOLLGATE_SERVER]";
const HELP_GATEWAY: &str = "The gateway that a profile names [env: TOLLGATE_PROFILE]";
const HELP_CA_FILE: &str =
    "Authorities to trust instead of the host's, in PEM [env: TOLLGATE_CA_FILE]";
const HELP_TOKEN_FILE: &str =
    "A file with the token to present [env: TOLLGATE_TOKEN_FILE, or the token in TOLLGATE_TOKEN]";
const HELP_IDEMPOTENCY_KEY: &str = "Makes a change once for each KEY, however often the command is \
    run within a day [default: a new one for each run]";
const HELP_OUTPUT: &str = "How data is printed: table, json, jsonl or csv";

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Gets you started: an account, a key, and code that works
    #[command(after_help = "Example:\n  ctl quickstart\n  \
        ctl quickstart --model sim-chat\n  \
        ctl quickstart --name alice --password-stdin -o json < password.txt")]
    Quickstart(Quickstart),
    /// Prints a coding agent's configuration, or checks that one works
    #[command(
        after_help = "Example:\n  ctl agent-config codex > ~/.codex/tollgate.config.toml && codex --profile tollgate\n  \
        ctl agent-config opencode --model llama3 > opencode.json\n  \
        TOLLGATE_API_KEY=$(ctl key create codex --quiet) ctl agent-config codex --check"
    )]
    AgentConfig(agent_config::AgentConfig),
    /// Creates an account
    #[command(after_help = "Example:\n  ctl register alice --password-stdin < password.txt")]
    Register(Register),
    /// Signs in; the session is kept in the profile, or in --token-file
    #[command(after_help = "Example:\n  ctl login alice\n  \
        ctl login alice --password-stdin --token-file alice.token < password.txt")]
    Login(Login),
    /// Ends the session and forgets its token
    #[command(after_help = "Example:\n  ctl logout")]
    Logout,
    /// Shows who you are
    #[command(after_help = "Example:\n  ctl whoami -o json")]
    Whoami,
    /// Accounts: balance, limits, credit, standing, plan, password
    #[command(subcommand, after_help = "Example:\n  ctl account list")]
    Account(account::AccountCommand),
    /// Plans: what an account is entitled to
    #[command(subcommand, after_help = "Example:\n  ctl plan show free")]
    Plan(plan::PlanCommand),
    /// Sessions: where you are signed in
    #[command(subcommand, after_help = "Example:\n  ctl session revoke --others")]
    Session(session::SessionCommand),
    /// API keys: create, list, rotate, revoke
    #[command(subcommand, after_help = "Example:\n  KEY=$(ctl key create ci --quiet)")]
    Key(key::KeyCommand),
    /// Models: the catalogue that clients choose from
    #[command(subcommand, after_help = "Example:\n  ctl model list")]
    Model(model::ModelCommand),
    /// Upstreams: the chat servers that the gateway calls
    #[command(subcommand, after_help = "Example:\n  ctl upstream list")]
    Upstream(upstream::UpstreamCommand),
    /// Usage: tokens and money in total, by model, by day and by key
    #[command(after_help = "Example:\n  ctl usage\n  ctl usage --since 7d --model gpt-5 -o json")]
    Usage(usage::Usage),
    /// Traffic: what goes through the gateway now and in the last hour
    #[command(after_help = "Example:\n  ctl traffic --watch\n  ctl traffic --account '*' -o json")]
    Traffic(traffic::Traffic),
    /// Request records: list, show, follow, export
    #[command(
        subcommand,
        after_help = "Example:\n  ctl request tail --filter 'status:failed cost>0.01'"
    )]
    Request(request::RequestCommand),
    /// The audit log: who changed what, and when
    #[command(subcommand, after_help = "Example:\n  ctl audit list --since 7d")]
    Audit(audit::AuditCommand),
    /// The ledger: what changed a balance, and whether it adds up
    #[command(subcommand, after_help = "Example:\n  ctl ledger verify")]
    Ledger(ledger::LedgerCommand),
    /// Makes plans, upstreams and models as a file says (operators)
    #[command(after_help = "Example:\n  ctl apply -f catalogue.toml --dry-run\n  \
        ctl apply -f catalogue.toml --prune --yes\n\n\
        An entry of the file is whole: what it does not say is the default. Entries that the file does \
        not have stay, unless --prune is given.")]
    Apply(catalogue::Apply),
    /// Prints plans, upstreams and models as such a file (operators)
    #[command(after_help = "Example:\n  ctl export > catalogue.toml\n\n\
        The file holds no secret: a credential that the gateway stores is `sealed` in it, and stays what \
        it is when the file is applied.")]
    Export,
    /// Says what is wrong here and, to operators, in the gateway
    #[command(after_help = "Example:\n  ctl doctor\n  ctl doctor --send-requests -o json\n\n\
        The exit code is 1 if there is a problem.")]
    Doctor(doctor::Doctor),
    /// Profiles: gateways by name
    #[command(
        subcommand,
        after_help = "Example:\n  ctl profile set prod --server https://gate.example:8081\n  \
        ctl profile use prod"
    )]
    Profile(profile::ProfileCommand),
    /// Copies the gateway's database while it serves (operators)
    #[command(
        after_help = "Example:\n  ctl backup tollgate-$(date +%F).db\n  ctl backup - | gzip > tollgate.db.gz\n\n\
        With --yes it replaces a file that is there. To restore: put the file as `tollgate.db` into an empty data directory, with the `seal.key` \
        of the old one."
    )]
    Backup(Backup),
    /// Prints a script for a shell that completes commands and names
    #[command(after_help = "Example:\n  \
        ctl completions bash > ~/.local/share/bash-completion/completions/ctl\n  \
        ctl completions zsh > ~/.zfunc/_ctl\n  \
        ctl completions fish > ~/.config/fish/completions/ctl.fish")]
    Completions(Completions),
    /// Writes the manual pages of all commands
    #[command(after_help = "Example:\n  ctl man ~/.local/share/man/man1\n  ctl man > ctl.1")]
    Man(Man),
}

/// Where a password comes from.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the password from one line of stdin (else it is asked for on the terminal)
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// Input of `ctl register`.
#[derive(Debug, Args)]
pub(crate) struct Register {
    /// A name or an e-mail address
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) password: Password,
    /// The invite code, where the gateway wants one
    #[arg(long, value_name = "CODE", default_value = "", hide_default_value = true)]
    pub(crate) invite: String,
}

/// Input of `ctl login`.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// The account's name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) password: Password,
}

/// Input of `ctl quickstart`.
#[derive(Debug, Args)]
pub(crate) struct Quickstart {
    /// The account to sign in, or to register, if you are not signed in [default: a made-up one]
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) password: Password,
    /// What to call the key
    #[arg(long, default_value = "quickstart")]
    pub(crate) label: String,
    /// The model that the code asks, by id or alias [default: the first that answers]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// Where clients reach the gateway [default: what the gateway says, see its `public_url`]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
}

/// Input of `ctl backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to write, which only its owner may read; `-` for stdout, if that is no terminal
    pub(crate) file: PathBuf,
}

/// Input of `ctl completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Input of `ctl man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to write a page for each command [default: the page of ctl alone, on stdout]
    pub(crate) dir: Option<PathBuf>,
}

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}
