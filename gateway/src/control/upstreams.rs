//! Upstreams: where models are served, and with which credential. Operators only.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::change::{Again, Change};
use super::{Caller, Control, ControlError, credentials};
use crate::domain::Invalid;
use crate::domain::audit::AuditAction;
use crate::domain::id::UpstreamName;
use crate::domain::upstream::{CredentialSource, Deadlines, Profile, Upstream};
use crate::store::StoreError;

const LONGEST_URL: usize = 2_048;
const LONGEST_SOURCE: usize = 4_096;
const LONGEST_DEADLINE: Duration = Duration::from_hours(24);

/// What to change of an upstream; `None` stays as it is.
#[derive(Debug, Default)]
pub struct UpstreamChange {
    /// The base URL.
    pub url: Option<String>,
    /// Where its credential comes from.
    pub credential: Option<CredentialWish>,
    /// Its dialect.
    pub profile: Option<Profile>,
    /// How long to wait for it; within, `None` stays and zero means the default.
    pub deadlines: Deadlines,
}

/// A credential as an operator gives it.
#[derive(Debug)]
pub enum CredentialWish {
    /// It wants none.
    None,
    /// An environment variable of ours, by name.
    Env(String),
    /// A file on our host, by path.
    File(String),
    /// The credential itself; it is stored sealed.
    Secret(SecretString),
}

/// An upstream with what is wrong with its credential.
#[derive(Clone, Debug)]
pub struct UpstreamView {
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// What is wrong with its credential; empty if nothing is.
    pub problem: String,
}

impl Control {
    /// Lists upstreams by name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn list_upstreams(&self, caller: &Caller) -> Result<Vec<UpstreamView>, ControlError> {
        caller.require_operator("see upstreams")?;
        let catalogue = self.directory.catalogue();
        Ok(catalogue.upstreams.values().map(|upstream| self.upstream_view(upstream)).collect())
    }

    /// Adds an upstream.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Exists`] if the name is taken,
    /// [`ControlError::Invalid`] if a rule is broken.
    pub async fn add_upstream(
        self: &Arc<Self>,
        caller: &Caller,
        name: UpstreamName,
        change: UpstreamChange,
    ) -> Result<UpstreamView, ControlError> {
        caller.require_operator("add upstreams")?;
        self.write(Some(caller), move |control| async move {
            if control.directory.catalogue().upstreams.contains_key(&name) {
                return Err(ControlError::Exists(format!(
                    "upstream `{name}` exists; change it with `ctl upstream update`"
                )));
            }
            let upstream = Upstream {
                name,
                url: String::new(),
                credential: CredentialSource::None,
                profile: Profile::Generic,
                deadlines: Deadlines::default(),
                created_at: control.clock.now(),
            };
            put_upstream(&control, AuditAction::UpstreamAdd, upstream, change).await
        })
        .await
        .or_again(|done| self.upstream_as_it_is(&done.object))
    }

    /// Changes an upstream.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::Invalid`] if a rule is broken.
    pub async fn update_upstream(
        self: &Arc<Self>,
        caller: &Caller,
        name: String,
        change: UpstreamChange,
    ) -> Result<UpstreamView, ControlError> {
        caller.require_operator("change upstreams")?;
        self.write(Some(caller), move |control| async move {
            let upstream = control.directory.catalogue().upstreams.get(name.as_str()).cloned();
            let upstream = upstream.ok_or_else(|| ControlError::missing("upstream", &name))?;
            let upstream = Upstream::clone(&upstream);
            put_upstream(&control, AuditAction::UpstreamUpdate, upstream, change).await
        })
        .await
        .or_again(|done| self.upstream_as_it_is(&done.object))
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
        caller.require_operator("remove upstreams")?;
        self.write(Some(caller), move |control| async move {
            let catalogue = control.directory.catalogue().clone();
            let upstream = catalogue.upstreams.get(name.as_str());
            let upstream = upstream.ok_or_else(|| ControlError::missing("upstream", &name))?;
            let users: Vec<_> = catalogue
                .models
                .values()
                .filter(|model| model.deployments.iter().any(|d| d.upstream == upstream.name))
                .map(|model| format!("`{}`", model.id))
                .collect();
            if !users.is_empty() {
                let users = users.join(", ");
                return Err(ControlError::InUse(format!(
                    "upstream `{name}` serves {users}; remove or move these models first"
                )));
            }
            let entry = control.entry(AuditAction::UpstreamRemove, name.as_str(), None, "");
            let removed = control.store.remove_upstream(&upstream.name, &entry).await;
            removed.map_err(|error| match error {
                StoreError::Conflict(text) => ControlError::InUse(text),
                error => error.into(),
            })?;
            control.directory.change_catalogue(|catalogue| {
                catalogue.upstreams.remove(&upstream.name);
            });
            control.refresh_credentials(None).await;
            Ok(())
        })
        .await
        .or_again(|_| Ok(()))
    }

    fn upstream_as_it_is(&self, name: &str) -> Result<UpstreamView, ControlError> {
        let upstream = self.directory.catalogue().upstreams.get(name).cloned();
        let upstream = upstream.ok_or_else(|| ControlError::missing("upstream", name))?;
        Ok(self.upstream_view(&upstream))
    }

    /// Resolves all credentials anew, as if `changed` were in the catalogue.
    async fn refresh_credentials(&self, changed: Option<&Arc<Upstream>>) {
        let mut upstreams = self.directory.catalogue().upstreams.clone();
        upstreams.extend(changed.map(|upstream| (upstream.name.clone(), upstream.clone())));
        self.credentials.refresh(upstreams.into_values()).await;
    }

    fn check_credential(&self, wish: CredentialWish) -> Result<CredentialSource, Invalid> {
        let check = |field: &'static str, text: &str| {
            let fits = (1..=LONGEST_SOURCE).contains(&text.len());
            if fits && !text.chars().any(char::is_control) {
                return Ok(());
            }
            let message = format!(
                "`{field}` must have 1 to {LONGEST_SOURCE} bytes and no control characters"
            );
            Err(Invalid::new(field, message))
        };
        match wish {
            CredentialWish::None => Ok(CredentialSource::None),
            CredentialWish::Env(name) => {
                check("credential.env", &name)?;
                if name.contains('=') {
                    let message = "`credential.env` must be a variable's name, not its value";
                    return Err(Invalid::new("credential.env", message));
                }
                Ok(CredentialSource::Env(name))
            }
            CredentialWish::File(path) => {
                check("credential.file", &path)?;
                if !std::path::Path::new(&path).is_absolute() {
                    let message =
                        "`credential.file` must be an absolute path on the gateway's host";
                    return Err(Invalid::new("credential.file", message));
                }
                Ok(CredentialSource::File(path))
            }
            CredentialWish::Secret(secret) => match credentials::fault(&secret) {
                None => Ok(self.credentials.seal(&secret)),
                Some(fault) => {
                    let message = format!("`credential.secret` {fault}");
                    Err(Invalid::new("credential.secret", message))
                }
            },
        }
    }

    fn upstream_view(&self, upstream: &Arc<Upstream>) -> UpstreamView {
        let problem = self.credentials.problem(&upstream.name);
        UpstreamView { upstream: upstream.clone(), problem }
    }
}

async fn put_upstream(
    control: &Change,
    action: AuditAction,
    mut upstream: Upstream,
    change: UpstreamChange,
) -> Result<UpstreamView, ControlError> {
    let changed = change.fields();
    upstream.url = check_url(change.url.as_deref().unwrap_or(&upstream.url))?;
    upstream.profile = change.profile.unwrap_or(upstream.profile);
    let (old, new) = (upstream.deadlines, change.deadlines);
    upstream.deadlines = Deadlines {
        connect: check_deadline("deadlines.connect_ms", new.connect, old.connect)?,
        first_byte: check_deadline("deadlines.first_byte_ms", new.first_byte, old.first_byte)?,
        idle: check_deadline("deadlines.idle_ms", new.idle, old.idle)?,
    };
    if let Some(wish) = change.credential {
        upstream.credential = control.check_credential(wish)?;
    }
    let entry = control.entry(action, upstream.name.as_str(), None, changed);
    control.store.put_upstream(&upstream, &entry).await?;
    let upstream = Arc::new(upstream);
    // before the directory, so that no request finds an upstream without its credential
    control.refresh_credentials(Some(&upstream)).await;
    control.directory.change_catalogue(|catalogue| {
        catalogue.upstreams.insert(upstream.name.clone(), upstream.clone());
    });
    Ok(control.upstream_view(&upstream))
}

impl UpstreamChange {
    /// Names the fields that it changes: what is in them may be a secret.
    fn fields(&self) -> String {
        let changed = [
            ("url", self.url.is_some()),
            ("credential", self.credential.is_some()),
            ("profile", self.profile.is_some()),
            ("deadlines", self.deadlines != Deadlines::default()),
        ];
        let names: Vec<_> =
            changed.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// Checks a base URL and takes the slashes off its end. Messages do not repeat it: what is wrong with
/// it may be that it holds a password.
fn check_url(url: &str) -> Result<String, Invalid> {
    let invalid = |message: &str| Err(Invalid::new("url", message));
    if url.len() > LONGEST_URL {
        return invalid("`url` is too long");
    }
    if url.starts_with("sim:") {
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return invalid("`url` must not contain spaces or control characters");
        }
        return Ok(url.to_owned());
    }
    let Ok(parsed) = url.parse::<http::Uri>() else {
        return invalid("`url` must be `http://HOST[:PORT][/PATH]`, `https://…` or `sim:`");
    };
    let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
    match parsed.authority() {
        Some(authority) if is_http && !authority.host().is_empty() => {
            if authority.as_str().contains('@') {
                return invalid(
                    "`url` must not hold a name or password; give the upstream a credential",
                );
            }
        }
        Some(_) | None => {
            return invalid("`url` must be `http://HOST[:PORT][/PATH]`, `https://…` or `sim:`");
        }
    }
    if parsed.query().is_some() || url.contains('#') {
        return invalid("`url` must not have a query or a fragment: a path is added to it");
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn check_deadline(
    field: &'static str,
    new: Option<Duration>,
    old: Option<Duration>,
) -> Result<Option<Duration>, Invalid> {
    let deadline = new.or(old).filter(|deadline| !deadline.is_zero());
    if deadline.is_some_and(|deadline| deadline > LONGEST_DEADLINE) {
        let most = LONGEST_DEADLINE.as_millis();
        return Err(Invalid::new(field, format!("`{field}` must be at most {most}")));
    }
    Ok(deadline)
}
