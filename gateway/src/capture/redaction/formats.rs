//! What looks like a secret: keys and tokens by their beginning, bearer tokens, private keys in PEM, secret access keys of
//! AWS by the name before them, and passwords in URLs.

use super::escapes::{
    decode_escape, next_char, skip_backslashes, skip_char, skip_text, skip_while,
};
use super::urls::{find_dsn_password, find_url_password};
use super::{MIN_CUT_CHARS, Search};

/// How keys and tokens begin, of this gateway and of others.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk_",
    "tg-",
    "tgi-",
    "tgo-",
    "tgr-",
    "tgs-",
    "whsec_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xai-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "gsk_",
    "nvapi-",
    "eyJ",
];
/// The length from which a word that begins like a key is taken for one, in bytes.
const MIN_KEY_BYTES: usize = 16;
/// The most bytes between the first and the last line of a private key.
const MAX_PEM_BYTES: usize = 16 * 1024;
/// The number of base64 characters in a row from which a private key without its last line is taken for one.
const MIN_BASE64_CHARS: usize = 16;
/// The length of a secret access key, in characters.
const AWS_SECRET_CHARS: usize = 40;
/// The most characters between the name of a secret and its value, which a table may pad, and of each type or function
/// there.
const MAX_DELIMITER_CHARS: usize = 64;

/// Returns the secret that begins `text`, perhaps after its name, as the text from its first character and the text after
/// it; `None` if there is none. `is_boundary` says whether a word may begin here.
pub(super) fn find(text: &str, is_boundary: bool, search: Search) -> Option<(&str, &str)> {
    let Search { is_json, is_cut } = search;
    if is_boundary {
        if let Some(token) = skip_bearer(text) {
            return Some((token, skip_while(token, is_token_part)));
        }
        if let Some(after) = skip_key(text) {
            return Some((text, after));
        }
    }
    match text.bytes().next()? {
        b's' | b'S' => find_aws_secret(text, is_cut),
        b':' => find_url_password(text, is_cut).or_else(|| find_dsn_password(text)),
        b'%' | b'\\' => find_url_password(text, is_cut)
            .or_else(|| find_dsn_password(text))
            .or_else(|| Some((text, skip_private_key(text, is_json)?))),
        b'-' => Some((text, skip_private_key(text, is_json)?)),
        _ => None,
    }
}

/// Returns what follows the key that begins `text`; `None` if there is none. At the end of the text, where a key may be
/// cut, it need not have the length of one.
fn skip_key(text: &str) -> Option<&str> {
    if text.starts_with('\\') && decode_escape(text).is_none() {
        return None;
    }
    let skip = |prefix: &str| prefix.chars().try_fold(text, skip_char);
    let begun = PREFIXES.iter().find_map(|prefix| skip(prefix))?;
    let after = skip_while(begun, |part| part.is_ascii_alphanumeric() || "-_.".contains(part));
    (after.is_empty() || text.len() - after.len() >= MIN_KEY_BYTES).then_some(after)
}

/// Returns the token after the word `Bearer` that begins `text`; `None` if there is none.
fn skip_bearer(text: &str) -> Option<&str> {
    const BEARER: &str = "bearer";
    let word = text.get(..BEARER.len()).filter(|word| word.eq_ignore_ascii_case(BEARER))?;
    let token = skip_char(&text[word.len()..], ' ')?;
    token.starts_with(is_token_part).then_some(token)
}

/// Returns whether a token of `Authorization: Bearer` may contain a character (RFC 6750, 2.1).
fn is_token_part(part: char) -> bool {
    part.is_ascii_alphanumeric() || "-._~+/=".contains(part)
}

/// Returns what follows the private key in PEM that begins `text`; `None` if there is none. It is within one
/// string of JSON. In source code, it may be several strings: there, and in JSON after a backslash, a quote does not end
/// it. Without its last line, it reaches to the end of the string or of [`MAX_PEM_BYTES`].
fn skip_private_key(text: &str, is_json: bool) -> Option<&str> {
    let is_label = |part: char| part.is_ascii_uppercase() || part.is_ascii_digit() || part == ' ';
    let label = skip_text(text, "-----BEGIN ")?;
    let after_label = skip_while(label, is_label);
    let label = label[..label.len() - after_label.len()].replace("%20", " ");
    if !label.contains("PRIVATE KEY") {
        return None;
    }
    let body = skip_text(after_label, "-----")?;
    let bounded = &body[..body.floor_char_boundary(MAX_PEM_BYTES)];
    let mut rest = bounded;
    while let Some(next) = rest.chars().next().filter(|next| !(is_json && *next == '"'))
        && skip_text(rest, "-----BEGIN").is_none()
    {
        if let Some(end) = skip_text(rest, "-----END ") {
            let after = skip_while(end, is_label);
            let after = skip_text(after, "-----").unwrap_or(after);
            return Some(&body[bounded.len() - after.len()..]);
        }
        let after = &rest[next.len_utf8()..];
        // What a backslash escapes.
        let escaped = after.chars().next().filter(|_| next == '\\');
        rest = &after[escaped.map_or(0, char::len_utf8)..];
    }
    let (begun, after) = body.split_at(bounded.len() - rest.len());
    // Line breaks may be escaped.
    let is_part = |part: char| part.is_ascii_alphanumeric() || "+/=\\\r\n".contains(part);
    let is_at_end = after.is_empty() && skip_while(begun, is_part).is_empty();
    (is_at_end || has_base64(begun)).then_some(after)
}

/// Returns whether a text has [`MIN_BASE64_CHARS`] characters of base64 in a row.
fn has_base64(text: &str) -> bool {
    let (mut rest, mut length) = (text, 0);
    while let Some((_, after)) = next_char(rest)
        && length < MIN_BASE64_CHARS
    {
        let part = skip_base64_char(rest);
        length = part.map_or(0, |_| length + 1);
        rest = part.unwrap_or(after);
    }
    length == MIN_BASE64_CHARS
}

/// Returns the secret access key after its name, such as `aws_secret_access_key = …` or `"secretAccessKey":"…"`, and
/// perhaps a type.
fn find_aws_secret(text: &str, is_cut: bool) -> Option<(&str, &str)> {
    let word = |text: &str, word: &str| {
        let is_here = text.get(..word.len())?.eq_ignore_ascii_case(word);
        is_here.then_some(word.len())
    };
    let skip = |text: &str, name: &str| {
        let separator = usize::from(text.starts_with(['_', '-', '.', ' ']));
        Some(separator + word(&text[separator..], name)?)
    };
    let mut rest = &text[word(text, "secret")?..];
    for name in ["access", "key"] {
        rest = &rest[skip(rest, name).unwrap_or_default()..];
    }
    let value = skip_delimiters(rest)?;
    let typed = skip_type(value).map(|after| skip_delimiters(after).unwrap_or(after));
    let values = [Some(value), skip_call(value), typed, typed.and_then(skip_call)];
    values.into_iter().flatten().find_map(|value| Some((value, skip_aws_secret(value, is_cut)?)))
}

/// Returns what follows the secret access key that begins `text`; `None` if there is none.
fn skip_aws_secret(text: &str, is_cut: bool) -> Option<&str> {
    let (mut after, mut length) = (text, 0);
    while length <= AWS_SECRET_CHARS
        && let Some(next) = skip_base64_char(after)
    {
        (after, length) = (next, length + 1);
    }
    let is_begun = is_cut && after.is_empty() && length >= MIN_CUT_CHARS;
    (length == AWS_SECRET_CHARS || is_begun).then_some(after)
}

/// Returns the `=` after the type that begins `text`, such as `str`, `&'static str` or `Optional[str]`; `None` if there is
/// none.
fn skip_type(text: &str) -> Option<&str> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || " _.:<>[]|&?*'".contains(part);
    let after = skip_few(text, is_part)?;
    skip_char(after, '=').map(|_| after)
}

/// Returns the argument of the function whose call begins `text`, such as `Some("…`; `None` if there is none.
fn skip_call(text: &str) -> Option<&str> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || "_.:".contains(part);
    let argument = skip_char(skip_few(text, is_part)?, '(')?;
    Some(skip_delimiters(argument).unwrap_or(argument))
}

/// Returns what follows the characters that begin `text` and are `is_part`; `None` if there are none or more than
/// [`MAX_DELIMITER_CHARS`].
fn skip_few(text: &str, is_part: impl Fn(char) -> bool) -> Option<&str> {
    let (mut rest, mut length) = (text, 0);
    while let Some((_, after)) = next_char(rest).filter(|(part, _)| is_part(*part)) {
        (rest, length) = (after, length + 1);
        if length > MAX_DELIMITER_CHARS {
            return None;
        }
    }
    (length > 0).then_some(rest)
}

/// Returns what follows the character of base64 that begins `text`; `None` if another one does.
fn skip_base64_char(text: &str) -> Option<&str> {
    let is_part = |part: &char| part.is_ascii_alphanumeric() || "+/".contains(*part);
    let decoded = next_char(text).filter(|(part, _)| is_part(part));
    // JSON may escape the slash.
    decoded.map(|(_, after)| after).or_else(|| skip_char(text, '/'))
}

/// Returns what follows the quotes, blanks, signs and tags between a name and its value; `None` if there are none.
fn skip_delimiters(text: &str) -> Option<&str> {
    let mut rest = text;
    for _ in 0..MAX_DELIMITER_CHARS {
        let escape = skip_backslashes(rest);
        if escape.len() < rest.len()
            && let Some(after) = escape.strip_prefix(['n', 'r', 't', '"', '\''])
        {
            rest = after;
            continue;
        }
        let is_delimiter = |next: &char| "\"'=:>,|│┃` \t\r\n".contains(*next);
        let delimiter = next_char(rest).filter(|(next, _)| is_delimiter(next));
        let Some(after) = delimiter.map(|(_, after)| after).or_else(|| skip_tag(rest)) else {
            break;
        };
        rest = after;
    }
    (rest.len() < text.len()).then_some(rest)
}

/// Returns what follows the tag of HTML that begins `text`, such as `</td>`; `None` if there is none.
fn skip_tag(text: &str) -> Option<&str> {
    let name = skip_char(text, '<')?;
    let name = skip_char(name, '/').unwrap_or(name);
    skip_char(skip_few(name, |part| part.is_ascii_alphanumeric())?, '>')
}

#[cfg(test)]
mod tests {
    use super::super::{body_without_secrets, without_secrets};

    /// The example key of AWS's documentation.
    const AWS_SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    #[test]
    fn a_private_key_is_removed_as_a_whole() {
        let lines = ["MIIEvQIBADANBgkqhkiG9w0B+/==", "AQEFAASCBKcwggSjAgEAAoIBAQC7"];
        for label in
            ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
        {
            for line_end in ["\n", "\\n", "\\r\\n", "\\\\n", "%0A"] {
                let key = format!(
                    "-----BEGIN {label}-----{line_end}{}{line_end}-----END {label}-----",
                    lines.join(line_end)
                );
                let text = format!("{{\"a\":\"x {key} y\"}}");
                assert_eq!(without_secrets(&text, &[], false), "{\"a\":\"x [redacted] y\"}");
                // The last line is in no string that begins later.
                let text = format!("[\"{}\",\"-----END {label}-----\"]", &key[..key.len() - 20]);
                let shown = body_without_secrets(&text, &[]);
                assert!(!shown.contains("MII") && shown.contains("\",\"-----END"), "{shown}");
                assert!(!without_secrets(&key[..60], &[], true).contains("MII"));
            }
        }
        for text in [
            "-----BEGIN CERTIFICATE-----\\nMIIEvQIBADANBgkqhkiG9w0B\\n-----END CERTIFICATE-----",
            "-----BEGIN PUBLIC KEY-----\\nMIIEvQIBADANBgkqhkiG9w0B\\n-----END PUBLIC KEY-----",
            "it begins with -----BEGIN PRIVATE KEY----- and is long",
            "----- BEGIN -----, and a private key",
        ] {
            assert_eq!(without_secrets(text, &[], false), text);
        }
    }

    #[test]
    fn a_private_key_in_source_code_is_removed() {
        let code = "k = \"-----BEGIN PRIVATE KEY-----\\n\" +\n\"MIIEvQIBADANBgkqhkiG9w0B\\n\" + \"AQEF==\\n\"";
        let ended = format!("{code} + \"-----END PRIVATE KEY-----\"; f()");
        assert_eq!(without_secrets(&ended, &[], false), "k = \"[redacted]\"; f()");
        assert_eq!(without_secrets(code, &[], false), "k = \"[redacted]");
        // As a string of JSON, and as one of JSON within JSON.
        let mut json = ended;
        let mut expected = "k = \"[redacted]\"; f()".to_owned();
        for _ in 0..2 {
            json = serde_json::json!({ "a": json, "b": "c" }).to_string();
            expected = serde_json::json!({ "a": expected, "b": "c" }).to_string();
            assert_eq!(body_without_secrets(&json, &[]), expected);
        }
        let json = serde_json::json!({ "a": code, "b": "c" }).to_string();
        assert_eq!(body_without_secrets(&json, &[]), "{\"a\":\"k = \\\"[redacted]\",\"b\":\"c\"}");
    }

    #[test]
    fn a_private_key_with_headers_is_removed_without_its_last_line() {
        for (label, headers) in [
            ("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12\n\n"),
            ("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"),
        ] {
            let key = format!("-----BEGIN {label}-----\n{headers}MIIEvQIBADANBgkqhkiG9w0B\nAQ");
            assert_eq!(without_secrets(&format!("x {key}"), &[], false), "x [redacted]");
            let json = serde_json::json!([key, "next"]).to_string();
            assert_eq!(body_without_secrets(&json, &[]), "[\"[redacted]\",\"next\"]");
        }
    }

    #[test]
    fn a_secret_access_key_is_removed_after_its_name() {
        for name in [
            "aws_secret_access_key = ",
            "AWS_SECRET_ACCESS_KEY=",
            "export AWS_SECRET_ACCESS_KEY='",
            "\"secretAccessKey\":\"",
            "\\\"SecretAccessKey\\\": \\\"",
            "awsSecretAccessKey: ",
            "aws-secret-key\\n",
            "<SecretAccessKey>",
            "secret access key: ",
            "secret_access_key%3D",
            // Tuples, tables, types and calls.
            "(\"aws_secret_access_key\", \"",
            "[(\\\"SECRET_KEY\\\", \\\"",
            "| aws_secret_access_key        | ",
            "aws_secret_access_key                                ",
            "secretAccessKey,",
            "│ Secret access key │ ",
            "<td>secret_access_key</td><td>",
            "\\u003ctd\\u003eSecretAccessKey\\u003c/td\\u003e\\n\\u003ctd\\u003e",
            "secret: str = \"",
            "aws_secret_access_key: Optional[str] = '",
            "const SECRET_KEY: &'static str = \"",
            "private secretAccessKey: string | undefined = \"",
            "var SecretKey string = \"",
            "secret_access_key: SecretStr = SecretStr(\"",
            "let secret_key: Option<String> = Some(\"",
            "aws_secret = \"",
            "new Secret(\"secret_key\", String.valueOf(\"",
        ] {
            for secret in [AWS_SECRET.to_owned(), AWS_SECRET.replace('/', "\\/")] {
                let text = format!("{name}{secret}\", more");
                assert_eq!(without_secrets(&text, &[], false), format!("{name}[redacted]\", more"));
            }
            let cut = format!("{name}{}", &AWS_SECRET[..12]);
            assert_eq!(without_secrets(&cut, &[], true), format!("{name}[redacted]"));
        }
        for text in [
            format!("a digest {AWS_SECRET}"),
            format!("secret_access_key={AWS_SECRET}x, too long"),
            "what is the secret access key".to_owned(),
            "the secret key of the casket".to_owned(),
            "secretKey: short, and more".to_owned(),
            format!("its secret is that {AWS_SECRET} is no key"),
            format!("secrets: {AWS_SECRET}"),
            format!("secret_key_id: {AWS_SECRET}"),
            format!("secret: str, digest = \"{AWS_SECRET}\""),
            format!("secret_key = hash(key, \"{AWS_SECRET}\")"),
            format!("secret_key: {} = \"{AWS_SECRET}\"", "x".repeat(100)),
            format!("| secret_key |{}| {AWS_SECRET} |", " ".repeat(100)),
            format!("secret_access_key: str = \"{AWS_SECRET}x\""),
            "secret: str = \"${SECRET}\"".to_owned(),
        ] {
            assert_eq!(without_secrets(&text, &[], false), text);
        }
    }
}
