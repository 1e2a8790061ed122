//! Wire names: the names of tools at the upstream (`T-6`).

use sha2::{Digest, Sha256};

use super::super::path::Path;
use domain::refusal::Refusal;

/// The maximum length of a function name in chat.
const MAX_NAME_CHARS: usize = 64;
/// The kept prefix of a longer name; `_` and 8 digits of its hash follow.
const MAX_PREFIX_CHARS: usize = 55;

/// Returns the wire name of a tool. It is never split again: the plan maps it back.
pub(crate) fn wire_name(namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace else { return name.to_owned() };
    let full = if name.starts_with(namespace) {
        name.to_owned()
    } else if namespace.ends_with("__") {
        format!("{namespace}{name}")
    } else {
        format!("{namespace}__{name}")
    };
    if full.chars().count() <= MAX_NAME_CHARS {
        return full;
    }
    let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(&full)[..4]);
    let mut shortened: String = full.chars().take(MAX_PREFIX_CHARS).collect();
    shortened.push('_');
    shortened.push_str(&hash);
    shortened
}

/// Checks the name of a tool or a namespace (`T-1`).
pub(super) fn check(name: &str, at: &Path<'_>) -> Result<(), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=MAX_NAME_CHARS).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(at.invalid("must be 1 to 64 letters, digits, `_` or `-`"))
    }
}
