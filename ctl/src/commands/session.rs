//! `ctl register`, `login`, `logout` and `whoami`: who is at the keyboard.

use std::path::PathBuf;

use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::{
    Account, RegisterRequest, RegisterResponse, SignInRequest, SignInResponse, SignOutRequest,
    WhoAmIRequest,
};
use secrecy::{ExposeSecret, SecretString};
use tonic::Code;

use super::account::record::AccountRecord;
use super::{present, secret_line};
use crate::cli::{Login, Password, Register};
use crate::error::{Exit, Failure};
use crate::profile::{self, Endpoint, TokenSource};
use crate::{Shell, connect};

/// Where a new session is kept for later commands.
pub(super) enum SessionStore {
    /// In the profile file.
    Profile,
    /// In a token file.
    TokenFile(PathBuf),
}

/// Runs `ctl register`.
pub(super) async fn register(shell: &mut Shell<'_>, input: Register) -> Result<(), Failure> {
    let endpoint = endpoint_for_sign_in(shell)?;
    let password = password(shell, &input.password, true)?;
    let made = create(&endpoint, &input.name, &password, input.invite).await?;
    let account = present(made.account, "account")?;
    shell.output.one(&AccountRecord::from(account))?;
    if made.trial_credit_withheld {
        shell.output.note("today's trial credit is used up: this account starts without; an operator can give it credit");
    }
    shell.output.note(&format!("registered; sign in with `ctl login {}`", input.name));
    Ok(())
}

/// Runs `ctl login`.
pub(super) async fn login(shell: &mut Shell<'_>, input: Login) -> Result<(), Failure> {
    let gateway = shell.gateway()?;
    let store = session_store(shell)?;
    let password = password(shell, &input.password, false)?;
    let answer = sign_in(&gateway, &input.name, &password).await?;
    let account = keep(shell, &gateway.server, answer, &store)?;
    shell.output.one(&AccountRecord::from(account))
}

/// Runs `ctl logout`.
pub(super) async fn logout(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let endpoint = shell.endpoint()?;
    match &endpoint.source {
        TokenSource::Profile | TokenSource::Variable => {}
        TokenSource::File(path) if !profile::is_operator_token(path) => {}
        TokenSource::File(_) | TokenSource::Operator | TokenSource::Nowhere => {
            let message = format!("there is no session with `{}` to end", endpoint.server);
            return Err(Failure::new(Exit::NotAllowed, message));
        }
    }
    let mut client = AccountServiceClient::new(connect(&endpoint).await?);
    match client.sign_out(SignOutRequest {}).await {
        Ok(_) => {}
        // It has ended by itself; what is left to do is to forget it.
        Err(status) if status.code() == Code::Unauthenticated => {}
        Err(status) => return Err(status.into()),
    }
    match &endpoint.source {
        TokenSource::File(path) => profile::remove_token(path)?,
        TokenSource::Variable => shell.output.note("signed out; unset TOLLGATE_TOKEN yourself"),
        TokenSource::Profile | TokenSource::Operator | TokenSource::Nowhere => {
            shell.environment.forget(&endpoint.server)?;
        }
    }
    shell.output.note(&format!("signed out of {}", endpoint.server));
    Ok(())
}

/// Runs `ctl whoami`.
pub(super) async fn whoami(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.who_am_i(WhoAmIRequest {}).await?.into_inner();
    shell.output.one(&AccountRecord::from(present(answer.account, "account")?))
}

/// Returns the endpoint for a command that can sign in, and reports a token file that cannot be read.
pub(super) fn endpoint_for_sign_in(shell: &mut Shell<'_>) -> Result<Endpoint, Failure> {
    let choice = shell.globals.choice();
    let (endpoint, unreadable) = shell.environment.choose_for_sign_in(choice)?;
    // The file that a flag names is there to be written.
    if let Some(failure) = unreadable.filter(|_| shell.globals.token_file.is_none()) {
        shell.output.note(&format!("warning: {failure}"));
    }
    Ok(endpoint)
}

/// Returns where a new session will be kept, after making sure that it can be kept there.
///
/// Must be called before an account is made or a session opened: neither is of use to somebody who does
/// not get the token, and the account's trial credit would be given for nothing.
pub(super) fn session_store(shell: &mut Shell<'_>) -> Result<SessionStore, Failure> {
    if let Some(path) = &shell.globals.token_file {
        profile::ensure_token_writable(path)?;
        return Ok(SessionStore::TokenFile(path.clone()));
    }
    if let Some(path) = &shell.environment.token_file {
        match profile::ensure_token_writable(path) {
            Ok(()) => return Ok(SessionStore::TokenFile(path.clone())),
            Err(failure) => shell.output.note(&format!(
                "warning: the session will not be in the file of TOLLGATE_TOKEN_FILE: {failure}"
            )),
        }
    }
    shell.environment.ensure_profile_writable()?;
    Ok(SessionStore::Profile)
}

/// Registers an account: as who asks, for a gateway that is closed to strangers.
pub(super) async fn create(
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
        // A session that has ended must not keep anybody from registering.
        Err(status) if status.code() == Code::Unauthenticated && endpoint.token.is_some() => {
            let stranger = connect(&endpoint.stranger()).await?;
            AccountServiceClient::new(stranger).register(request).await?
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
    let mut client = AccountServiceClient::new(connect(&endpoint.stranger()).await?);
    let request =
        SignInRequest { name: name.to_owned(), password: password.expose_secret().to_owned() };
    let answer = client.sign_in(request).await.map_err(|status| {
        let refused = status.code() == Code::Unauthenticated;
        let failure = Failure::from(status);
        if refused {
            failure.advise("check name and password; `ctl register NAME` makes an account")
        } else {
            failure
        }
    })?;
    Ok(answer.into_inner())
}

/// Keeps a new session where later commands find it, and says where that is.
pub(super) fn keep(
    shell: &mut Shell<'_>,
    server: &str,
    answer: SignInResponse,
    store: &SessionStore,
) -> Result<Account, Failure> {
    let token = SecretString::from(answer.token);
    let account = present(answer.account, "account")?;
    let place = match store {
        SessionStore::TokenFile(path) => {
            profile::write_token(path, &token)?;
            format!("the token is in {}", path.display())
        }
        SessionStore::Profile => {
            shell.environment.remember(server, &account.name, &token)?;
            "the session is in your profile".to_owned()
        }
    };
    shell.output.note(&format!("signed in to {server} as {}; {place}", account.name));
    if shell.environment.token.is_some() && shell.globals.token_file.is_none() {
        shell.output.note("warning: TOLLGATE_TOKEN is set, and goes before the new session");
    }
    if shell.environment.token_file.is_some() && matches!(store, SessionStore::Profile) {
        let warning = "warning: TOLLGATE_TOKEN_FILE goes before the new session; \
                       unset TOLLGATE_TOKEN_FILE to use it";
        shell.output.note(warning);
    }
    Ok(account)
}

/// Gets the password: from stdin if asked to, else from the person at the terminal.
pub(super) fn password(
    shell: &mut Shell<'_>,
    from: &Password,
    new: bool,
) -> Result<SecretString, Failure> {
    if from.password_stdin {
        return secret_line(shell, "password");
    }
    ask(shell, "Password", new)
}

/// Gets the old password and the new one: from two lines of stdin if asked to, else from the person
/// at the terminal.
pub(super) fn new_password(
    shell: &mut Shell<'_>,
    from_stdin: bool,
) -> Result<(SecretString, SecretString), Failure> {
    if from_stdin {
        let old = secret_line(shell, "old password")?;
        return Ok((old, secret_line(shell, "new password, in a second line")?));
    }
    Ok((ask(shell, "Old password", false)?, ask(shell, "New password", true)?))
}

fn ask(shell: &Shell<'_>, what: &str, new: bool) -> Result<SecretString, Failure> {
    if !shell.environment.interactive {
        return Err(Failure::usage("no password is given, and there is no terminal to ask on")
            .advise("give it on stdin, with --password-stdin"));
    }
    let mut prompt = dialoguer::Password::new().with_prompt(what);
    if new {
        let again = format!("{what} again");
        prompt = prompt.with_confirmation(again, "the two are not the same");
    }
    prompt
        .interact()
        .map(SecretString::from)
        .map_err(|error| Failure::new(Exit::Failed, format!("asking for the password: {error}")))
}
