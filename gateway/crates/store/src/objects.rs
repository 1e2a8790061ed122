//! Reads accounts, keys and the catalogue from rows, whatever the backend.

use std::time::Duration;

use crate::codec::{At, Count, Decode, DecodeError, List, Micros};
use domain::account::{Account, AccountStatus, Invite, InviteUse, PasswordReset, Session};
use domain::id::AccountId;
use domain::key::{ClientGone, Key};
use domain::limit::Limits;
use domain::model::{Deployment, Model};
use domain::person::Person;
use domain::plan::Plan;
use domain::price::Price;
use domain::upstream::{
    ClientCertificate, ConnectionBound, CredentialSource, Deadlines, HealthCheck, Proxy,
    ProxyChoice, ProxyLogin, Upstream,
};

/// A row of a query.
pub(crate) trait ReadRow {
    /// The error of the backend.
    type Error: From<DecodeError>;

    /// Reads a column by its name.
    fn named<T: Decode>(&self, name: &str) -> Result<T, Self::Error>;
    /// Reads a column by its number, which is faster.
    fn at<T: Decode>(&self, number: usize) -> Result<T, Self::Error>;
}

/// Reads an account.
pub(crate) fn account<R: ReadRow>(row: &R) -> Result<Account, R::Error> {
    Ok(Account {
        id: row.named("id")?,
        name: row.named("name")?,
        role: row.named("role")?,
        status: match row.named("ended")? {
            Some(ended) => ended,
            None => row.named("status")?,
        },
        plan: row.named("plan")?,
        created_at: row.named::<At>("created_at")?.0,
    })
}

/// A row of the table `accounts`.
pub(crate) enum AccountRow {
    /// An account.
    Account(Account),
    /// A person of an account.
    Person(Person),
}

/// Reads an account or a person.
pub(crate) fn account_or_person<R: ReadRow>(row: &R) -> Result<AccountRow, R::Error> {
    let is_person = row.named::<Option<AccountId>>("belongs_to")?.is_some();
    if is_person {
        person(row).map(AccountRow::Person)
    } else {
        account(row).map(AccountRow::Account)
    }
}

/// Separates accounts from people.
pub(crate) fn separated(rows: Vec<AccountRow>) -> (Vec<Account>, Vec<Person>) {
    let (mut accounts, mut people) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            AccountRow::Account(account) => accounts.push(account),
            AccountRow::Person(person) => people.push(person),
        }
    }
    (accounts, people)
}

/// Reads a person.
pub(crate) fn person<R: ReadRow>(row: &R) -> Result<Person, R::Error> {
    Ok(Person {
        id: row.named("id")?,
        account: row.named("belongs_to")?,
        name: row.named("name")?,
        role: row.named("person_role")?,
        is_removed: row.named::<Option<AccountStatus>>("ended")?.is_some(),
        created_at: row.named::<At>("created_at")?.0,
    })
}

/// Returns what a removed person has as its folded name: no name of an account or a person, so that its own one is
/// free.
pub(crate) fn free_name(person: AccountId) -> String {
    format!("removed:{person}")
}

/// Returns the text of a conflict of names.
pub(crate) fn name_is_taken(name: &str) -> String {
    format!("an account or a person named `{name}` exists")
}

/// Returns the columns `status` and `ended`. Gateways of earlier versions only know the first.
pub(crate) fn status_columns(status: AccountStatus) -> (AccountStatus, Option<AccountStatus>) {
    match status {
        AccountStatus::Active | AccountStatus::Suspended => (status, None),
        AccountStatus::Closed | AccountStatus::Deleted => (AccountStatus::Suspended, Some(status)),
    }
}

/// Reads a session.
pub(crate) fn session<R: ReadRow>(row: &R) -> Result<Session, R::Error> {
    Ok(Session {
        id: row.named("id")?,
        digest: row.named("digest")?,
        account: row.named("account")?,
        created_at: row.named::<At>("created_at")?.0,
        expires_at: row.named::<At>("expires_at")?.0,
    })
}

/// Selects password resets.
pub(crate) const PASSWORD_RESETS: &str =
    "SELECT digest, account, created_by, created_at, expires_at FROM password_resets";

/// Reads a password reset.
pub(crate) fn password_reset<R: ReadRow>(row: &R) -> Result<PasswordReset, R::Error> {
    Ok(PasswordReset {
        digest: row.named("digest")?,
        account: row.named("account")?,
        created_by: row.named("created_by")?,
        created_at: row.named::<At>("created_at")?.0,
        expires_at: row.named::<At>("expires_at")?.0,
    })
}

/// Selects invites.
pub(crate) const INVITES: &str = "SELECT id, digest, created_by, created_at, expires_at, plan, credit, \
    used_at, used_by FROM invites";

/// Reads an invite.
pub(crate) fn invite<R: ReadRow>(row: &R) -> Result<Invite, R::Error> {
    let used = (row.named::<Option<At>>("used_at")?, row.named("used_by")?);
    Ok(Invite {
        id: row.named("id")?,
        digest: row.named("digest")?,
        created_by: row.named("created_by")?,
        created_at: row.named::<At>("created_at")?.0,
        expires_at: row.named::<At>("expires_at")?.0,
        plan: row.named("plan")?,
        credit: row.named("credit")?,
        used: Option::zip(used.0, used.1).map(|(at, by)| InviteUse { at: at.0, by }),
    })
}

/// The columns of a key, in the order in which [`key`] reads them.
const KEY: &str = "id, digest, account, label, origin, rpm, tpm, concurrency, \
    monthly_tokens, observe, spend_cap, models, translation, created_at, expires_at, revoked_at, \
    successor, drain_seconds, created_by, trace_content";

/// Returns the statement that selects the keys that satisfy `condition`, a `WHERE` clause or nothing, and the time of
/// their last use.
pub(crate) fn select_keys(condition: &str) -> String {
    format!("SELECT {KEY}, last_used_at FROM keys {condition}")
}

/// Reads a key that [`select_keys`] selected. By number: a start reads all keys, and the search for
/// names would take most of the time.
pub(crate) fn key<R: ReadRow>(row: &R) -> Result<Key, R::Error> {
    let limit = |number| Ok::<_, R::Error>(row.at::<Option<Count>>(number)?.map(|n| n.0));
    let at = |number| Ok::<_, R::Error>(row.at::<Option<At>>(number)?.map(|at| at.0));
    Ok(Key {
        id: row.at(0)?,
        digest: row.at(1)?,
        account: row.at(2)?,
        label: row.at(3)?,
        origin: row.at(4)?,
        limits: Limits {
            rpm: limit(5)?,
            tpm: limit(6)?,
            concurrency: limit(7)?,
            monthly_tokens: limit(8)?,
            observe: row.at(9)?,
        },
        spend_cap: row.at(10)?,
        models: row.at::<List>(11)?.into_models(),
        translation: row.at(12)?,
        created_at: row.at::<At>(13)?.0,
        expires_at: at(14)?,
        revoked_at: at(15)?,
        successor: row.at(16)?,
        client_gone: match row.at(17)? {
            None => ClientGone::Cancel,
            Some(Count(seconds)) => ClientGone::Drain(Duration::from_secs(seconds)),
        },
        created_by: row.at(18)?,
        trace_content: row.at(19)?,
    })
}

/// Encodes what happens to a key's requests when their clients disconnect.
pub(crate) fn drain_seconds(client_gone: ClientGone) -> Option<Count> {
    match client_gone {
        ClientGone::Cancel => None,
        ClientGone::Drain(limit) => Some(Count(limit.as_secs())),
    }
}

/// Reads the limits of a plan or a model.
fn limits<R: ReadRow>(row: &R) -> Result<Limits, R::Error> {
    let limit = |column| Ok::<_, R::Error>(row.named::<Option<Count>>(column)?.map(|n| n.0));
    Ok(Limits {
        rpm: limit("rpm")?,
        tpm: limit("tpm")?,
        concurrency: limit("concurrency")?,
        monthly_tokens: limit("monthly_tokens")?,
        observe: row.named("observe")?,
    })
}

/// Reads a plan.
pub(crate) fn plan<R: ReadRow>(row: &R) -> Result<Plan, R::Error> {
    Ok(Plan {
        name: row.named("name")?,
        trial_credit: row.named("trial_credit")?,
        limits: limits(row)?,
        max_keys: row.named("max_keys")?,
        models: row.named::<List>("models")?.into_models(),
    })
}

/// Reads a model without its aliases and deployments.
pub(crate) fn model<R: ReadRow>(row: &R) -> Result<Model, R::Error> {
    Ok(Model {
        id: row.named("id")?,
        display_name: row.named("display_name")?,
        description: row.named("description")?,
        context_window: row.named("context_window")?,
        max_output_tokens: row.named("max_output_tokens")?,
        limits: limits(row)?,
        price: Price {
            input: row.named("price_input")?,
            cached: row.named("price_cached")?,
            output: row.named("price_output")?,
            version: row.named("price_version")?,
        },
        abilities: row.named::<List>("abilities")?.into_decoded()?,
        inputs: row.named::<List>("inputs")?.into_decoded()?,
        aliases: Vec::new(),
        deployments: Vec::new(),
        routing: row.named("routing")?,
        hedge_after: row.named::<Option<Micros>>("hedge_after")?.map(|Micros(after)| after),
        created_at: row.named::<At>("created_at")?.0,
    })
}

/// Reads a deployment of a model.
pub(crate) fn deployment<R: ReadRow>(row: &R) -> Result<Deployment, R::Error> {
    Ok(Deployment {
        upstream: row.named("upstream")?,
        upstream_model: row.named("upstream_model")?,
        weight: row.named("weight")?,
        priority: row.named("priority")?,
    })
}

/// Reads an upstream without its credentials.
pub(crate) fn upstream<R: ReadRow>(row: &R) -> Result<Upstream, R::Error> {
    let span = |column| Ok::<_, R::Error>(row.named::<Option<Micros>>(column)?.map(|s| s.0));
    let certificate = (row.named("client_certificate")?, row.named("client_key")?);
    let bound = (row.named("max_connections")?, row.named("max_waiting")?);
    let check = (row.named("health_check")?, row.named("health_check_interval")?);
    Ok(Upstream {
        name: row.named("name")?,
        url: row.named("url")?,
        credentials: Vec::new(),
        profile: row.named("profile")?,
        deadlines: Deadlines {
            connect: span("connect")?,
            first_byte: span("first_byte")?,
            idle: span("idle")?,
            total: span("total")?,
        },
        proxy: proxy(row)?,
        ca_certificates: row.named("ca_certificates")?,
        client_certificate: Option::zip(certificate.0, certificate.1)
            .map(|(chain, sealed_key)| ClientCertificate { chain, sealed_key }),
        connection_bound: Option::zip(bound.0, bound.1)
            .map(|(max_connections, max_waiting)| ConnectionBound { max_connections, max_waiting }),
        health_check: Option::zip(check.0, check.1)
            .map(|(path, Micros(interval))| HealthCheck { path, interval }),
        created_at: row.named::<At>("created_at")?.0,
    })
}

fn proxy<R: ReadRow>(row: &R) -> Result<ProxyChoice, R::Error> {
    let url: Option<String> = row.named("proxy")?;
    Ok(match url {
        None => ProxyChoice::Environment,
        Some(text) if text == ProxyChoice::DIRECT => ProxyChoice::Direct,
        Some(url) => ProxyChoice::Configured(Proxy { url, login: proxy_login(row)? }),
    })
}

fn proxy_login<R: ReadRow>(row: &R) -> Result<Option<ProxyLogin>, R::Error> {
    let user: Option<String> = row.named("proxy_user")?;
    let kind: Option<String> = row.named("proxy_password_kind")?;
    let password: Option<Vec<u8>> = row.named("proxy_password")?;
    let password = Option::zip(kind, password);
    let password = password.map(|(kind, password)| credential(&kind, password)).transpose()?;
    Ok(Option::zip(user, password).map(|(user, password)| ProxyLogin { user, password }))
}

/// Returns the kind of a credential and its name, path or encrypted bytes.
pub(crate) fn credential_columns(source: &CredentialSource) -> (&'static str, &[u8]) {
    match source {
        CredentialSource::Env(name) => ("env", name.as_bytes()),
        CredentialSource::File(path) => ("file", path.as_bytes()),
        CredentialSource::Sealed(bytes) => ("sealed", bytes),
    }
}

/// Reads a credential from its columns.
pub(crate) fn credential(kind: &str, bytes: Vec<u8>) -> Result<CredentialSource, DecodeError> {
    let text = |bytes| String::from_utf8(bytes).map_err(|_| DecodeError::Type);
    match kind {
        "env" => text(bytes).map(CredentialSource::Env),
        "file" => text(bytes).map(CredentialSource::File),
        "sealed" => Ok(CredentialSource::Sealed(bytes)),
        other => Err(DecodeError::Invalid(other.to_owned(), "kind of credential")),
    }
}
