//! Shell completion: commands and options of the command tree, and names of objects in the gateway.
//!
//! The script of `ctl completions` runs this at each completion request. Start at [`complete`]. A
//! gateway that cannot be reached or is too slow yields no names, and is no error.

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
use proto::v1::node_service_client::NodeServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::{
    ListAccountsRequest, ListKeysRequest, ListModelsRequest, ListNodesRequest, ListPlansRequest,
    ListSessionsRequest, ListUpstreamsRequest,
};

use crate::cli::{Cli, Globals};
use crate::connect;
use crate::error::Failure;
use crate::profile::Environment;

/// The environment variable with which the script requests completions instead of running a
/// command.
const VARIABLE: &str = "COMPLETE";

/// Completes the line for which zsh autoloads the script from `fpath` as the function `_ctl`: zsh
/// uses the registered completer only from the next completion on.
const ZSH_AUTOLOAD: &str = "\
if [[ ${funcstack[1]} == _ctl ]]; then
    _clap_dynamic_completer_ctl \"$@\"
fi
";

/// The timeout for fetching names from the gateway, while the user waits for the completion.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The kind of object that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noun {
    Account,
    Key,
    Model,
    Node,
    Plan,
    Profile,
    Session,
    Upstream,
}

/// Writes the completions of a command line, in the format of the shell in
/// [`Environment::complete`].
///
/// The words of the command line follow `--` in `args`. Without words, writes the completion
/// script.
///
/// # Errors
/// The shell is not supported, or writing to `out` fails.
pub fn complete(
    args: impl IntoIterator<Item = OsString>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let name = environment.complete.as_deref().unwrap_or_default();
    let shells = Shells::builtins();
    let completer =
        shells.completer(name.rsplit('/').next().unwrap_or_default()).ok_or_else(|| {
            Failure::usage(format!("there are no completions for the shell `{name}`"))
        })?;
    let words: Vec<_> = args.into_iter().skip_while(|word| word != "--").skip(1).collect();
    if words.is_empty() {
        return Ok(out.write_all(registration_script(completer)?.as_bytes())?);
    }
    let source = NameSource { environment: environment.clone(), globals: parse_globals(&words) };
    let mut command = with_name_completion(Cli::command(), "", &Arc::new(source));
    command.build();
    Ok(completer.write_complete(&mut command, words, None, out)?)
}

/// Returns the completion script of a shell.
pub(crate) fn registration_script(completer: &dyn EnvCompleter) -> Result<String, Failure> {
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "ctl", "ctl", "ctl", &mut script)?;
    if completer.is("zsh") {
        script.extend_from_slice(ZSH_AUTOLOAD.as_bytes());
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Parses the global options of an incomplete command line; the defaults if that fails.
fn parse_globals(words: &[OsString]) -> Globals {
    let parse = |command: Command| {
        let matches = command.ignore_errors(true).try_get_matches_from(words).ok()?;
        Globals::from_arg_matches(&matches).ok()
    };
    parse(Cli::command()).unwrap_or_default()
}

/// Adds a completer to each argument that names an existing object.
fn with_name_completion(command: Command, path: &str, source: &Arc<NameSource>) -> Command {
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
            with_name_completion(inner, path.trim_start(), source)
        })
}

/// Returns the kind of object that an argument names; `None` for other arguments and for new names.
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
        ("node drain" | "node remove", "name") => Some(Noun::Node),
        ("session revoke", "id") => Some(Noun::Session),
        ("upstream show" | "upstream update" | "upstream remove" | "upstream reset", "name")
        | (_, "deployments") => Some(Noun::Upstream),
        _ => None,
    }
}

/// Fetches the names of objects for completion.
struct NameSource {
    environment: Environment,
    globals: Globals,
}

// === impl NameSource ===

impl NameSource {
    /// Returns the names that start with `typed`.
    fn candidates(&self, noun: Noun, typed: &OsStr) -> Vec<CompletionCandidate> {
        let typed = typed.to_string_lossy();
        let fits = |(name, help): (String, String)| {
            let candidate = CompletionCandidate::new(&name);
            name.starts_with(&*typed)
                .then(|| candidate.help((!help.is_empty()).then(|| help.into())))
        };
        self.names(noun).unwrap_or_default().into_iter().filter_map(fits).collect()
    }

    /// Returns the names of all objects of a kind, each with a short description; `None` on any
    /// failure.
    fn names(&self, noun: Noun) -> Option<Vec<(String, String)>> {
        if noun == Noun::Profile {
            let file = self.environment.profile_file().ok()?;
            return Some(file.profiles.into_iter().map(|(name, it)| (name, it.server)).collect());
        }
        // Completers are synchronous, and the caller may already be inside a runtime, so the
        // runtime for the call needs its own thread.
        let fetch = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                tokio::time::timeout(LOOKUP_TIMEOUT, self.fetch(noun)).await.ok()?.ok()
            })
        };
        std::thread::scope(|scope| scope.spawn(fetch).join().ok().flatten())
    }

    async fn fetch(&self, noun: Noun) -> Result<Vec<(String, String)>, Failure> {
        let endpoint = self.environment.resolve_flags(self.globals.endpoint_flags())?;
        list_names(noun, connect(&endpoint).await?).await
    }
}

/// Lists the names of all objects of a kind in the gateway, each with a short description.
async fn list_names(noun: Noun, gateway: Connection) -> Result<Vec<(String, String)>, Failure> {
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
        Noun::Node => {
            let answer = NodeServiceClient::new(gateway).list_nodes(ListNodesRequest {}).await?;
            answer.into_inner().nodes.into_iter().map(|it| (it.name, it.address)).collect()
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
