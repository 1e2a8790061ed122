//! Plans and upstreams, and the first content of an empty store; models are in
//! `models.rs`.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{At, Count, List, Micros, ReadColumn, ToColumn, parameters};
use super::{SqliteStore, audit, keys, models};
use crate::{Catalogue, CatalogueUpdate, StoreError};
use domain::audit::AuditEntry;
use domain::id::{ModelId, UpstreamName};
use domain::model::Model;
use domain::plan::Plan;
use domain::upstream::{ClientCertificate, ConnectionBound, CredentialSource, Deadlines, Upstream};

#[async_trait]
impl Catalogue for SqliteStore {
    async fn put_plan(&self, plan: &Plan, audit: &AuditEntry) -> Result<(), StoreError> {
        let plan = plan.clone();
        self.write_audited(audit, move |tx| put_plan(tx, &plan)).await
    }

    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError> {
        let model = model.clone();
        self.write_audited(audit, move |tx| models::put(tx, &model)).await
    }

    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError> {
        let id = id.clone();
        self.write_audited(audit, move |tx| models::remove(tx, &id)).await
    }

    async fn put_upstream(
        &self,
        upstream: &Upstream,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let upstream = upstream.clone();
        self.write_audited(audit, move |tx| put_upstream(tx, &upstream)).await
    }

    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let name = name.clone();
        self.write_audited(audit, move |tx| remove_upstream(tx, &name)).await
    }

    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError> {
        let (update, audit) = (update.clone(), audit.to_vec());
        self.write(move |tx| {
            apply(tx, &update)?;
            audit.iter().try_for_each(|entry| audit::insert(tx, entry))
        })
        .await
    }

    async fn seed(
        &self,
        plans: &[Plan],
        upstreams: &[Upstream],
        models: &[Model],
    ) -> Result<bool, StoreError> {
        let (plans, upstreams, models) = (plans.to_vec(), upstreams.to_vec(), models.to_vec());
        self.write(move |tx| {
            if !mark_seeded_if_empty(tx)? {
                return Ok(false);
            }
            plans.iter().try_for_each(|plan| put_plan(tx, plan))?;
            upstreams.iter().try_for_each(|upstream| put_upstream(tx, upstream))?;
            models.iter().try_for_each(|model| models::put(tx, model))?;
            Ok(true)
        })
        .await
    }
}

/// Makes all changes of `update`.
fn apply(tx: &Connection, update: &CatalogueUpdate) -> Result<(), StoreError> {
    update.removed_models.iter().try_for_each(|id| models::remove(tx, id))?;
    // A name may move from one model to another.
    update.models.iter().try_for_each(|model| models::delete_if_exists(tx, &model.id))?;
    update.upstreams.iter().try_for_each(|upstream| put_upstream(tx, upstream))?;
    update.models.iter().try_for_each(|model| models::put(tx, model))?;
    update.removed_upstreams.iter().try_for_each(|name| remove_upstream(tx, name))?;
    update.plans.iter().try_for_each(|plan| put_plan(tx, plan))
}

/// Returns all plans.
pub(super) fn plans(tx: &Connection) -> Result<Vec<Plan>, StoreError> {
    let plan = |row: &Row<'_>| {
        Ok(Plan {
            name: row.column("name")?,
            trial_credit: row.column("trial_credit")?,
            limits: keys::limits(row)?,
            models: row.column::<List>("models")?.into_models(),
        })
    };
    let mut select = tx.prepare_cached("SELECT * FROM plans ORDER BY name")?;
    Ok(select.query_map([], plan)?.collect::<Result<_, _>>()?)
}

/// Returns all upstreams.
pub(super) fn upstreams(tx: &Connection) -> Result<Vec<Upstream>, StoreError> {
    let upstream = |row: &Row<'_>| {
        let span =
            |column| Ok::<_, rusqlite::Error>(row.column::<Option<Micros>>(column)?.map(|s| s.0));
        Ok(Upstream {
            name: row.column("name")?,
            url: row.column("url")?,
            credential: credential(row)?,
            profile: row.column("profile")?,
            deadlines: Deadlines {
                connect: span("connect")?,
                first_byte: span("first_byte")?,
                idle: span("idle")?,
                total: span("total")?,
            },
            proxy: row.column("proxy")?,
            ca_certificates: row.column("ca_certificates")?,
            client_certificate: client_certificate(row)?,
            connection_bound: connection_bound(row)?,
            created_at: row.column::<At>("created_at")?.0,
        })
    };
    let mut select = tx.prepare_cached("SELECT * FROM upstreams ORDER BY name")?;
    Ok(select.query_map([], upstream)?.collect::<Result<_, _>>()?)
}

fn put_plan(tx: &Connection, plan: &Plan) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?.execute(
        parameters![
            plan.name,
            plan.trial_credit,
            plan.limits.rpm.map(Count),
            plan.limits.tpm.map(Count),
            plan.limits.concurrency.map(Count),
            List::of(plan.models.iter().map(ModelId::as_str)),
            plan.limits.monthly_tokens.map(Count),
            plan.limits.observe
        ],
    )?;
    Ok(())
}

fn put_upstream(tx: &Connection, upstream: &Upstream) -> Result<(), StoreError> {
    let (kind, credential): (&str, &dyn ToColumn) = match &upstream.credential {
        CredentialSource::None => ("none", &None::<Vec<u8>>),
        CredentialSource::Env(name) => ("env", &name.as_bytes()),
        CredentialSource::File(path) => ("file", &path.as_bytes()),
        CredentialSource::Sealed(bytes) => ("sealed", bytes),
    };
    // REPLACE would delete the row first and so violate the deployments' references.
    let sql = "INSERT INTO upstreams VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET \
        url = excluded.url, credential_kind = excluded.credential_kind, \
        credential = excluded.credential, profile = excluded.profile, \
        connect = excluded.connect, first_byte = excluded.first_byte, idle = excluded.idle, \
        created_at = excluded.created_at, ca_certificates = excluded.ca_certificates, \
        max_connections = excluded.max_connections, max_waiting = excluded.max_waiting, \
        total = excluded.total, client_certificate = excluded.client_certificate, \
        client_key = excluded.client_key, proxy = excluded.proxy";
    tx.prepare_cached(sql)?.execute(parameters![
        upstream.name,
        upstream.url,
        kind,
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
        upstream.proxy
    ])?;
    Ok(())
}

fn remove_upstream(tx: &Connection, name: &UpstreamName) -> Result<(), StoreError> {
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

fn credential(row: &Row<'_>) -> rusqlite::Result<CredentialSource> {
    let bytes = row.column::<Option<Vec<u8>>>("credential")?.unwrap_or_default();
    let text = |bytes| {
        String::from_utf8(bytes)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(3, Type::Blob, error.into()))
    };
    match row.get_ref("credential_kind")?.as_str()? {
        "none" => Ok(CredentialSource::None),
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

/// Marks the catalogue as seeded. Returns whether it is empty and was not marked before.
fn mark_seeded_if_empty(tx: &Connection) -> Result<bool, StoreError> {
    if tx.execute("INSERT OR IGNORE INTO meta VALUES ('seeded', 'yes')", [])? == 0 {
        return Ok(false);
    }
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM plans) AND NOT EXISTS (SELECT 1 FROM upstreams) \
        AND NOT EXISTS (SELECT 1 FROM models)";
    Ok(tx.query_row(sql, [], |row| row.column(0))?)
}
