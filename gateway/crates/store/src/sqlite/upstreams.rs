//! Upstreams with their credentials.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{At, Count, Micros, ReadColumn, parameters};
use crate::StoreError;
use domain::id::{ModelId, UpstreamName};
use domain::upstream::{
    ClientCertificate, ConnectionBound, CredentialSource, Deadlines, HealthCheck, Proxy,
    ProxyChoice, ProxyLogin, Upstream,
};

/// Returns all upstreams.
pub(super) fn all(tx: &Connection) -> Result<Vec<Upstream>, StoreError> {
    let upstream = |row: &Row<'_>| {
        let span =
            |column| Ok::<_, rusqlite::Error>(row.column::<Option<Micros>>(column)?.map(|s| s.0));
        Ok(Upstream {
            name: row.column("name")?,
            url: row.column("url")?,
            credentials: first_credential(row)?.into_iter().collect(),
            profile: row.column("profile")?,
            deadlines: Deadlines {
                connect: span("connect")?,
                first_byte: span("first_byte")?,
                idle: span("idle")?,
                total: span("total")?,
            },
            proxy: proxy(row)?,
            ca_certificates: row.column("ca_certificates")?,
            client_certificate: client_certificate(row)?,
            connection_bound: connection_bound(row)?,
            health_check: health_check(row)?,
            created_at: row.column::<At>("created_at")?.0,
        })
    };
    let mut select = tx.prepare_cached("SELECT * FROM upstreams ORDER BY name")?;
    let mut upstreams: Vec<Upstream> = select.query_map([], upstream)?.collect::<Result<_, _>>()?;
    let sql =
        "SELECT kind, credential FROM further_credentials WHERE upstream = ? ORDER BY position";
    let mut select = tx.prepare_cached(sql)?;
    for upstream in &mut upstreams {
        let further = select.query_map(parameters![upstream.name], |row| {
            credential(row.get_ref(0)?.as_str()?, row.column(1)?)
        })?;
        for credential in further {
            upstream.credentials.push(credential?);
        }
    }
    Ok(upstreams)
}

/// Adds or replaces an upstream by its name, credentials included.
pub(super) fn put(tx: &Connection, upstream: &Upstream) -> Result<(), StoreError> {
    let mut credentials = upstream.credentials.iter().map(columns);
    let (kind, credential) = credentials.next().unzip();
    let login = upstream.proxy.login();
    let (password_kind, password) = login.map(|login| columns(&login.password)).unzip();
    // REPLACE would delete the row first and so violate the deployments' references.
    let sql = "INSERT INTO upstreams VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
        ON CONFLICT DO UPDATE SET \
        url = excluded.url, credential_kind = excluded.credential_kind, \
        credential = excluded.credential, profile = excluded.profile, \
        connect = excluded.connect, first_byte = excluded.first_byte, idle = excluded.idle, \
        created_at = excluded.created_at, ca_certificates = excluded.ca_certificates, \
        max_connections = excluded.max_connections, max_waiting = excluded.max_waiting, \
        total = excluded.total, client_certificate = excluded.client_certificate, \
        client_key = excluded.client_key, proxy = excluded.proxy, \
        health_check = excluded.health_check, \
        health_check_interval = excluded.health_check_interval, \
        proxy_user = excluded.proxy_user, proxy_password_kind = excluded.proxy_password_kind, \
        proxy_password = excluded.proxy_password";
    tx.prepare_cached(sql)?.execute(parameters![
        upstream.name,
        upstream.url,
        kind.unwrap_or("none"),
        credential,
        upstream.profile,
        upstream.deadlines.connect.map(Micros),
        upstream.deadlines.first_byte.map(Micros),
        upstream.deadlines.idle.map(Micros),
        At(upstream.created_at),
        upstream.ca_certificates,
        upstream.connection_bound.map(|bound| bound.max_connections),
        upstream.connection_bound.map(|bound| bound.max_waiting),
        upstream.deadlines.total.map(Micros),
        upstream.client_certificate.as_ref().map(|it| it.chain.clone()),
        upstream.client_certificate.as_ref().map(|it| it.sealed_key.clone()),
        upstream.proxy.text(),
        upstream.health_check.as_ref().map(|check| check.path.clone()),
        upstream.health_check.as_ref().map(|check| Micros(check.interval)),
        login.map(|login| &login.user),
        password_kind,
        password
    ])?;
    let sql = "DELETE FROM further_credentials WHERE upstream = ?";
    tx.prepare_cached(sql)?.execute(parameters![upstream.name])?;
    let mut insert = tx.prepare_cached("INSERT INTO further_credentials VALUES (?, ?, ?, ?)")?;
    for (position, (kind, credential)) in credentials.enumerate() {
        insert.execute(parameters![upstream.name, Count(position as u64), kind, credential])?;
    }
    Ok(())
}

/// Returns the kind of a credential and its name, path or encrypted bytes.
fn columns(source: &CredentialSource) -> (&'static str, &[u8]) {
    match source {
        CredentialSource::Env(name) => ("env", name.as_bytes()),
        CredentialSource::File(path) => ("file", path.as_bytes()),
        CredentialSource::Sealed(bytes) => ("sealed", bytes),
    }
}

/// Removes an upstream; [`StoreError::Conflict`] while a model is deployed on it.
pub(super) fn remove(tx: &Connection, name: &UpstreamName) -> Result<(), StoreError> {
    let sql = "SELECT model FROM deployments WHERE upstream = ? ORDER BY model LIMIT 1";
    let user: Option<ModelId> =
        tx.prepare_cached(sql)?.query_row(parameters![name], |row| row.column(0)).optional()?;
    if let Some(model) = user {
        let text = format!("upstream `{name}` is in use by model `{model}`");
        return Err(StoreError::Conflict(text));
    }
    match tx.prepare_cached("DELETE FROM upstreams WHERE name = ?")?.execute(parameters![name])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

fn client_certificate(row: &Row<'_>) -> rusqlite::Result<Option<ClientCertificate>> {
    let columns = (row.column("client_certificate")?, row.column("client_key")?);
    let certificate = |(chain, sealed_key)| ClientCertificate { chain, sealed_key };
    Ok(Option::zip(columns.0, columns.1).map(certificate))
}

fn connection_bound(row: &Row<'_>) -> rusqlite::Result<Option<ConnectionBound>> {
    let columns = (row.column("max_connections")?, row.column("max_waiting")?);
    let bound = |(max_connections, max_waiting)| ConnectionBound { max_connections, max_waiting };
    Ok(Option::zip(columns.0, columns.1).map(bound))
}

fn health_check(row: &Row<'_>) -> rusqlite::Result<Option<HealthCheck>> {
    let columns = (row.column("health_check")?, row.column("health_check_interval")?);
    let check = |(path, Micros(interval))| HealthCheck { path, interval };
    Ok(Option::zip(columns.0, columns.1).map(check))
}

fn proxy(row: &Row<'_>) -> rusqlite::Result<ProxyChoice> {
    let url: Option<String> = row.column("proxy")?;
    Ok(match url {
        None => ProxyChoice::Environment,
        Some(text) if text == ProxyChoice::DIRECT => ProxyChoice::Direct,
        Some(url) => ProxyChoice::Configured(Proxy { url, login: proxy_login(row)? }),
    })
}

fn proxy_login(row: &Row<'_>) -> rusqlite::Result<Option<ProxyLogin>> {
    let user: Option<String> = row.column("proxy_user")?;
    let kind: Option<String> = row.column("proxy_password_kind")?;
    let password: Option<Vec<u8>> = row.column("proxy_password")?;
    let password = Option::zip(kind, password);
    let password = password.map(|(kind, password)| credential(&kind, password)).transpose()?;
    Ok(Option::zip(user, password).map(|(user, password)| ProxyLogin { user, password }))
}

/// Returns the credential in the row of an upstream.
fn first_credential(row: &Row<'_>) -> rusqlite::Result<Option<CredentialSource>> {
    match row.get_ref("credential_kind")?.as_str()? {
        "none" => Ok(None),
        kind => {
            let bytes = row.column::<Option<Vec<u8>>>("credential")?.unwrap_or_default();
            credential(kind, bytes).map(Some)
        }
    }
}

fn credential(kind: &str, bytes: Vec<u8>) -> rusqlite::Result<CredentialSource> {
    let text = |bytes| {
        String::from_utf8(bytes)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(3, Type::Blob, error.into()))
    };
    match kind {
        "env" => text(bytes).map(CredentialSource::Env),
        "file" => text(bytes).map(CredentialSource::File),
        "sealed" => Ok(CredentialSource::Sealed(bytes)),
        other => Err(rusqlite::Error::FromSqlConversionFailure(
            2,
            Type::Text,
            format!("`{other}` is not a kind of credential").into(),
        )),
    }
}
