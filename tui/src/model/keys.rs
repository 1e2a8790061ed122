//! API keys, without their secrets.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::plans::Limits;

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The public id.
    pub id: String,
    /// The account that it belongs to.
    pub account: String,
    /// What its owner calls it.
    pub label: String,
    /// Its own limits.
    pub limits: Limits,
    /// The most that it may spend in all: an exact decimal in US dollars.
    pub spend_cap_usd: Option<String>,
    /// The models that it may use; empty means all that the plan allows.
    pub models: Vec<String>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When it was last used, if ever.
    pub last_used_at: Option<Timestamp>,
    /// When it ends by itself, if ever.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// The key that took its place, if it was rotated.
    pub successor: Option<String>,
}

/// Whether a key can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It can.
    Active,
    /// It can until its end; another took its place.
    Replaced,
    /// It has ended by itself.
    Expired,
    /// It was revoked.
    Revoked,
}

// === impl Key ===

impl Key {
    /// Returns whether it can be used at `now`.
    pub fn state(&self, now: Option<Timestamp>) -> KeyState {
        if self.revoked_at.is_some() {
            KeyState::Revoked
        } else if now.zip(self.expires_at).is_some_and(|(now, end)| end <= now) {
            KeyState::Expired
        } else if self.successor.is_some() {
            KeyState::Replaced
        } else {
            KeyState::Active
        }
    }
}

impl ListEntry for Key {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        let state = if self.revoked_at.is_some() { "revoked" } else { "active" };
        let mut texts = vec![&*self.id, &self.account, &self.label, state];
        texts.extend(self.models.iter().map(String::as_str));
        texts
    }
}

// === impl State ===

impl KeyState {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Replaced => "replaced",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}
