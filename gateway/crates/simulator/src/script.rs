//! Scripts: instructions for the simulator in a request, as `key=value` pairs.
//!
//! Pairs are read after the `?` of the model name (`sim-chat?latency_ms=20&usage=off`) and from the
//! last user message (`[sim cut=3 say="two words"]`), which takes precedence. Pure. Start at
//! [`KEYS`].

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use super::pairs::{Pairs, ScriptError, pairs};

/// The maximum value of the key `words`.
const MAX_WORDS: usize = 100_000;

/// A parsed script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) latency: Duration,
    pub(super) pace: Duration,
    /// Characters per chunk; a word per chunk if `None`.
    pub(super) chunk: Option<NonZeroUsize>,
    pub(super) words: Option<usize>,
    pub(super) usage: bool,
    pub(super) finish: Option<Finish>,
    pub(super) say: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<u64>,
    pub(super) cut: Option<usize>,
    pub(super) stall: Option<usize>,
    pub(super) garbage: Option<usize>,
    pub(super) error: Option<usize>,
    pub(super) done: bool,
    /// The number of requests with the same message for which faults occur; all if `None`.
    pub(super) times: Option<u64>,
}

/// A tool call that the script sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptedCall {
    pub(super) name: String,
    /// Generated from the tool's schema if `None`.
    pub(super) arguments: Option<String>,
}

/// The `finish_reason` of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
    /// The answer has no `finish_reason`.
    Omitted,
}

/// A script key.
struct Key {
    name: &'static str,
    /// Completes the sentence "it is …".
    means: &'static str,
    /// Sets the parsed value; `None` if it is invalid.
    set: fn(&mut Script, &str) -> Option<()>,
}

/// All keys. Positions count events of a stream, or bytes of a plain answer.
static KEYS: [Key; 18] = [
    Key {
        name: "latency_ms",
        means: "the milliseconds before the head of the answer",
        set: |script, value| put(&mut script.latency, millis(value)),
    },
    Key {
        name: "pace_ms",
        means: "the milliseconds between two events",
        set: |script, value| put(&mut script.pace, millis(value)),
    },
    Key {
        name: "chunk",
        means: "the characters per chunk, 1 or more (a word per chunk without it)",
        set: |script, value| put(&mut script.chunk, number(value).map(Some)),
    },
    Key {
        name: "words",
        means: "the words of the answer, at most 100000",
        set: |script, value| {
            put(&mut script.words, number(value).filter(|words| *words <= MAX_WORDS).map(Some))
        },
    },
    Key {
        name: "usage",
        means: "`on`, or `off` to leave usage out even where it is asked for",
        set: |script, value| put(&mut script.usage, switch(value)),
    },
    Key {
        name: "finish",
        means: "one of stop, length, content_filter, none",
        set: |script, value| put(&mut script.finish, finish(value).map(Some)),
    },
    Key {
        name: "say",
        means: "the text of the answer",
        set: |script, value| put(&mut script.say, Some(Some(value.to_owned()))),
    },
    Key {
        name: "reasoning",
        means: "the text of the reasoning, empty for none",
        set: |script, value| put(&mut script.reasoning, Some(Some(value.to_owned()))),
    },
    Key {
        name: "tool",
        means: "the name of a tool to call; repeat it for parallel calls",
        set: |script, value| {
            script.calls.push(ScriptedCall { name: value.to_owned(), arguments: None });
            Some(())
        },
    },
    Key {
        name: "args",
        means: "the arguments of the `tool` before it, as JSON",
        set: |script, value| {
            put(&mut script.calls.last_mut()?.arguments, Some(Some(value.to_owned())))
        },
    },
    Key {
        name: "status",
        means: "the status of an error answer, 400 to 599",
        set: |script, value| {
            let status = number(value).filter(|status| (400..=599).contains(status));
            put(&mut script.status, status.map(Some))
        },
    },
    Key {
        name: "retry_after",
        means: "the seconds in the `retry-after` header of an error answer",
        set: |script, value| put(&mut script.retry_after, number(value).map(Some)),
    },
    Key {
        name: "cut",
        means: "the events after which the connection is dropped",
        set: |script, value| put(&mut script.cut, number(value).map(Some)),
    },
    Key {
        name: "stall",
        means: "the events after which nothing more is sent",
        set: |script, value| put(&mut script.stall, number(value).map(Some)),
    },
    Key {
        name: "garbage",
        means: "the events after which a malformed one is sent",
        set: |script, value| put(&mut script.garbage, number(value).map(Some)),
    },
    Key {
        name: "error",
        means: "the events after which an error event ends the stream",
        set: |script, value| put(&mut script.error, number(value).map(Some)),
    },
    Key {
        name: "done",
        means: "`on`, or `off` to leave out the last `[DONE]`",
        set: |script, value| put(&mut script.done, switch(value)),
    },
    Key {
        name: "times",
        means: "the requests with this message that the faults happen to, before all goes well",
        set: |script, value| put(&mut script.times, number(value).map(Some)),
    },
];

/// Splits a model name into the name itself and the script after the `?`.
pub(super) fn split_model(model: &str) -> (&str, &str) {
    model.split_once('?').unwrap_or((model, ""))
}

/// Parses the script of the model name, then the directives of the last user message, which take
/// precedence. Also returns that message without its directives.
pub(super) fn read(in_model: &str, message: &str) -> Result<(Script, String), ScriptError> {
    let mut script = Script::default();
    script.apply(pairs(&mut &*in_model, |c| c == '&', None)?)?;

    let mut plain = String::new();
    let mut rest = message;
    while let Some((before, directive)) = rest.split_once("[sim ") {
        plain.push_str(before);
        rest = directive;
        script.apply(pairs(&mut rest, char::is_whitespace, Some(']'))?)?;
    }
    plain.push_str(rest);
    Ok((script, plain.trim().to_owned()))
}

fn put<T>(slot: &mut T, value: Option<T>) -> Option<()> {
    *slot = value?;
    Some(())
}

fn number<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn millis(value: &str) -> Option<Duration> {
    number(value).map(Duration::from_millis)
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn finish(value: &str) -> Option<Finish> {
    match value {
        "stop" => Some(Finish::Stop),
        "length" => Some(Finish::Length),
        "content_filter" => Some(Finish::ContentFilter),
        "none" => Some(Finish::Omitted),
        _ => None,
    }
}

fn key_names() -> String {
    KEYS.each_ref().map(|key| key.name).join(", ")
}

// === impl Script ===

impl Default for Script {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            pace: Duration::ZERO,
            chunk: None,
            words: None,
            usage: true,
            finish: None,
            say: None,
            reasoning: None,
            calls: Vec::new(),
            status: None,
            retry_after: None,
            cut: None,
            stall: None,
            garbage: None,
            error: None,
            done: true,
            times: None,
        }
    }
}

impl Script {
    /// Removes all faults.
    pub(super) fn clear_faults(&mut self) {
        (self.status, self.retry_after) = (None, None);
        (self.cut, self.stall, self.garbage, self.error) = (None, None, None, None);
        self.done = true;
    }

    /// Applies `pairs`. As with any other key, their tools replace the earlier ones.
    fn apply(&mut self, pairs: Pairs) -> Result<(), ScriptError> {
        if pairs.iter().any(|(key, _)| key == "tool") {
            self.calls.clear();
        }
        for (name, value) in pairs {
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                return Err(ScriptError::UnknownKey { key: name, keys: key_names() });
            };
            if (key.set)(self, &value).is_none() {
                return Err(ScriptError::BadValue { key: name, value, means: key.means });
            }
        }
        Ok(())
    }
}

// === impl Finish ===

impl Finish {
    /// Returns the `finish_reason`.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Stop => Some("stop"),
            Self::Length => Some("length"),
            Self::ContentFilter => Some("content_filter"),
            Self::ToolCalls => Some("tool_calls"),
            Self::Omitted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(in_model: &str, message: &str, expected: &Script) {
        assert_eq!(read(in_model, message).expect("a script").0, *expected);
    }

    #[track_caller]
    fn check_refused(in_model: &str, message: &str, expected: &str) {
        let error = read(in_model, message).expect_err("no script").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn requests_without_a_script_use_the_defaults() {
        check("", "Hello [similar] text", &Script::default());
    }

    #[test]
    fn keys_of_the_message_override_those_of_the_model_name() {
        let expected = Script {
            latency: Duration::from_millis(20),
            chunk: NonZeroUsize::new(3),
            usage: false,
            finish: Some(Finish::Omitted),
            ..Script::default()
        };
        check("latency_ms=20&chunk=4&usage=off", "[sim chunk=3\nfinish=none] Hi", &expected);
    }

    #[test]
    fn quoted_values_may_contain_separators_and_escapes() {
        let say = |text: &str| Script { say: Some(text.to_owned()), ..Script::default() };
        check("", r#"[sim say="a ] \"b\" \\\n"]"#, &say("a ] \"b\" \\\n"));
        check("", r"[sim say='a \n b']", &say(r"a \n b"));
        check("say='a&b'", "", &say("a&b"));
        check("", r#"[sim say=""]"#, &say(""));
    }

    #[test]
    fn tools_of_the_message_replace_those_of_the_model_name() {
        let call = |name: &str, arguments: Option<&str>| ScriptedCall {
            name: name.to_owned(),
            arguments: arguments.map(str::to_owned),
        };
        let expected = Script {
            calls: vec![call("find", Some(r#"{"city":"Rome"}"#)), call("clock", None)],
            ..Script::default()
        };
        check("tool=other", r#"[sim tool=find args='{"city":"Rome"}' tool=clock]"#, &expected);
    }

    #[test]
    fn clear_faults_keeps_other_keys() {
        let script =
            "[sim say=a status=503 retry_after=1 cut=1 stall=1 garbage=1 error=1 done=off]";
        let (mut script, _) = read("", script).expect("a script");
        script.clear_faults();
        assert_eq!(script, Script { say: Some("a".to_owned()), ..Script::default() });
    }

    #[test]
    fn directives_are_removed_from_the_message() {
        let (_, message) = read("", "Weather? [sim cut=1] Now. [sim done=off]").expect("a script");
        assert_eq!(message, "Weather?  Now.");
    }

    #[test]
    fn errors_name_the_invalid_key() {
        check_refused("latency=1", "", "unknown simulator key `latency`; the keys are latency_ms,");
        check_refused("chunk=0", "", "`chunk` cannot be `0`: it is the characters per chunk");
        check_refused("status=200", "", "400 to 599");
        check_refused("words=100001", "", "at most 100000");
        check_refused("args={}", "", "the `tool` before it");
        check_refused("", "[sim cut]", "`cut` has no value");
        check_refused("", "[sim cut=1", "not closed");
        check_refused("", "[sim say=\"a]", "quoted value of simulator key `say`");
        check_refused("", "[sim say=\"a\"cut=1]", "quoted value of simulator key `say`");
        check_refused("", r#"[sim say="\x"]"#, "quoted value of simulator key `say`");
    }
}
