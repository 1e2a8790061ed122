//! The memory of the captured messages of one request, and its bounds.

use secrecy::{ExposeSecret, SecretString};

use super::captured_request::{MessageKind, WireMessage};
use super::redaction;
use domain::id::UpstreamName;

/// The largest part of a body that is kept, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// The largest part of a head that is kept, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// What the heads and bodies of one request may take together, in bytes.
const MAX_REQUEST_BYTES: usize = 256 * 1024;
/// The number of messages of one request: attempts beyond it are not kept.
const MAX_MESSAGES: usize = 12;

/// The messages of one request, bounded in number and bytes.
#[derive(Clone, Default)]
pub(super) struct Messages {
    all: Vec<Message>,
    /// The memory of all heads and bodies, in bytes.
    bytes: usize,
    /// The credentials of all upstreams of the request. Any message may contain them: an upstream may echo them.
    secrets: Vec<SecretString>,
}

#[derive(Clone)]
struct Message {
    kind: MessageKind,
    /// The upstream that it was sent to or came from.
    upstream: Option<UpstreamName>,
    head: Vec<String>,
    body: Vec<u8>,
    body_bytes: u64,
}

// === impl Messages ===

impl Messages {
    /// Adds a message with a head and no body yet. Returns its index; `None` if it is not kept.
    pub(super) fn push(
        &mut self,
        kind: MessageKind,
        upstream: Option<&UpstreamName>,
        first: String,
        headers: impl Iterator<Item = String>,
    ) -> Option<usize> {
        let index = self.all.len();
        if index == MAX_MESSAGES {
            return None;
        }
        let head = self.keep_head(first, headers);
        let upstream = upstream.cloned();
        self.all.push(Message { kind, upstream, head, body: Vec::new(), body_bytes: 0 });
        Some(index)
    }

    /// Returns the messages without secrets.
    pub(super) fn shown(&self) -> impl Iterator<Item = WireMessage> {
        let without_secrets = |line: &String| redaction::without_secrets(line, &self.secrets, true);
        self.all.iter().map(move |message| WireMessage {
            kind: message.kind,
            upstream: message.upstream.as_ref().map(ToString::to_string),
            head: message.head.iter().map(without_secrets).collect(),
            body: redaction::body_without_secrets(
                &String::from_utf8_lossy(&message.body),
                &self.secrets,
            ),
            body_bytes: message.body_bytes,
            kept_bytes: message.body.len() as u64,
        })
    }

    fn room(&self) -> usize {
        MAX_REQUEST_BYTES.saturating_sub(self.bytes)
    }

    /// Adds secrets that are not known yet. They count towards the bytes, but all of them are kept.
    pub(super) fn add_secrets<'a>(&mut self, secrets: impl Iterator<Item = &'a SecretString>) {
        for secret in secrets {
            let text = secret.expose_secret();
            if self.secrets.iter().all(|known| known.expose_secret() != text) {
                self.bytes += text.len() + size_of::<SecretString>();
                self.secrets.push(secret.clone());
            }
        }
    }

    /// Returns the secrets that are known.
    pub(super) fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }

    /// Returns the lines of a head for which there is room. The first one is cut if it is too long.
    fn keep_head(
        &mut self,
        mut first: String,
        headers: impl Iterator<Item = String>,
    ) -> Vec<String> {
        let mut room = self.room().min(MAX_HEAD_BYTES);
        let all = room;
        first.truncate(first.floor_char_boundary(room.saturating_sub(size_of::<String>())));
        first.shrink_to_fit();
        let lines = std::iter::once(first).chain(headers).take_while(|line| {
            let bytes = line.len() + size_of::<String>();
            let has_room = bytes <= room;
            room -= if has_room { bytes } else { 0 };
            has_room
        });
        let lines = lines.collect();
        self.bytes += all - room;
        lines
    }

    /// Keeps as many of the next bytes of a body as there is room for.
    pub(super) fn keep_body(&mut self, index: usize, bytes: &[u8]) {
        let room = self.room();
        let message = &mut self.all[index];
        message.body_bytes += bytes.len() as u64;
        let body = &mut message.body;
        let wanted = bytes.len().min(MAX_BODY_BYTES.saturating_sub(body.len()));
        let spare = body.capacity() - body.len();
        if wanted > spare {
            // The buffer doubles, as far as the bounds allow.
            let doubled = wanted.max(body.len()).min(MAX_BODY_BYTES - body.len());
            let growth = (doubled - spare).min(room);
            body.reserve_exact(spare + growth);
            self.bytes += growth;
        }
        let kept = wanted.min(body.capacity() - body.len());
        body.extend_from_slice(&bytes[..kept]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(messages: &mut Messages, headers: usize) -> Option<usize> {
        let headers = (0..headers).map(|number| format!("x-header-{number}: [redacted]"));
        messages.push(MessageKind::Returned, None, "200 OK".to_owned(), headers)
    }

    /// Returns the memory that the messages really have.
    fn memory(messages: &Messages) -> usize {
        let heads = messages.all.iter().flat_map(|it| &it.head);
        let heads = heads.map(|line| line.len() + size_of::<String>()).sum::<usize>();
        heads + messages.all.iter().map(|it| it.body.capacity()).sum::<usize>()
    }

    #[test]
    fn bodies_are_bounded_each_and_together_and_their_lengths_are_known() {
        let mut messages = Messages::default();
        let body = vec![b'x'; MAX_BODY_BYTES];
        for number in 0..MAX_MESSAGES {
            let index = push(&mut messages, 0).unwrap();
            if number < 5 {
                messages.keep_body(index, &body);
                messages.keep_body(index, b"more");
            }
        }
        assert_eq!(push(&mut messages, 0), None);
        let kept: Vec<_> = messages.all.iter().take(6).map(|it| it.body.len()).collect();
        let each = MAX_BODY_BYTES;
        assert_eq!((&kept[..3], &kept[4..]), (&[each; 3][..], &[0; 2][..]));
        assert!(kept[3] < each && kept[3] > each - 1024, "heads count, too: {kept:?}");
        assert_eq!(messages.all[4].body_bytes, MAX_BODY_BYTES as u64 + 4);
    }

    #[test]
    fn heads_and_bodies_in_pieces_take_no_more_memory_than_is_counted() {
        let mut messages = Messages::default();
        for _ in 0..MAX_MESSAGES {
            let index = push(&mut messages, 5_000).unwrap();
            for _ in 0..10_000 {
                messages.keep_body(index, b"an event");
            }
        }
        assert!(messages.all[0].head.len() > 100 && messages.all[0].body.len() == MAX_BODY_BYTES);
        assert_eq!(messages.bytes, memory(&messages));
        assert!(messages.bytes <= MAX_REQUEST_BYTES);
        let mut messages = Messages::default();
        let long = "é".repeat(MAX_HEAD_BYTES);
        _ = messages.push(MessageKind::Answered, None, long, std::iter::empty());
        assert_eq!(messages.bytes, memory(&messages));
        assert!(messages.all[0].head[0].len() > 1_000 && messages.bytes <= MAX_HEAD_BYTES);
    }

    #[test]
    fn no_message_has_a_secret_of_any_upstream() {
        let mut messages = Messages::default();
        let secrets = ["first/secret", "second/secret", "first/secret"].map(SecretString::from);
        for secret in &secrets {
            messages.add_secrets(std::iter::once(secret));
        }
        assert_eq!(messages.secrets.len(), 2);
        let index = push(&mut messages, 0).unwrap();
        messages.keep_body(index, b"{\"a\":\"first\\/secret second/secret");
        let shown = messages.shown().next().unwrap();
        assert_eq!(shown.body, "{\"a\":\"[redacted] [redacted]");
    }
}
