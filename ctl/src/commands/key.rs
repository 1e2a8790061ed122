//! `ctl key …`, and the printed form of keys.

use proto::client::Connection;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::update_key_request::Expiry;
use proto::v1::{
    ClientGone, CreateKeyRequest, Key, KeyModels, ListKeysRequest, RevokeKeyRequest,
    RotateKeyRequest, Translation, UpdateKeyRequest,
};
use serde::Serialize;
use tonic::Code;

use super::limits::LimitFields;
use super::{non_empty, require_listed, required, rfc3339, without_empty};
use crate::Shell;
use crate::cli::key::{Create, KeyCommand, List, Revoke, Rotate, Set, TranslationFlags};
use crate::error::Failure;
use crate::output::Record;

/// A key, as printed.
#[derive(Serialize)]
pub(super) struct KeyRecord {
    id: String,
    account: String,
    label: String,
    #[serde(flatten)]
    limits: LimitFields,
    spend_cap_usd: Option<String>,
    models: Vec<String>,
    translation: &'static str,
    drain_seconds: Option<u64>,
    trace_content: bool,
    created_at: Option<String>,
    last_used_at: Option<String>,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    successor: Option<String>,
    created_by: Option<String>,
}

/// A new key with its secret, printed only at creation.
#[derive(Serialize)]
struct NewKeyRecord {
    secret: String,
    #[serde(flatten)]
    key: KeyRecord,
}

/// Runs `ctl key …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: KeyCommand) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(input) => create(shell, input).await,
        KeyCommand::List(input) => list(shell, input).await,
        KeyCommand::Set(input) => set(shell, input).await,
        KeyCommand::Rotate(input) => rotate(shell, input).await,
        KeyCommand::Revoke(input) => revoke(shell, input).await,
    }
}

async fn create(shell: &mut Shell<'_>, input: Create) -> Result<(), Failure> {
    let expires_at =
        input.expires.map(|expires| expires.after(shell.environment.now)).transpose()?;
    let translation = match (input.strict, input.omit_hosted_tools) {
        (true, _) => Translation::Strict,
        (false, true) => Translation::OmitHostedTools,
        (false, false) => Translation::Lenient,
    };
    let client_gone = input.drain.map_or(ClientGone::Cancel, |_| ClientGone::Drain);
    let request = CreateKeyRequest {
        label: input.label,
        limits: input.limits.for_create(),
        spend_cap_usd: input.spend_cap.unwrap_or_default(),
        models: without_empty(input.models),
        expires_at,
        translation: translation.into(),
        client_gone: client_gone.into(),
        drain_seconds: input.drain.unwrap_or_default(),
    };
    let mut client = KeyServiceClient::new(shell.connect().await?);
    let answer = client.create_key(request).await?.into_inner();
    print_new_key(shell, answer.key, answer.secret)
}

async fn set(shell: &mut Shell<'_>, input: Set) -> Result<(), Failure> {
    let expires_at =
        input.expires.map(|expires| expires.after(shell.environment.now)).transpose()?;
    let never = input.no_expiry.then_some(Expiry::Never(true));
    let client_gone = input.drain.map(|_| ClientGone::Drain);
    let client_gone = client_gone.or_else(|| input.no_drain.then_some(ClientGone::Cancel));
    let request = UpdateKeyRequest {
        id: input.id,
        label: input.label,
        limits: input.limits.for_update(),
        spend_cap_usd: input.spend_cap.or_else(|| input.no_spend_cap.then(String::new)),
        models: input.models.map(|models| KeyModels { models: without_empty(models) }),
        expiry: expires_at.map(Expiry::ExpiresAt).or(never),
        translation: chosen(&input.translation).map(i32::from),
        client_gone: client_gone.map(i32::from),
        drain_seconds: input.drain.unwrap_or_default(),
        trace_content: input.trace_content,
    };
    let mut client = KeyServiceClient::new(shell.connect().await?);
    let answer = client.update_key(request).await?.into_inner();
    shell.output.one(&KeyRecord::from(required(answer.key, "key")?))
}

/// Returns the translation of a flag; `None` without one.
fn chosen(flags: &TranslationFlags) -> Option<Translation> {
    [
        (flags.lenient, Translation::Lenient),
        (flags.strict, Translation::Strict),
        (flags.omit_hosted_tools, Translation::OmitHostedTools),
    ]
    .into_iter()
    .find_map(|(is_given, translation)| is_given.then_some(translation))
}

async fn rotate(shell: &mut Shell<'_>, input: Rotate) -> Result<(), Failure> {
    let overlap_seconds = u64::try_from(input.overlap.as_secs()).unwrap_or_default();
    let mut client = KeyServiceClient::new(shell.connect().await?);
    let request = RotateKeyRequest { id: input.id.clone(), overlap_seconds };
    let answer = client.rotate_key(request).await.map_err(|status| {
        let is_refused = status.code() == Code::PermissionDenied;
        let failure = Failure::from(status);
        // No role of the gateway permits it, so an operator cannot help.
        if is_refused {
            let id = &input.id;
            failure.advise(format!(
                "`ctl key revoke {id}` revokes it; its owner rotates it or makes another one"
            ))
        } else {
            failure
        }
    })?;
    let answer = answer.into_inner();
    print_new_key(shell, answer.key, answer.secret)
}

/// Prints a new key with its secret; if quiet, only the secret.
fn print_new_key(shell: &mut Shell<'_>, key: Option<Key>, secret: String) -> Result<(), Failure> {
    if shell.output.is_quiet() {
        return shell.output.text(&format!("{secret}\n"));
    }
    let key = KeyRecord::from(required(key, "key")?);
    shell.output.one(&NewKeyRecord { secret, key })?;
    shell.output.note("save the secret now: it is not shown again");
    Ok(())
}

async fn list(shell: &mut Shell<'_>, input: List) -> Result<(), Failure> {
    let account = if input.all { "*".to_owned() } else { input.account.unwrap_or_default() };
    let mut client = KeyServiceClient::new(shell.connect().await?);
    let answer = client.list_keys(ListKeysRequest { account }).await?.into_inner();
    let keys: Vec<_> = answer.keys.into_iter().map(KeyRecord::from).collect();
    shell.output.many(&keys)
}

async fn revoke(shell: &mut Shell<'_>, input: Revoke) -> Result<(), Failure> {
    let mut client = KeyServiceClient::new(shell.connect().await?);
    if shell.should_confirm() {
        let Key { id, label, .. } = find(&mut client, &input.id).await?;
        shell.confirm(&format!("Revoke key {id} ({label})? It cannot be used again."))?;
    }
    let answer = client.revoke_key(RevokeKeyRequest { id: input.id }).await?.into_inner();
    shell.output.one(&KeyRecord::from(required(answer.key, "key")?))
}

/// Finds a key: one of the caller's or, for operators, of any account.
async fn find(client: &mut KeyServiceClient<Connection>, id: &str) -> Result<Key, Failure> {
    for account in ["", "*"] {
        let request = ListKeysRequest { account: account.to_owned() };
        let keys = match client.list_keys(request).await {
            Ok(answer) => answer.into_inner().keys,
            Err(status) if status.code() == Code::PermissionDenied => break,
            Err(status) => return Err(status.into()),
        };
        if let Some(key) = keys.into_iter().find(|key| key.id == id) {
            return Ok(key);
        }
    }
    require_listed(None, "key", id)
}

// === impl KeyRecord ===

impl From<Key> for KeyRecord {
    fn from(key: Key) -> Self {
        let translation = match key.translation() {
            Translation::Unspecified | Translation::Lenient => "lenient",
            Translation::Strict => "strict",
            Translation::OmitHostedTools => "omit_hosted_tools",
        };
        Self {
            id: key.id,
            account: key.account,
            label: key.label,
            limits: key.limits.into(),
            spend_cap_usd: non_empty(key.spend_cap_usd),
            models: key.models,
            translation,
            drain_seconds: (key.drain_seconds > 0).then_some(key.drain_seconds),
            trace_content: key.trace_content,
            created_at: rfc3339(key.created_at),
            last_used_at: rfc3339(key.last_used_at),
            expires_at: rfc3339(key.expires_at),
            revoked_at: rfc3339(key.revoked_at),
            successor: non_empty(key.successor),
            created_by: non_empty(key.created_by),
        }
    }
}

impl Record for KeyRecord {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "account",
        "label",
        "rpm",
        "tpm",
        "concurrency",
        "monthly_tokens",
        "limit_mode",
        "spend_cap_usd",
        "models",
        "translation",
        "drain_seconds",
        "trace_content",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
        "successor",
        "created_by",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "label",
        "revoked_at",
        "last_used_at",
        "expires_at",
        "account",
        "created_at",
        "models",
        "rpm",
        "spend_cap_usd",
    ];
}

impl Record for NewKeyRecord {
    const FIELDS: &'static [&'static str] = &[
        "secret",
        "id",
        "account",
        "label",
        "rpm",
        "tpm",
        "concurrency",
        "monthly_tokens",
        "limit_mode",
        "spend_cap_usd",
        "models",
        "translation",
        "drain_seconds",
        "trace_content",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
        "successor",
        "created_by",
    ];
    const COLUMNS: &'static [&'static str] = &["secret", "id", "label"];
}
