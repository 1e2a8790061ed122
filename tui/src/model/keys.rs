//! API keys, without their secrets.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::plans::Limits;
use super::recent::Recent;
use super::table::{Tabular, Value};

/// What the text of a key begins with: `sk-tg-`, the public id, `-` and the secret follow.
const TEXT_PREFIX: &str = "sk-tg-";

/// Returns `text` with what follows the public id in the text of each key left out, so that a pasted
/// key is neither shown nor kept.
pub fn without_secrets(text: &str) -> String {
    let Some(start) = text.find(TEXT_PREFIX) else { return text.to_owned() };
    let (before, rest) = text.split_at(start + TEXT_PREFIX.len());
    let end = rest.find([' ', ',']).unwrap_or(rest.len());
    let (key, after) = rest.split_at(end);
    let id_end = key.find('-').map_or(key.len(), |dash| dash + 1);
    format!("{before}{}{}", &key[..id_end], without_secrets(after))
}

/// Returns the public id, or the part of it that is there, if `word` is the text of a key without
/// its secret.
pub fn public_id(word: &str) -> Option<&str> {
    let id = word.strip_prefix(TEXT_PREFIX)?.trim_end_matches('-');
    (!id.is_empty()).then_some(id)
}

/// An API key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    /// The public id.
    pub id: String,
    /// The name of the account that owns it.
    pub account: String,
    /// The label given by its owner.
    pub label: String,
    /// The limits of the key itself.
    pub limits: Limits,
    /// The maximum total spending: an exact decimal in US dollars.
    pub spend_cap_usd: Option<String>,
    /// The allowed models; empty means all models of the plan.
    pub models: Vec<String>,
    /// The creation time.
    pub created_at: Option<Timestamp>,
    /// The time of the last use, if any.
    pub last_used_at: Option<Timestamp>,
    /// The expiry time, if any.
    pub expires_at: Option<Timestamp>,
    /// The time of revocation, if revoked.
    pub revoked_at: Option<Timestamp>,
    /// The id of the key that replaced it, if it was rotated.
    pub successor: Option<String>,
    /// Its recent requests, if there are any.
    pub recent: Option<Recent>,
    /// The time by which it is sorted and filtered as expired.
    pub as_of: Option<Timestamp>,
}

/// The lifecycle state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Usable.
    Active,
    /// Rotated; usable until it expires.
    Replaced,
    /// Past its expiry time.
    Expired,
    /// Revoked.
    Revoked,
}

// === impl Key ===

impl Key {
    /// Returns the state at `now`. An unknown time never makes a key expired.
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

impl Tabular for Key {
    const COLUMNS: &'static [&'static str] = &[
        "label",
        "account",
        "id",
        "state",
        "last used",
        "created",
        "limits",
        "models",
        "recent",
        "p50",
        "p99",
    ];

    fn value(&self, column: &str) -> Value {
        match column {
            "label" => Value::text(&self.label),
            "account" => Value::text(&self.account),
            "id" => Value::text(&self.id),
            "state" => Value::text(self.state(self.as_of).name()),
            "last used" => Value::time(self.last_used_at),
            "created" => Value::time(self.created_at),
            "limits" => Value::count(self.limits.rpm),
            "models" => Value::text(&self.models.join(" ")),
            "recent" => Value::count(self.recent.as_ref().map(|it| it.requests)),
            "p50" => Value::milliseconds(self.recent.as_ref().and_then(|it| it.p50_ms)),
            "p99" => Value::milliseconds(self.recent.as_ref().and_then(|it| it.p99_ms)),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Key {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        let mut texts = vec![&*self.id, &self.account, &self.label, self.state(self.as_of).name()];
        texts.extend(self.models.iter().map(String::as_str));
        texts
    }
}

// === impl KeyState ===

impl KeyState {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Replaced => "replaced",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_key_is_left_out() {
        for (text, shown) in [
            ("", ""),
            ("sk-tg", "sk-tg"),
            ("sk-tg-d954", "sk-tg-d954"),
            ("sk-tg-d954-", "sk-tg-d954-"),
            ("sk-tg-d954-0a1b", "sk-tg-d954-"),
            ("key:sk-tg-d954-0a1b,sk-tg-e0-0c x", "key:sk-tg-d954-,sk-tg-e0- x"),
            ("laptop sk-tg--x cost>1", "laptop sk-tg-- cost>1"),
        ] {
            assert_eq!(without_secrets(text), shown, "{text}");
        }
    }

    #[test]
    fn the_public_id_is_part_of_the_text() {
        for (word, id) in [
            ("sk-tg-d954-", Some("d954")),
            ("sk-tg-d9", Some("d9")),
            ("sk-tg-", None),
            ("d9", None),
        ] {
            assert_eq!(public_id(word), id, "{word}");
        }
    }
}
