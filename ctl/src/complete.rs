//! How a half-typed command line may go on: words of the command tree, and names that the gateway
//! knows. The script of `ctl completions` asks for it at each press of the key.
//!
//! Start at [`complete`]. A gateway that does not answer soon has no names to offer; it never fails.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::{Command, CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};
use proto::client::Connection;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::{
    ListAccountsRequest, ListKeysRequest, ListModelsRequest, ListPlansRequest, ListSessionsRequest,
    ListUpstreamsRequest,
};

use crate::cli::{Cli, Globals};
use crate::connect;
use crate::error::Failure;
use crate::profile::Environment;

/// The variable by which a shell's script says that it is not a command that it runs.
const VARIABLE: &str = "COMPLETE";

/// Completes the line for which zsh has loaded the script from its `fpath`, as the function `_ctl`: what the
/// script registers is asked from the next time on only.
const ZSH_AUTOLOAD: &str = "\
if [[ ${funcstack[1]} == _ctl ]]; then
    _clap_dynamic_completer_ctl \"$@\"
fi
";

/// How long a person waits for names.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noun {
    Account,
    Key,
    Model,
    Plan,
    Profile,
    Session,
    Upstream,
}

/// Writes how the command line may go on, for the shell that `environment` names; the words of the
/// line are after `--` in `args`. Without words it writes the script that asks.
///
/// # Errors
/// The shell is not known, or `out` takes nothing.
pub fn complete(
    args: impl IntoIterator<Item = OsString>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let name = environment.complete.as_deref().unwrap_or_default();
    let shells = Shells::builtins();
    let completer = shells
        .completer(name.rsplit('/').next().unwrap_or_default())
        .ok_or_else(|| Failure::usage(format!("there are no completions for `{name}`")))?;
    let words: Vec<_> = args.into_iter().skip_while(|word| word != "--").skip(1).collect();
    if words.is_empty() {
        return Ok(out.write_all(registration(completer)?.as_bytes())?);
    }
    let source = Source { environment: environment.clone(), globals: typed(&words) };
    let mut command = with_names(Cli::command(), "", &Arc::new(source));
    command.build();
    Ok(completer.write_complete(&mut command, words, None, out)?)
}

/// Returns the script that makes a shell ask.
pub(crate) fn registration(completer: &dyn EnvCompleter) -> Result<String, Failure> {
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "ctl", "ctl", "ctl", &mut script)?;
    if completer.is("zsh") {
        script.extend_from_slice(ZSH_AUTOLOAD.as_bytes());
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The global options in what has been typed so far, as far as it can be read.
fn typed(words: &[OsString]) -> Globals {
    let read = |command: Command| {
        let matches = command.ignore_errors(true).try_get_matches_from(words).ok()?;
        Globals::from_arg_matches(&matches).ok()
    };
    read(Cli::command()).unwrap_or_default()
}

/// Has every argument that names something complete to the names that there are.
fn with_names(command: Command, path: &str, source: &Arc<Source>) -> Command {
    command
        .mut_args(|arg| match noun(path, arg.get_id().as_str()) {
            Some(noun) => {
                let source = source.clone();
                let find = move |typed: &OsStr| source.candidates(noun, typed);
                arg.add(ArgValueCompleter::new(find))
            }
            None => arg,
        })
        .mut_subcommands(|inner| {
            let path = format!("{path} {}", inner.get_name());
            with_names(inner, path.trim_start(), source)
        })
}

/// What an argument of a command names, if it is something that has a name already.
fn noun(command: &str, argument: &str) -> Option<Noun> {
    match (command, argument) {
        ("login" | "register" | "quickstart" | "upstream add" | "model add", _) => None,
        (_, "account") => Some(Noun::Account),
        (_, "key") | ("key rotate" | "key revoke", "id") => Some(Noun::Key),
        (_, "model" | "models") | ("model show" | "model update" | "model remove", "id") => {
            Some(Noun::Model)
        }
        (_, "plan") | ("plan show" | "plan set", "name") => Some(Noun::Plan),
        (_, "gateway")
        | ("profile show" | "profile use" | "profile set" | "profile remove", "name") => {
            Some(Noun::Profile)
        }
        ("session revoke", "id") => Some(Noun::Session),
        ("upstream update" | "upstream remove", "name") | (_, "deployments") => {
            Some(Noun::Upstream)
        }
        _ => None,
    }
}

/// Where names come from.
struct Source {
    environment: Environment,
    globals: Globals,
}

// === impl Source ===

impl Source {
    /// Finds the names that begin as it was typed.
    fn candidates(&self, noun: Noun, typed: &OsStr) -> Vec<CompletionCandidate> {
        let typed = typed.to_string_lossy();
        let fits = |(name, help): (String, String)| {
            let candidate = CompletionCandidate::new(&name);
            name.starts_with(&*typed)
                .then(|| candidate.help((!help.is_empty()).then(|| help.into())))
        };
        self.names(noun).unwrap_or_default().into_iter().filter_map(fits).collect()
    }

    /// The names of all that there are, each with a word on what it is.
    fn names(&self, noun: Noun) -> Option<Vec<(String, String)>> {
        if noun == Noun::Profile {
            let file = self.environment.profile_file().ok()?;
            return Some(file.profiles.into_iter().map(|(name, it)| (name, it.server)).collect());
        }
        // The shell waits, and the caller may be inside a runtime: this one is of its own thread.
        let ask = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime
                .block_on(async { tokio::time::timeout(PATIENCE, self.ask(noun)).await.ok()?.ok() })
        };
        std::thread::scope(|scope| scope.spawn(ask).join().ok().flatten())
    }

    async fn ask(&self, noun: Noun) -> Result<Vec<(String, String)>, Failure> {
        let endpoint = self.environment.choose(self.globals.choice())?;
        names(noun, connect(&endpoint).await?).await
    }
}

/// Asks the gateway for the names of all that there are.
async fn names(noun: Noun, gateway: Connection) -> Result<Vec<(String, String)>, Failure> {
    Ok(match noun {
        Noun::Account => {
            let request = ListAccountsRequest { page_size: 1_000, page_token: String::new() };
            let answer = AccountServiceClient::new(gateway).list_accounts(request).await?;
            answer.into_inner().accounts.into_iter().map(|it| (it.name, it.plan)).collect()
        }
        Noun::Key => {
            let request = ListKeysRequest { account: String::new() };
            let answer = KeyServiceClient::new(gateway).list_keys(request).await?;
            answer.into_inner().keys.into_iter().map(|it| (it.id, it.label)).collect()
        }
        Noun::Model => {
            let answer = ModelServiceClient::new(gateway).list_models(ListModelsRequest {}).await?;
            answer.into_inner().models.into_iter().map(|it| (it.id, it.display_name)).collect()
        }
        Noun::Plan => {
            let answer = PlanServiceClient::new(gateway).list_plans(ListPlansRequest {}).await?;
            answer.into_inner().plans.into_iter().map(|it| (it.name, String::new())).collect()
        }
        Noun::Session => {
            let request = ListSessionsRequest {};
            let answer = AccountServiceClient::new(gateway).list_sessions(request).await?;
            answer.into_inner().sessions.into_iter().map(|it| (it.id, String::new())).collect()
        }
        Noun::Upstream => {
            let request = ListUpstreamsRequest {};
            let answer = UpstreamServiceClient::new(gateway).list_upstreams(request).await?;
            answer.into_inner().upstreams.into_iter().map(|it| (it.name, it.url)).collect()
        }
        Noun::Profile => Vec::new(),
    })
}
