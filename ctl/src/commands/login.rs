//! `ctl register`, `login`, `logout` and `whoami`: the caller's account and session.

use std::path::PathBuf;

use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::{
    Account, RegisterRequest, RegisterResponse, ResetPasswordRequest, SignInRequest,
    SignInResponse, SignOutRequest, WhoAmIRequest,
};
use secrecy::{ExposeSecret, SecretString};
use tonic::Code;

use super::account::record::{AccountRecord, CallerRecord};
use super::{read_secret_line, required};
use crate::cli::{Login, Password, Register};
use crate::error::{Exit, Failure};
use crate::profile::{self, Endpoint, TokenSource};
use crate::{Shell, connect};

/// The store of a new session, for later commands.
pub(super) enum SessionStore {
    /// The profile file.
    Profile,
    /// A token file.
    TokenFile(PathBuf),
}

/// Runs `ctl register`.
pub(super) async fn register(shell: &mut Shell<'_>, input: Register) -> Result<(), Failure> {
    let endpoint = endpoint_for_sign_in(shell)?;
    let password = read_password(shell, &input.password, true)?;
    let answer = register_account(&endpoint, &input.name, &password, input.invite).await?;
    let account = required(answer.account, "account")?;
    shell.output.one(&AccountRecord::from(account))?;
    if answer.trial_credit_withheld {
        shell.output.note(
            "today's trial credit is used up: this account starts without credit; an operator can \
             add some",
        );
    }
    shell.output.note(&format!("registered; sign in with `ctl login {}`", input.name));
    Ok(())
}

/// Runs `ctl login`.
pub(super) async fn login(shell: &mut Shell<'_>, input: Login) -> Result<(), Failure> {
    let gateway = shell.gateway()?;
    let store = session_store(shell)?;
    let code = match input.reset_code {
        Some(code) if code == "-" => Some(read_code(shell, &input.password)?),
        code => code,
    };
    let password = read_password(shell, &input.password, code.is_some())?;
    if let Some(code) = code {
        reset_password(&gateway, &input.name, code, &password).await?;
        shell.output.note("set the new password; all earlier sessions have ended");
    }
    let answer = sign_in(&gateway, &input.name, &password).await?;
    let person = answer.person.clone();
    let account = save_session(shell, &gateway.server, answer, &store)?;
    shell.output.one(&CallerRecord::new(account, person))
}

/// Runs `ctl logout`.
pub(super) async fn logout(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let endpoint = shell.endpoint()?;
    match &endpoint.source {
        TokenSource::Profile | TokenSource::Variable => {}
        TokenSource::File(path) if !profile::is_operator_token(path) => {}
        TokenSource::File(_) | TokenSource::Operator | TokenSource::Missing => {
            let message = format!("there is no session with `{}`", endpoint.server);
            return Err(Failure::new(Exit::NotAllowed, message));
        }
    }
    let mut client = AccountServiceClient::new(connect(&endpoint).await?);
    match client.sign_out(SignOutRequest {}).await {
        Ok(_) => {}
        // The session has expired: only the stored token is left to remove.
        Err(status) if status.code() == Code::Unauthenticated => {}
        Err(status) => return Err(status.into()),
    }
    match &endpoint.source {
        TokenSource::File(path) => profile::remove_token(path)?,
        TokenSource::Variable => {
            shell.output.note("signed out; TOLLGATE_TOKEN is still set: unset it");
        }
        TokenSource::Profile | TokenSource::Operator | TokenSource::Missing => {
            shell.environment.remove_session(&endpoint.server)?;
        }
    }
    shell.output.note(&format!("signed out of {}", endpoint.server));
    Ok(())
}

/// Runs `ctl whoami`.
pub(super) async fn whoami(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.who_am_i(WhoAmIRequest {}).await?.into_inner();
    let account = required(answer.account, "account")?;
    shell.output.one(&CallerRecord::new(account, answer.person))
}

/// Returns the endpoint for a command that can sign in, and warns about an unreadable token file.
pub(super) fn endpoint_for_sign_in(shell: &mut Shell<'_>) -> Result<Endpoint, Failure> {
    let flags = shell.globals.endpoint_flags();
    let (endpoint, unreadable) = shell.environment.resolve_for_sign_in(flags)?;
    // No warning for `--token-file`, which names the file to write.
    if let Some(failure) = unreadable.filter(|_| shell.globals.token_file.is_none()) {
        shell.output.note(&format!("warning: {failure}"));
    }
    Ok(endpoint)
}

/// Returns the store for a new session, after checking that it is writable.
///
/// Must be called before registering an account or opening a session: if the token could not be
/// stored, both would be useless, and the trial credit wasted.
pub(super) fn session_store(shell: &mut Shell<'_>) -> Result<SessionStore, Failure> {
    if let Some(path) = &shell.globals.token_file {
        profile::ensure_token_writable(path)?;
        return Ok(SessionStore::TokenFile(path.clone()));
    }
    if let Some(path) = &shell.environment.token_file {
        match profile::ensure_token_writable(path) {
            Ok(()) => return Ok(SessionStore::TokenFile(path.clone())),
            Err(failure) => shell.output.note(&format!(
                "warning: the session cannot be stored in the file of TOLLGATE_TOKEN_FILE: {failure}"
            )),
        }
    }
    shell.environment.ensure_profile_writable()?;
    Ok(SessionStore::Profile)
}

/// Registers an account, with the caller's token, as a gateway may not be open to unauthenticated
/// registration.
pub(super) async fn register_account(
    endpoint: &Endpoint,
    name: &str,
    password: &SecretString,
    invite_code: String,
) -> Result<RegisterResponse, Failure> {
    let request = RegisterRequest {
        name: name.to_owned(),
        password: password.expose_secret().to_owned(),
        invite_code,
    };
    let mut client = AccountServiceClient::new(connect(endpoint).await?);
    let answer = match client.register(request.clone()).await {
        // An expired session must not prevent registration.
        Err(status) if status.code() == Code::Unauthenticated && endpoint.token.is_some() => {
            let connection = connect(&endpoint.without_token()).await?;
            AccountServiceClient::new(connection).register(request).await?
        }
        other => other?,
    };
    Ok(answer.into_inner())
}

/// Opens a session.
pub(super) async fn sign_in(
    endpoint: &Endpoint,
    name: &str,
    password: &SecretString,
) -> Result<SignInResponse, Failure> {
    let mut client = AccountServiceClient::new(connect(&endpoint.without_token()).await?);
    let request =
        SignInRequest { name: name.to_owned(), password: password.expose_secret().to_owned() };
    let answer = client.sign_in(request).await.map_err(|status| {
        let is_refused = status.code() == Code::Unauthenticated;
        let failure = Failure::from(status);
        if is_refused {
            failure.advise("check name and password; `ctl register NAME` creates an account")
        } else {
            failure
        }
    })?;
    Ok(answer.into_inner())
}

/// Sets a new password with a code.
async fn reset_password(
    endpoint: &Endpoint,
    name: &str,
    code: String,
    password: &SecretString,
) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(connect(&endpoint.without_token()).await?);
    let new_password = password.expose_secret().to_owned();
    let request = ResetPasswordRequest { name: name.to_owned(), code, new_password };
    client.reset_password(request).await?;
    Ok(())
}

/// Stores a new session for later commands, and prints its location.
pub(super) fn save_session(
    shell: &mut Shell<'_>,
    server: &str,
    answer: SignInResponse,
    store: &SessionStore,
) -> Result<Account, Failure> {
    let token = SecretString::from(answer.token);
    let account = required(answer.account, "account")?;
    let name = answer.person.map_or_else(|| account.name.clone(), |person| person.name);
    let location = match store {
        SessionStore::TokenFile(path) => {
            profile::write_token(path, &token)?;
            format!("the token is in {}", path.display())
        }
        SessionStore::Profile => {
            shell.environment.save_session(server, &name, &token)?;
            "the session is stored for this server".to_owned()
        }
    };
    shell.output.note(&format!("signed in to {server} as {name}; {location}"));
    if shell.environment.token.is_some() && shell.globals.token_file.is_none() {
        shell
            .output
            .note("warning: TOLLGATE_TOKEN is set and takes precedence over the new session");
    }
    if shell.environment.token_file.is_some() && matches!(store, SessionStore::Profile) {
        let warning = "warning: TOLLGATE_TOKEN_FILE takes precedence over the new session; \
                       unset TOLLGATE_TOKEN_FILE to use it";
        shell.output.note(warning);
    }
    Ok(account)
}

/// Reads a password, from stdin with `--password-stdin`, else by a prompt; a new one is prompted
/// for twice.
pub(super) fn read_password(
    shell: &mut Shell<'_>,
    from: &Password,
    new: bool,
) -> Result<SecretString, Failure> {
    if from.password_stdin {
        return read_secret_line(shell, "password");
    }
    prompt_password(shell, "Password", new)
}

/// Reads the code for a new password, from a line of stdin with `--password-stdin`, else by a prompt.
fn read_code(shell: &mut Shell<'_>, from: &Password) -> Result<String, Failure> {
    let code = if from.password_stdin {
        read_secret_line(shell, "code, in a first line")?
    } else {
        prompt_password(shell, "Code", false)?
    };
    Ok(code.expose_secret().to_owned())
}

/// Reads the old and the new password, from two lines of stdin with `--password-stdin`, else by
/// prompts.
pub(super) fn read_password_change(
    shell: &mut Shell<'_>,
    from_stdin: bool,
) -> Result<(SecretString, SecretString), Failure> {
    if from_stdin {
        let old = read_secret_line(shell, "old password")?;
        return Ok((old, read_secret_line(shell, "new password, in a second line")?));
    }
    let old = prompt_password(shell, "Old password", false)?;
    Ok((old, prompt_password(shell, "New password", true)?))
}

fn prompt_password(shell: &Shell<'_>, what: &str, new: bool) -> Result<SecretString, Failure> {
    if !shell.environment.interactive {
        return Err(Failure::usage("no password given, and no terminal to prompt on")
            .advise("give it on stdin, with --password-stdin"));
    }
    let mut prompt = dialoguer::Password::new().with_prompt(what);
    if new {
        let again = format!("{what} again");
        prompt = prompt.with_confirmation(again, "the passwords do not match");
    }
    prompt
        .interact()
        .map(SecretString::from)
        .map_err(|error| Failure::new(Exit::Failed, format!("asking for the password: {error}")))
}
