//! Upstreams with their credentials.

use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{ReadColumn, parameters};
use crate::StoreError;
use crate::codec::{At, Count, Micros};
use crate::objects;
use domain::id::{ModelId, UpstreamName};
use domain::upstream::{CredentialSource, Upstream};

/// Returns all upstreams.
pub(super) fn all(tx: &Connection) -> Result<Vec<Upstream>, StoreError> {
    let upstream = |row: &Row<'_>| {
        let credentials = first_credential(row)?.into_iter().collect();
        Ok(Upstream { credentials, ..objects::upstream(row)? })
    };
    let mut select = tx.prepare_cached("SELECT * FROM upstreams ORDER BY name")?;
    let mut upstreams: Vec<Upstream> = select.query_map([], upstream)?.collect::<Result<_, _>>()?;
    let sql =
        "SELECT kind, credential FROM further_credentials WHERE upstream = ? ORDER BY position";
    let mut select = tx.prepare_cached(sql)?;
    for upstream in &mut upstreams {
        let further = select.query_map(parameters![upstream.name], |row| {
            Ok(objects::credential(row.get_ref(0)?.as_str()?, row.column(1)?)?)
        })?;
        for credential in further {
            upstream.credentials.push(credential?);
        }
    }
    Ok(upstreams)
}

/// Adds or replaces an upstream by its name, credentials included.
pub(super) fn put(tx: &Connection, upstream: &Upstream) -> Result<(), StoreError> {
    let mut credentials = upstream.credentials.iter().map(objects::credential_columns);
    let (kind, credential) = credentials.next().unzip();
    let login = upstream.proxy.login();
    let (password_kind, password) =
        login.map(|login| objects::credential_columns(&login.password)).unzip();
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

/// Returns the credential in the row of an upstream.
fn first_credential(row: &Row<'_>) -> rusqlite::Result<Option<CredentialSource>> {
    match row.get_ref("credential_kind")?.as_str()? {
        "none" => Ok(None),
        kind => {
            let bytes = row.column::<Option<Vec<u8>>>("credential")?.unwrap_or_default();
            Ok(Some(objects::credential(kind, bytes)?))
        }
    }
}
