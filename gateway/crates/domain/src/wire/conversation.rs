//! What identifies the conversation of a request, so that it can be sent to the server that has it cached.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A digest that all requests of one conversation share, on every gateway and after every restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationKey(pub u64);

#[derive(Deserialize)]
struct ChatBody<'a> {
    #[serde(borrow)]
    prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
}

/// Hashes the messages up to the first one of the user.
struct Beginning<'h>(&'h mut Xxh3);

impl ConversationKey {
    /// Returns the key of the conversation that the client identifies by `prompt_cache_key`.
    pub fn of_cache_key(prompt_cache_key: &str) -> Self {
        Self(xxh3_64(prompt_cache_key.as_bytes()))
    }

    /// Returns the key of a chat request: that of its `prompt_cache_key`, or else of its messages up to the first one
    /// of the user, which later requests of the conversation repeat. `None` if it has neither.
    pub fn of_chat(body: &[u8]) -> Option<Self> {
        let body: ChatBody<'_> = serde_json::from_slice(body).ok()?;
        let named = body.prompt_cache_key.and_then(|key| {
            let key: Cow<'_, str> = serde_json::from_str::<Text<'_>>(key.get()).ok()?.0;
            (!key.is_empty()).then(|| Self::of_cache_key(&key))
        });
        named.or_else(|| {
            let mut hash = Xxh3::new();
            let mut messages = serde_json::Deserializer::from_str(body.messages?.get());
            let hashed = messages.deserialize_seq(Beginning(&mut hash));
            // The rest of the messages is left, which the deserializer reports as an error.
            _ = hashed;
            Some(Self(hash.digest()))
        })
    }
}

/// A string that is borrowed if it has no escape sequences.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for Beginning<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut messages: S) -> Result<(), S::Error> {
        while let Some(message) = messages.next_element::<&RawValue>()? {
            self.0.update(message.get().as_bytes());
            let message = serde_json::from_str::<Message<'_>>(message.get());
            if message.is_ok_and(|message| message.role.as_deref() == Some("user")) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(body: &str) -> Option<ConversationKey> {
        ConversationKey::of_chat(body.as_bytes())
    }

    fn messages(messages: &str) -> Option<ConversationKey> {
        key(&format!(r#"{{"model":"m","messages":[{messages}]}}"#))
    }

    #[test]
    fn all_turns_of_a_conversation_have_the_same_key() {
        let system = r#"{"role":"system","content":"be brief"}"#;
        let first = format!(r#"{system},{{"role":"user","content":"hi"}}"#);
        let later = format!(
            r#"{first},{{"role":"assistant","content":"hello"}},{{"role":"user","content":"and?"}}"#
        );
        assert!(messages(&first).is_some());
        assert_eq!(messages(&first), messages(&later));
        let other = format!(r#"{system},{{"role":"user","content":"ho"}}"#);
        assert_ne!(messages(&first), messages(&other));
    }

    #[test]
    fn a_cache_key_replaces_the_messages() {
        let named = |key: &str, text: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"{text}"}}],"prompt_cache_key":{key}}}"#
            )
        };
        assert_eq!(key(&named("\"a\"", "hi")), key(&named("\"\\u0061\"", "ho")));
        assert_eq!(key(&named("\"a\"", "hi")), Some(ConversationKey::of_cache_key("a")));
        for nothing in ["null", "\"\"", "7"] {
            assert_ne!(key(&named(nothing, "hi")), key(&named(nothing, "ho")), "{nothing}");
        }
    }

    #[test]
    fn a_body_without_messages_has_no_key() {
        assert_eq!(key("{}"), None);
        assert_eq!(key("[]"), None);
        assert_eq!(key("{"), None);
    }
}
