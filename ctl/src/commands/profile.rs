//! `ctl profile …`, and how a profile is printed.

use serde::Serialize;

use crate::Shell;
use crate::cli::profile::{Named, ProfileCommand, Show};
use crate::error::Failure;
use crate::output::Record;
use crate::profile::{Profile, ProfileFile, TokenSource};

/// A profile, as it is printed.
#[derive(Serialize)]
struct ProfileRecord {
    /// Absent for a gateway that has no name.
    name: Option<String>,
    server: String,
    ca_file: Option<String>,
    /// Whether its gateway is the one that is meant if none is named.
    current: bool,
    /// Who is signed in there.
    account: Option<String>,
    /// Where the token that is presented comes from; known of the gateway that is meant.
    token: Option<&'static str>,
}

/// Runs `ctl profile …`.
pub(super) fn run(shell: &mut Shell<'_>, command: ProfileCommand) -> Result<(), Failure> {
    match command {
        ProfileCommand::List => list(shell),
        ProfileCommand::Show(Show { name: None }) => current(shell),
        ProfileCommand::Show(Show { name: Some(name) }) => show(shell, &name),
        ProfileCommand::Use(input) => choose(shell, &input),
        ProfileCommand::Set(input) => set(shell, &input),
        ProfileCommand::Remove(input) => remove(shell, &input),
    }
}

fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let file = shell.environment.profile_file()?;
    let meant = shell.gateway()?.server;
    let records: Vec<_> = file
        .profiles
        .iter()
        .map(|(name, profile)| ProfileRecord::new(Some(name), profile, &file, &meant))
        .collect();
    shell.output.many(&records)
}

/// Shows the gateway that is meant, named or not.
fn current(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let file = shell.environment.profile_file()?;
    let endpoint = shell.endpoint()?;
    let meant = Profile { server: endpoint.server.clone(), ca_file: endpoint.ca_file };
    let name = file.profiles.iter().find(|(_, profile)| profile.server == meant.server);
    let record = ProfileRecord::new(name.map(|(name, _)| name), &meant, &file, &meant.server);
    let token = Some(match endpoint.source {
        TokenSource::Nowhere => "none",
        TokenSource::File(_) => "file",
        TokenSource::Variable => "variable",
        TokenSource::Profile => "session",
        TokenSource::Operator => "operator",
    });
    // Somebody else's token goes before the session.
    let account = record.account.filter(|_| endpoint.source == TokenSource::Profile);
    shell.output.one(&ProfileRecord { account, token, ..record })
}

fn show(shell: &mut Shell<'_>, name: &str) -> Result<(), Failure> {
    let file = shell.environment.profile_file()?;
    let meant = shell.gateway()?.server;
    let record = ProfileRecord::new(Some(name), file.named(name)?, &file, &meant);
    shell.output.one(&record)
}

fn choose(shell: &mut Shell<'_>, input: &Named) -> Result<(), Failure> {
    let profile = shell.environment.use_profile(&input.name)?;
    shell.output.note(&format!("{} is meant from now on: {}", input.name, profile.server));
    if shell.environment.server.is_some() || shell.environment.profile.is_some() {
        shell
            .output
            .note("warning: TOLLGATE_SERVER or TOLLGATE_PROFILE is set, and goes before it");
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
    let profile = shell.environment.set_profile(&input.name, Profile { server, ca_file })?;
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
        meant: &str,
    ) -> Self {
        Self {
            name: name.map(|name| name.as_ref().to_owned()),
            server: profile.server.clone(),
            ca_file: profile.ca_file.as_ref().map(|path| path.display().to_string()),
            current: profile.server == meant,
            account: file.sessions.get(&profile.server).map(|session| session.account.clone()),
            token: None,
        }
    }
}

impl Record for ProfileRecord {
    const FIELDS: &'static [&'static str] =
        &["name", "server", "ca_file", "current", "account", "token"];
    const COLUMNS: &'static [&'static str] = &["name", "server", "current", "account", "ca_file"];

    fn text(&self, field: &str) -> Option<String> {
        (field == "current").then(|| if self.current { "yes" } else { "no" }.to_owned())
    }
}
