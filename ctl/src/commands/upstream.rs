//! `ctl upstream …`, and the printed form of upstreams.

mod credentials;
mod health;
mod proxy;

use std::path::Path;

use proto::client::Connection;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::{
    AddUpstreamRequest, ClientCertificate, CredentialList, Deadlines, ListUpstreamsRequest,
    ProxyLogin, RemoveUpstreamRequest, ResetUpstreamRequest, UpdateUpstreamRequest, Upstream,
};
use serde::Serialize;
use trust::Trust;

use super::{enum_name, non_empty, nothing_to_change, require_listed, required, rfc3339};
use crate::Shell;
use crate::cli::upstream::{
    self as cli, Add, HealthCheckChange, ProxyChange, Remove, Reset, Show, Update, UpstreamCommand,
};
use crate::error::Failure;
use crate::output::Record;
use credentials::CredentialRecord;

/// An upstream, as printed.
#[derive(Serialize)]
struct UpstreamRecord {
    name: String,
    url: String,
    /// The source of the first credential: `env`, `file`, `secret`, or `None` without a credential.
    credential: Option<&'static str>,
    /// The name of the variable or the path of the file.
    credential_name: Option<String>,
    /// All credentials; their health is only in lists and with `show`.
    credentials: Vec<CredentialRecord>,
    profile: Option<String>,
    connect_ms: Option<u64>,
    first_byte_ms: Option<u64>,
    idle_ms: Option<u64>,
    total_ms: Option<u64>,
    created_at: Option<String>,
    problem: Option<String>,
    /// The PEM certificates that are trusted instead of the host's and the public ones.
    ca_certificates: Option<String>,
    proxy: Option<String>,
    proxy_user: Option<String>,
    /// The source of the password for the proxy: `env`, `file` or `secret`.
    proxy_password: Option<&'static str>,
    /// The name of the variable or the path of the file.
    proxy_password_name: Option<String>,
    /// The certificate chain that identifies the gateway, in PEM.
    client_certificate: Option<String>,
    client_subject: Option<String>,
    client_expires_at: Option<String>,
    max_connections: Option<u32>,
    max_waiting: Option<u32>,
    health_check: Option<String>,
    health_check_interval_ms: Option<u64>,
    /// The state of the circuit breaker; only in lists and with `show`.
    breaker: Option<String>,
}

/// Runs `ctl upstream …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: UpstreamCommand) -> Result<(), Failure> {
    match command {
        UpstreamCommand::List => {
            let upstreams = fetch(shell.connect().await?).await?;
            shell.output.many(&upstreams)
        }
        UpstreamCommand::Show(input) => show(shell, input).await,
        UpstreamCommand::Health => health::run(shell).await,
        UpstreamCommand::Add(input) => add(shell, input).await,
        UpstreamCommand::Update(input) => update(shell, input).await,
        UpstreamCommand::Remove(input) => remove(shell, input).await,
        UpstreamCommand::Reset(input) => reset(shell, input).await,
    }
}

/// Fetches all upstreams with their health.
async fn fetch(connection: Connection) -> Result<Vec<UpstreamRecord>, Failure> {
    let mut client = UpstreamServiceClient::new(connection.clone());
    let answer = client.list_upstreams(ListUpstreamsRequest {}).await?.into_inner();
    // Upstreams are listed even if the gateway does not report their health.
    let health = health::fetch(connection).await.unwrap_or_default();
    let upstreams = answer.upstreams.into_iter().map(|upstream| {
        let mut record = UpstreamRecord::from(upstream);
        if let Some(health) = health.iter().find(|health| health.name == record.name) {
            record.breaker = health::breaker(health);
            if !health.credentials.is_empty() {
                record.credentials = credentials::health_records(health.credentials.clone());
            }
        }
        record
    });
    Ok(upstreams.collect())
}

async fn show(shell: &mut Shell<'_>, input: Show) -> Result<(), Failure> {
    let upstreams = fetch(shell.connect().await?).await?;
    let found = upstreams.into_iter().find(|upstream| upstream.name == input.name);
    shell.output.one(&require_listed(found, "upstream", &input.name)?)
}

async fn add(shell: &mut Shell<'_>, mut input: Add) -> Result<(), Failure> {
    let upstream = Upstream {
        name: input.name,
        url: input.url,
        credential: None,
        credentials: credentials::given(shell, input.credentials)?,
        profile: input.profile.into(),
        deadlines: deadlines(&input.deadlines),
        created_at: None,
        problem: String::new(),
        proxy: proxy::chosen(&mut input.proxy).unwrap_or_default(),
        proxy_login: proxy::login(shell, input.proxy.login)?,
        ca_certificates: input
            .upstream_ca_file
            .as_deref()
            .map(certificates)
            .transpose()?
            .unwrap_or_default(),
        client_certificate: client_certificate(&input.client_certificate)?,
        max_connections: input.bound.max_connections,
        max_waiting: input.bound.max_waiting,
        health_check: input.health_check.health_check.unwrap_or_default(),
        health_check_interval_ms: input.health_check.health_check_interval_ms,
    };
    let mut client = UpstreamServiceClient::new(shell.connect().await?);
    let request = AddUpstreamRequest { upstream: Some(upstream) };
    let answer = client.add_upstream(request).await?.into_inner();
    shell.output.one(&UpstreamRecord::from(required(answer.upstream, "upstream")?))
}

async fn update(shell: &mut Shell<'_>, input: Update) -> Result<(), Failure> {
    let credentials = if input.no_key {
        Some(CredentialList::default())
    } else {
        credentials::changed(shell, input.kept, input.credentials)?
    };
    let HealthCheckChange { new: check, no_health_check } = input.health_check;
    let ProxyChange { new: mut proxy, default_proxy, no_proxy_user } = input.proxy;
    let request = UpdateUpstreamRequest {
        name: input.name,
        url: input.url,
        credential: None,
        credentials,
        profile: input.profile.map(Into::into),
        deadlines: deadlines(&input.deadlines),
        proxy: proxy::chosen(&mut proxy).or_else(|| default_proxy.then(String::new)),
        proxy_login: if no_proxy_user {
            Some(ProxyLogin::default())
        } else {
            proxy::login(shell, proxy.login)?
        },
        ca_certificates: match input.upstream_ca_file {
            Some(path) => Some(certificates(&path)?),
            None => input.no_upstream_ca.then(String::new),
        },
        client_certificate: if input.no_client_cert {
            Some(ClientCertificate::default())
        } else {
            client_certificate(&input.client_certificate)?
        },
        max_connections: input.bound.max_connections,
        max_waiting: input.bound.max_waiting,
        health_check: check.health_check.or_else(|| no_health_check.then(String::new)),
        health_check_interval_ms: check.health_check_interval_ms,
    };
    if request
        == (UpdateUpstreamRequest {
            name: request.name.clone(),
            ..UpdateUpstreamRequest::default()
        })
    {
        return Err(nothing_to_change());
    }
    let mut client = UpstreamServiceClient::new(shell.connect().await?);
    let answer = client.update_upstream(request).await?.into_inner();
    shell.output.one(&UpstreamRecord::from(required(answer.upstream, "upstream")?))
}

async fn remove(shell: &mut Shell<'_>, input: Remove) -> Result<(), Failure> {
    let mut client = UpstreamServiceClient::new(shell.connect().await?);
    if shell.should_confirm() {
        let upstreams =
            client.list_upstreams(ListUpstreamsRequest {}).await?.into_inner().upstreams;
        let found = upstreams.into_iter().find(|upstream| upstream.name == input.name);
        let Upstream { name, url, .. } = require_listed(found, "upstream", &input.name)?;
        shell.confirm(&format!("Remove upstream {name} ({url})?"))?;
    }
    client.remove_upstream(RemoveUpstreamRequest { name: input.name.clone() }).await?;
    shell.output.note(&format!("removed upstream {}", input.name));
    Ok(())
}

async fn reset(shell: &mut Shell<'_>, Reset { name }: Reset) -> Result<(), Failure> {
    let connection = shell.connect().await?;
    let mut client = UpstreamServiceClient::new(connection.clone());
    client.reset_upstream(ResetUpstreamRequest { name: name.clone() }).await?;
    shell.output.note(&format!("requests go to upstream {name} again, on this gateway"));
    // Read over the same connection, so that it is the state on the gateway that was reset. The reset has succeeded,
    // whatever the outcome; another operator may have removed the upstream meanwhile.
    let upstreams = fetch(connection).await.unwrap_or_default();
    let found = upstreams.into_iter().find(|upstream| upstream.name == name);
    found.map_or(Ok(()), |upstream| shell.output.one(&upstream))
}

/// Reads and validates a PEM file of certificates for the gateway to trust.
fn certificates(path: &Path) -> Result<String, Failure> {
    let advice = "give a PEM file of certificates with --upstream-ca-file FILE";
    let pem = std::fs::read_to_string(path)
        .map_err(|error| Failure::file("reading", path, &error).advise(advice))?;
    Trust::only(pem.as_bytes()).map_err(|error| {
        let message = format!("`{}` cannot be trusted: {error}", path.display());
        Failure::usage(message).advise(advice)
    })?;
    Ok(pem)
}

/// Reads the files of a certificate that identifies the gateway.
fn client_certificate(
    given: &cli::ClientCertificate,
) -> Result<Option<ClientCertificate>, Failure> {
    let Some(chain) = &given.chain else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| {
            let advice = "give PEM files with --client-cert FILE --client-key FILE";
            Failure::file("reading", path, &error).advise(advice)
        })
    };
    let key = given.key.as_deref().map(read).transpose()?.unwrap_or_default();
    Ok(Some(ClientCertificate { chain: read(chain)?, key, ..ClientCertificate::default() }))
}

fn deadlines(given: &cli::Deadlines) -> Option<Deadlines> {
    let deadlines = Deadlines {
        connect_ms: given.connect_ms,
        first_byte_ms: given.first_byte_ms,
        idle_ms: given.idle_ms,
        total_ms: given.total_ms,
    };
    (deadlines != Deadlines::default()).then_some(deadlines)
}

// === impl UpstreamRecord ===

impl From<Upstream> for UpstreamRecord {
    fn from(upstream: Upstream) -> Self {
        let profile = enum_name(upstream.profile().as_str_name(), "PROFILE_");
        let credentials = credentials::records(upstream.credentials);
        let first = credentials.first();
        let deadlines = upstream.deadlines.unwrap_or_default();
        let client_certificate = upstream.client_certificate.unwrap_or_default();
        let proxy_login = upstream.proxy_login.unwrap_or_default();
        let password = proxy_login.password.and_then(|password| password.source);
        let (proxy_password, proxy_password_name) =
            password.map(credentials::source_and_name).unzip();
        Self {
            name: upstream.name,
            url: upstream.url,
            credential: first.map(CredentialRecord::source),
            credential_name: first
                .map(CredentialRecord::name)
                .map(str::to_owned)
                .and_then(non_empty),
            credentials,
            profile,
            connect_ms: deadlines.connect_ms,
            first_byte_ms: deadlines.first_byte_ms,
            idle_ms: deadlines.idle_ms,
            total_ms: deadlines.total_ms,
            created_at: rfc3339(upstream.created_at),
            problem: non_empty(upstream.problem),
            proxy: non_empty(upstream.proxy),
            proxy_user: non_empty(proxy_login.user),
            proxy_password,
            proxy_password_name: proxy_password_name.flatten(),
            ca_certificates: non_empty(upstream.ca_certificates),
            client_certificate: non_empty(client_certificate.chain),
            client_subject: non_empty(client_certificate.subject),
            client_expires_at: rfc3339(client_certificate.expires_at),
            max_connections: upstream.max_connections,
            max_waiting: upstream.max_waiting,
            health_check: non_empty(upstream.health_check),
            health_check_interval_ms: upstream.health_check_interval_ms,
            breaker: None,
        }
    }
}

impl Record for UpstreamRecord {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "url",
        "credential",
        "credential_name",
        "profile",
        "connect_ms",
        "first_byte_ms",
        "idle_ms",
        "total_ms",
        "created_at",
        "problem",
        "ca_certificates",
        "proxy",
        "client_certificate",
        "client_subject",
        "client_expires_at",
        "max_connections",
        "max_waiting",
        "breaker",
        "credentials",
        "health_check",
        "health_check_interval_ms",
        "proxy_user",
        "proxy_password",
        "proxy_password_name",
    ];
    const COLUMNS: &'static [&'static str] =
        &["name", "url", "profile", "breaker", "credential", "credential_name", "problem"];
    const NARROW_COLUMNS: &'static [&'static str] =
        &["name", "url", "breaker", "problem", "credential", "credential_name", "profile"];

    fn text(&self, field: &str) -> Option<String> {
        let lines = || self.credentials.iter().map(CredentialRecord::describe).collect::<Vec<_>>();
        match field {
            "credential" => credentials::joined(&self.credentials, |it| it.source()),
            "credential_name" => credentials::joined(&self.credentials, CredentialRecord::name),
            "credentials" => Some(lines().join("; ")),
            _ => None,
        }
    }
}
