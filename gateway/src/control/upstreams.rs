//! Upstreams: their URLs, credentials and deadlines. Operators only.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;

use super::access::Permission;
use super::change::{ChangeContext, ReplayExt};
use super::upstream_settings::{
    changed_bound, changed_health_check, check_ca_certificates, check_deadline, check_url,
};
use super::{Caller, Control, ControlError};
use crate::directory::Catalogue;
use crate::upstream::certificate;
use domain::ValidationError;
use domain::audit::AuditAction;
use domain::audit_diff;
use domain::id::UpstreamName;
use domain::upstream::{CredentialSource, Deadlines, Profile, ProxyChoice, Upstream};
use store::StoreError;

/// A change of an upstream; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct UpstreamChange {
    /// The base URL.
    pub url: Option<String>,
    /// All credentials, in order.
    pub credentials: Option<Vec<NewCredential>>,
    /// The profile of the server.
    pub profile: Option<Profile>,
    /// The deadlines. `None` leaves a deadline unchanged; zero resets it to the default.
    pub deadlines: Deadlines,
    /// The URL of the proxy, [`ProxyChoice::DIRECT`], or an empty text for that of the environment.
    pub proxy: Option<String>,
    /// The login for the proxy.
    pub proxy_login: Option<NewProxyLogin>,
    /// The trusted CA certificates, in PEM; an empty text selects the host's and the public ones.
    pub ca_certificates: Option<String>,
    /// The certificate that it demands of the gateway.
    pub client_certificate: Option<NewClientCertificate>,
    /// The most connections; zero removes the bound.
    pub max_connections: Option<u32>,
    /// The most requests that wait for a connection.
    pub max_waiting: Option<u32>,
    /// The path of the health check; an empty text removes the check.
    pub health_check: Option<String>,
    /// The interval of the health check; zero resets it to the default.
    pub health_check_interval: Option<Duration>,
}

/// A requested credential source.
#[derive(Clone, Debug)]
pub enum NewCredential {
    /// The name of an environment variable of the gateway.
    Env(String),
    /// The absolute path of a file on the gateway's host.
    File(String),
    /// The credential itself; stored encrypted.
    Secret(SecretString),
    /// The current credential with this number, counted from 1.
    Current(u32),
}

/// A requested login for a proxy.
#[derive(Clone, Debug)]
pub struct NewProxyLogin {
    /// The user name; an empty text removes the login.
    pub user: String,
    /// The password; `None` for the current one.
    pub password: Option<NewCredential>,
}

/// A requested certificate of the gateway.
#[derive(Clone, Debug)]
pub struct NewClientCertificate {
    /// The certificate chain in PEM; an empty text removes the certificate.
    pub chain: String,
    /// The private key in PEM; `None` for the stored one.
    pub key: Option<SecretString>,
}

/// An upstream with the state of its credential.
#[derive(Clone, Debug)]
pub struct UpstreamView {
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// Why its credential cannot be used; empty if it can.
    pub problem: String,
    /// The subject of the gateway's certificate; empty without one.
    pub client_subject: String,
    /// The end of its validity.
    pub client_expires_at: Option<Timestamp>,
}

impl Control {
    /// Lists upstreams by name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn list_upstreams(&self, caller: &Caller) -> Result<Vec<UpstreamView>, ControlError> {
        caller.require(Permission::ReadAll)?;
        let catalogue = self.directory.catalogue();
        Ok(catalogue.upstreams.values().map(|upstream| self.upstream_view(upstream)).collect())
    }

    /// Adds an upstream.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Exists`] if the name is taken,
    /// [`ControlError::Invalid`] if a field is invalid.
    pub async fn add_upstream(
        self: &Arc<Self>,
        caller: &Caller,
        name: UpstreamName,
        change: UpstreamChange,
    ) -> Result<UpstreamView, ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        self.write(Some(caller), move |control| async move {
            if control.directory.catalogue().upstreams.contains_key(&name) {
                return Err(ControlError::Exists(format!(
                    "upstream `{name}` exists; change it with `ctl upstream update`"
                )));
            }
            let upstream = control.new_upstream(name, change)?;
            let details = audit_diff::describe(&upstream);
            put_upstream(&control, AuditAction::UpstreamAdd, upstream, details).await
        })
        .await
        .or_replay(|done| self.current_upstream(&done.object))
    }

    /// Changes an upstream.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::Invalid`] if a field is invalid.
    pub async fn update_upstream(
        self: &Arc<Self>,
        caller: &Caller,
        name: String,
        change: UpstreamChange,
    ) -> Result<UpstreamView, ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        self.write(Some(caller), move |control| async move {
            let upstream = control.find_upstream(&name)?;
            let changed = control.changed_upstream(&upstream, change)?;
            let details = describe_change(&upstream, &changed);
            put_upstream(&control, AuditAction::UpstreamUpdate, changed, details).await
        })
        .await
        .or_replay(|done| self.current_upstream(&done.object))
    }

    /// Removes an upstream.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::InUse`] while a model is deployed on it.
    pub async fn remove_upstream(
        self: &Arc<Self>,
        caller: &Caller,
        name: String,
    ) -> Result<(), ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        self.write(Some(caller), move |control| async move {
            let catalogue = control.directory.catalogue().clone();
            let upstream = catalogue.upstreams.get(name.as_str());
            let upstream = upstream.ok_or_else(|| ControlError::missing("upstream", &name))?;
            ensure_unused(&name, &catalogue)?;
            let details = audit_diff::describe(&**upstream);
            let entry =
                control.audit_entry(AuditAction::UpstreamRemove, name.as_str(), None, details);
            let removed = control.store.remove_upstream(&upstream.name, &entry).await;
            removed.map_err(|error| match error {
                StoreError::Conflict(text) => ControlError::InUse(text),
                error => error.into(),
            })?;
            control.directory.change_catalogue(|catalogue| {
                catalogue.upstreams.remove(&upstream.name);
            });
            control.drop_old_credentials();
            control.refresh_credentials(None).await;
            Ok(())
        })
        .await
        .or_replay(|_| Ok(()))
    }

    fn current_upstream(&self, name: &str) -> Result<UpstreamView, ControlError> {
        Ok(self.upstream_view(&self.find_upstream(name)?))
    }

    /// Finds an upstream of the catalogue.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist.
    pub(super) fn find_upstream(&self, name: &str) -> Result<Arc<Upstream>, ControlError> {
        let upstream = self.directory.catalogue().upstreams.get(name).cloned();
        upstream.ok_or_else(|| ControlError::missing("upstream", name))
    }

    /// Builds a new upstream with the defaults for fields that are not set.
    pub(super) fn new_upstream(
        &self,
        name: UpstreamName,
        change: UpstreamChange,
    ) -> Result<Upstream, ValidationError> {
        let upstream = Upstream::new(name, "", self.clock.now());
        self.changed_upstream(&upstream, change)
    }

    /// Returns `upstream` with `change` applied.
    pub(super) fn changed_upstream(
        &self,
        upstream: &Upstream,
        change: UpstreamChange,
    ) -> Result<Upstream, ValidationError> {
        let (old, new) = (upstream.deadlines, change.deadlines);
        let deadlines = Deadlines {
            connect: check_deadline("deadlines.connect_ms", new.connect, old.connect)?,
            first_byte: check_deadline("deadlines.first_byte_ms", new.first_byte, old.first_byte)?,
            idle: check_deadline("deadlines.idle_ms", new.idle, old.idle)?,
            total: check_deadline("deadlines.total_ms", new.total, old.total)?,
        };
        let credentials = match change.credentials {
            Some(credentials) => self.check_credentials(credentials, &upstream.credentials)?,
            None => upstream.credentials.clone(),
        };
        let url = check_url(change.url.as_deref().unwrap_or(&upstream.url))?;
        let proxy = self.changed_proxy(&upstream.proxy, change.proxy, change.proxy_login)?;
        if matches!(proxy, ProxyChoice::Configured(_)) && url.starts_with("sim:") {
            let message = "`proxy` is for an upstream whose `url` begins with `http:` or `https:`";
            return Err(ValidationError::new("proxy", message));
        }
        let ca_certificates = match change.ca_certificates {
            Some(pem) => check_ca_certificates(pem)?,
            None => upstream.ca_certificates.clone(),
        };
        if ca_certificates.is_some() && !url.starts_with("https:") {
            let message = "`ca_certificates` are for an upstream whose `url` begins with `https:`";
            return Err(ValidationError::new("ca_certificates", message));
        }
        let client_certificate = match change.client_certificate {
            Some(new) => self.check_client_certificate(new, upstream)?,
            None => upstream.client_certificate.clone(),
        };
        if client_certificate.is_some() && !url.starts_with("https:") {
            let message =
                "`client_certificate` is for an upstream whose `url` begins with `https:`";
            return Err(ValidationError::new("client_certificate", message));
        }
        let bound = upstream.connection_bound;
        Ok(Upstream {
            name: upstream.name.clone(),
            url,
            credentials,
            profile: change.profile.unwrap_or(upstream.profile),
            deadlines,
            proxy,
            ca_certificates,
            client_certificate,
            connection_bound: changed_bound(bound, change.max_connections, change.max_waiting)?,
            health_check: changed_health_check(
                upstream.health_check.as_ref(),
                change.health_check,
                change.health_check_interval,
            )?,
            created_at: upstream.created_at,
        })
    }

    /// Resolves all credentials again, and those of `changed`, entries which are about to be in the catalogue.
    /// The entries of which only the credential has changed are replaced by equal ones, so that their connections
    /// are closed, and returned.
    pub(super) async fn refresh_credentials<'a>(
        &self,
        changed: impl IntoIterator<Item = &'a Arc<Upstream>>,
    ) -> Vec<Arc<Upstream>> {
        let mut upstreams = self.current_upstreams();
        upstreams.extend(changed.into_iter().cloned());
        let rotated = self.credentials.refresh(upstreams).await;
        if !rotated.is_empty() {
            self.directory.change_catalogue(|catalogue| {
                for upstream in &rotated {
                    let entry = catalogue.upstreams.get_mut(&upstream.name);
                    if let Some(entry) = entry.filter(|entry| *entry == upstream) {
                        *entry = Arc::new(Upstream::clone(upstream));
                    }
                }
            });
        }
        rotated
    }

    /// Drops the credentials of entries that are no longer in the catalogue.
    pub(super) fn drop_old_credentials(&self) {
        self.credentials.retain(&self.current_upstreams());
    }

    fn current_upstreams(&self) -> Vec<Arc<Upstream>> {
        self.directory.catalogue().upstreams.values().cloned().collect()
    }

    fn upstream_view(&self, upstream: &Arc<Upstream>) -> UpstreamView {
        let certificate = upstream.client_certificate.as_ref();
        let shown = certificate.and_then(|it| certificate::subject_and_end(&it.chain).ok());
        let (client_subject, client_expires_at) = shown.unzip();
        UpstreamView {
            upstream: upstream.clone(),
            problem: self.credentials.problem(upstream),
            client_subject: client_subject.unwrap_or_default(),
            client_expires_at,
        }
    }
}

async fn put_upstream(
    control: &ChangeContext,
    action: AuditAction,
    upstream: Upstream,
    details: String,
) -> Result<UpstreamView, ControlError> {
    let entry = control.audit_entry(action, upstream.name.as_str(), None, details);
    control.store.put_upstream(&upstream, &entry).await?;
    let upstream = Arc::new(upstream);
    // Before the directory, so that no request finds an upstream without its credential.
    control.refresh_credentials([&upstream]).await;
    control.directory.change_catalogue(|catalogue| {
        catalogue.upstreams.insert(upstream.name.clone(), upstream.clone());
    });
    control.drop_old_credentials();
    Ok(control.upstream_view(&upstream))
}

/// Returns the audit details of a change. Sealed credentials are reported by their numbers, without their content.
pub(super) fn describe_change(before: &Upstream, after: &Upstream) -> String {
    let details = audit_diff::describe_changes(before, after);
    let changes = Some(details).filter(|details| details != audit_diff::NO_CHANGE);
    let logins = before.proxy.login().zip(after.proxy.login());
    let has_new_password = logins.is_some_and(|(before, after)| {
        let both = (&before.password, &after.password);
        matches!(both, (CredentialSource::Sealed(old), CredentialSource::Sealed(new)) if old != new)
    });
    let password = has_new_password.then(|| "proxy_password: sealed -> sealed anew".to_owned());
    let changes = changes
        .into_iter()
        .chain(describe_sealed(&before.credentials, &after.credentials))
        .chain(password);
    let changes = changes.collect::<Vec<_>>().join(", ");
    if changes.is_empty() { audit_diff::NO_CHANGE.to_owned() } else { changes }
}

/// Describes which sealed credentials were removed and added, by their numbers before and after; `None` if the other
/// audited fields say it.
fn describe_sealed(before: &[CredentialSource], after: &[CredentialSource]) -> Option<String> {
    use CredentialSource::Sealed;
    match (before, after) {
        ([], _) | (_, []) => return None,
        ([Sealed(old)], [Sealed(new)]) => {
            return (old != new).then(|| "credential: sealed -> sealed anew".to_owned());
        }
        _ => {}
    }
    let missing_in = |others: &[CredentialSource], all: &[CredentialSource], change: &str| {
        let missing = (1..)
            .zip(all)
            .filter(|(_, source)| matches!(source, Sealed(_)) && !others.contains(source));
        let numbers: Vec<_> = missing.map(|(number, _): (u32, _)| number.to_string()).collect();
        (!numbers.is_empty()).then(|| format!("{change} number {}", numbers.join(" and ")))
    };
    let removed = missing_in(after, before, "removed");
    let changes: Vec<_> = removed.into_iter().chain(missing_in(before, after, "added")).collect();
    if !changes.is_empty() {
        return Some(format!("sealed credentials: {}", changes.join("; ")));
    }
    let is_reordered = before != after && before.len() == after.len();
    is_reordered.then(|| "credentials: in another order".to_owned())
}

/// Refuses the removal of an upstream that has deployments in `catalogue`.
pub(super) fn ensure_unused(name: &str, catalogue: &Catalogue) -> Result<(), ControlError> {
    let users: Vec<_> = catalogue
        .models
        .values()
        .filter(|model| model.deployments.iter().any(|at| at.upstream.as_str() == name))
        .map(|model| format!("`{}`", model.id))
        .collect();
    if users.is_empty() {
        return Ok(());
    }
    let users = users.join(", ");
    Err(ControlError::InUse(format!(
        "upstream `{name}` serves {users}; remove or move these models first"
    )))
}
