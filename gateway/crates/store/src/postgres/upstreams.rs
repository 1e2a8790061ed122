//! Upstreams with their credentials.

use std::collections::HashMap;

use super::codec::{ReadColumn, arrays, parameters};
use super::error::{Constrained, expect_changed};
use super::transaction::Transaction;
use crate::StoreError;
use crate::codec::{At, Count, Micros};
use crate::objects;
use domain::id::{ModelId, UpstreamName};
use domain::upstream::{CredentialSource, Upstream};

/// Returns all upstreams.
pub(super) async fn all(tx: &Transaction<'_>) -> Result<Vec<Upstream>, StoreError> {
    let mut credentials = HashMap::<UpstreamName, Vec<CredentialSource>>::new();
    let sql = "SELECT upstream, kind, credential FROM credentials ORDER BY upstream, position";
    for row in tx.query(sql, &[]).await? {
        let kind = row.column::<String>("kind")?;
        let credential = objects::credential(&kind, row.column("credential")?)?;
        credentials.entry(row.column("upstream")?).or_default().push(credential);
    }
    let sql = "SELECT name, url, profile, connect, first_byte, idle, total, proxy, proxy_user, \
        proxy_password_kind, proxy_password, ca_certificates, client_certificate, client_key, \
        max_connections, max_waiting, health_check, health_check_interval, created_at \
        FROM upstreams ORDER BY name";
    let rows = tx.query(sql, &[]).await?;
    let mut upstreams: Vec<Upstream> =
        rows.iter().map(objects::upstream).collect::<Result<_, _>>()?;
    for upstream in &mut upstreams {
        upstream.credentials = credentials.remove(&upstream.name).unwrap_or_default();
    }
    Ok(upstreams)
}

/// Adds or replaces an upstream by its name, credentials included.
pub(super) async fn put(tx: &Transaction<'_>, upstream: &Upstream) -> Result<(), StoreError> {
    let sql = "INSERT INTO upstreams (name, url, profile, connect, first_byte, idle, created_at, \
        ca_certificates, max_connections, max_waiting, total, client_certificate, client_key, \
        proxy, health_check, health_check_interval, proxy_user, proxy_password_kind, \
        proxy_password) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
        $16, $17, $18, $19) \
        ON CONFLICT (name) DO UPDATE SET url = excluded.url, profile = excluded.profile, \
        connect = excluded.connect, first_byte = excluded.first_byte, idle = excluded.idle, \
        created_at = excluded.created_at, ca_certificates = excluded.ca_certificates, \
        max_connections = excluded.max_connections, max_waiting = excluded.max_waiting, \
        total = excluded.total, client_certificate = excluded.client_certificate, \
        client_key = excluded.client_key, proxy = excluded.proxy, \
        health_check = excluded.health_check, \
        health_check_interval = excluded.health_check_interval, \
        proxy_user = excluded.proxy_user, proxy_password_kind = excluded.proxy_password_kind, \
        proxy_password = excluded.proxy_password";
    let login = upstream.proxy.login();
    let password = login.map(|login| objects::credential_columns(&login.password));
    let (password_kind, password) = password.unzip();
    let values = parameters![
        upstream.name,
        upstream.url,
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
    ];
    tx.execute(sql, values).await?;
    let sql = "DELETE FROM credentials WHERE upstream = $1";
    tx.execute(sql, parameters![upstream.name]).await?;
    let sql = "INSERT INTO credentials (upstream, position, kind, credential) \
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[])";
    let credentials = (0..).zip(&upstream.credentials).map(|(position, credential)| {
        let (kind, bytes) = objects::credential_columns(credential);
        (&upstream.name, position, kind, bytes)
    });
    let credentials: Vec<_> = credentials.collect();
    let values = arrays!(credentials, |row| row.0, Count(row.1), row.2, row.3);
    tx.execute(sql, values).await?;
    Ok(())
}

/// Removes an upstream; [`StoreError::Conflict`] while a model is deployed on it.
pub(super) async fn remove(tx: &Transaction<'_>, name: &UpstreamName) -> Result<(), StoreError> {
    let sql = "SELECT model FROM deployments WHERE upstream = $1 ORDER BY model LIMIT 1";
    if let Some(row) = tx.query_opt(sql, parameters![name]).await? {
        let model: ModelId = row.column(0)?;
        let text = format!("upstream `{name}` is in use by model `{model}`");
        return Err(StoreError::Conflict(text));
    }
    let sql = "DELETE FROM upstreams WHERE name = $1";
    // A deployment that is added at the same time appears as a missing upstream.
    expect_changed(tx.execute(sql, parameters![name]).await.or_not_found()?)
}
