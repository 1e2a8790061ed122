//! What identifies the conversation of a request, so that it can be sent to the server that has it cached.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::json::{JsonReader, Malformed, RawJson, as_utf8};

/// A digest that all requests of one conversation share, on every gateway and after every restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationKey(pub u64);

impl ConversationKey {
    /// Returns the key of the conversation that the client identifies by `prompt_cache_key`.
    pub fn of_cache_key(prompt_cache_key: &str) -> Self {
        Self(xxh3_64(prompt_cache_key.as_bytes()))
    }

    /// Returns the key of a chat request: that of its `prompt_cache_key`, or else of its messages up to the first one
    /// of the user, which later requests of the conversation repeat. `None` if it has neither. Of a field that is given twice, the last
    /// value counts.
    pub fn of_chat(body: &[u8]) -> Option<Self> {
        let (mut named, mut beginning) = (None, None);
        let mut json = JsonReader::new(as_utf8(body)?);
        let read: Result<(), Malformed> = json.object(|json, name| {
            let value = json.value()?;
            match &*name {
                "prompt_cache_key" => {
                    named = value.string().filter(|key| !key.is_empty());
                }
                "messages" => beginning = Some(value).filter(|value| !value.is_null()),
                _ => {}
            }
            Ok(())
        });
        read.ok()?;
        named.map(|key| Self::of_cache_key(&key)).or_else(|| Some(Self::of_messages(beginning?)))
    }

    /// Hashes the messages up to the first one of the user.
    fn of_messages(messages: RawJson<'_>) -> Self {
        /// The rest is not read.
        struct Ended;
        impl From<Malformed> for Ended {
            fn from(_: Malformed) -> Self {
                Self
            }
        }
        let mut hash = Xxh3::new();
        let read = JsonReader::new(messages.get()).array(|json| {
            let message = json.value()?;
            hash.update(message.get().as_bytes());
            let role = message.member("role").and_then(RawJson::string);
            if role.as_deref() == Some("user") { Err(Ended) } else { Ok(()) }
        });
        // What is no array has an empty beginning.
        _ = read;
        Self(hash.digest())
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
