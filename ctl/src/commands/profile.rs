//! `ctl profile …`, and the printed form of profiles.

use serde::Serialize;

use crate::Shell;
use crate::cli::profile::{Named, ProfileCommand, Show};
use crate::error::Failure;
use crate::output::Record;
use crate::profile::{Profile, ProfileFile, TokenSource};

/// A profile, as printed.
#[derive(Serialize)]
struct ProfileRecord {
    /// `None` for a gateway without a profile.
    name: Option<String>,
    server: String,
    ca_file: Option<String>,
    identity_file: Option<String>,
    /// Whether it is the selected gateway.
    current: bool,
    /// The account of the session with the gateway.
    account: Option<String>,
    /// The source of the token; known only for the selected gateway.
    token: Option<&'static str>,
}

/// Runs `ctl profile …`.
pub(super) fn run(shell: &mut Shell<'_>, command: ProfileCommand) -> Result<(), Failure> {
    match command {
        ProfileCommand::List => list(shell),
        ProfileCommand::Show(Show { name: None }) => current(shell),
        ProfileCommand::Show(Show { name: Some(name) }) => show(shell, &name),
        ProfileCommand::Use(input) => use_profile(shell, &input),
        ProfileCommand::Set(input) => set(shell, &input),
        ProfileCommand::Remove(input) => remove(shell, &input),
    }
}

fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let file = shell.environment.profile_file()?;
    let selected = shell.gateway()?.server;
    let records: Vec<_> = file
        .profiles
        .iter()
        .map(|(name, profile)| ProfileRecord::new(Some(name), profile, &file, &selected))
        .collect();
    shell.output.many(&records)
}

/// Shows the selected gateway, with or without a profile.
fn current(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let file = shell.environment.profile_file()?;
    let endpoint = shell.endpoint()?;
    let selected = Profile {
        server: endpoint.server.clone(),
        ca_file: endpoint.ca_file,
        identity_file: endpoint.identity_file,
    };
    let name = file.profiles.iter().find(|(_, profile)| profile.server == selected.server);
    let record = ProfileRecord::new(name.map(|(name, _)| name), &selected, &file, &selected.server);
    let token = Some(match endpoint.source {
        TokenSource::Missing => "none",
        TokenSource::File(_) => "file",
        TokenSource::Variable => "variable",
        TokenSource::Profile => "session",
        TokenSource::Operator => "operator",
    });
    // Any other token takes precedence over the session, and its account is unknown here.
    let account = record.account.filter(|_| endpoint.source == TokenSource::Profile);
    shell.output.one(&ProfileRecord { account, token, ..record })
}

fn show(shell: &mut Shell<'_>, name: &str) -> Result<(), Failure> {
    let file = shell.environment.profile_file()?;
    let selected = shell.gateway()?.server;
    let record = ProfileRecord::new(Some(name), file.profile(name)?, &file, &selected);
    shell.output.one(&record)
}

fn use_profile(shell: &mut Shell<'_>, input: &Named) -> Result<(), Failure> {
    let profile = shell.environment.use_profile(&input.name)?;
    shell.output.note(&format!("{} is now the default: {}", input.name, profile.server));
    if shell.environment.server.is_some() || shell.environment.profile.is_some() {
        shell
            .output
            .note("warning: TOLLGATE_SERVER or TOLLGATE_PROFILE is set and takes precedence");
    }
    Ok(())
}

fn set(shell: &mut Shell<'_>, input: &Named) -> Result<(), Failure> {
    let Some(server) = shell.globals.server.clone() else {
        return Err(Failure::usage("no address is given").advise("give it with --server URL"));
    };
    let absolute = |path: &std::path::PathBuf| {
        std::path::absolute(path).map_err(|error| Failure::file("finding", path, &error))
    };
    let ca_file = shell.globals.ca_file.as_ref().map(absolute).transpose()?;
    let identity_file = shell.globals.identity_file.as_ref().map(absolute).transpose()?;
    let profile = Profile { server, ca_file, identity_file };
    profile.check()?;
    let profile = shell.environment.set_profile(&input.name, profile)?;
    shell.output.note(&format!("{} is {}", input.name, profile.server));
    Ok(())
}

fn remove(shell: &mut Shell<'_>, input: &Named) -> Result<(), Failure> {
    shell.environment.remove_profile(&input.name)?;
    shell.output.note(&format!("removed profile {}", input.name));
    Ok(())
}

// === impl ProfileRecord ===

impl ProfileRecord {
    fn new(
        name: Option<impl AsRef<str>>,
        profile: &Profile,
        file: &ProfileFile,
        selected: &str,
    ) -> Self {
        Self {
            name: name.map(|name| name.as_ref().to_owned()),
            server: profile.server.clone(),
            ca_file: profile.ca_file.as_ref().map(|path| path.display().to_string()),
            identity_file: profile.identity_file.as_ref().map(|path| path.display().to_string()),
            current: profile.server == selected,
            account: file.sessions.get(&profile.server).map(|session| session.account.clone()),
            token: None,
        }
    }
}

impl Record for ProfileRecord {
    const FIELDS: &'static [&'static str] =
        &["name", "server", "ca_file", "identity_file", "current", "account", "token"];
    const COLUMNS: &'static [&'static str] = &["name", "server", "current", "account", "ca_file"];

    fn text(&self, field: &str) -> Option<String> {
        (field == "current").then(|| if self.current { "yes" } else { "no" }.to_owned())
    }
}
