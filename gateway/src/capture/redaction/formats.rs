//! What looks like a secret: keys and tokens by their beginning, bearer tokens, private keys in PEM, secret access keys of
//! AWS by the name before them, and passwords in URLs.

use super::escapes::{
    decode_escape, next_char, skip_backslashes, skip_char, skip_text, skip_while,
};
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
/// The most characters between the name of a secret and its value.
const MAX_DELIMITER_CHARS: usize = 16;
/// The most characters of the user and the password in a URL that are looked at.
const MAX_USERINFO_CHARS: usize = 4 * 1024;

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
        b':' => find_url_password(text, is_cut),
        b'%' | b'\\' => find_url_password(text, is_cut)
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

/// Returns the secret access key after its name, such as `aws_secret_access_key = …` or `"secretAccessKey":"…"`.
fn find_aws_secret(text: &str, is_cut: bool) -> Option<(&str, &str)> {
    let word = |text: &str, word: &str| {
        let is_here = text.get(..word.len())?.eq_ignore_ascii_case(word);
        is_here.then_some(word.len())
    };
    let separator = |text: &str| usize::from(text.starts_with(['_', '-', '.', ' ']));
    let mut rest = &text[word(text, "secret")?..];
    rest = &rest[separator(rest)..];
    if let Some(length) = word(rest, "access") {
        rest = &rest[length..];
        rest = &rest[separator(rest)..];
    }
    rest = &rest[word(rest, "key")?..];
    let value = skip_delimiters(rest)?;
    let (mut after, mut length) = (value, 0);
    while length <= AWS_SECRET_CHARS
        && let Some(next) = skip_base64_char(after)
    {
        (after, length) = (next, length + 1);
    }
    let is_begun = is_cut && after.is_empty() && length >= MIN_CUT_CHARS;
    (length == AWS_SECRET_CHARS || is_begun).then_some((value, after))
}

/// Returns what follows the character of base64 that begins `text`; `None` if another one does.
fn skip_base64_char(text: &str) -> Option<&str> {
    let is_part = |part: &char| part.is_ascii_alphanumeric() || "+/".contains(*part);
    let decoded = next_char(text).filter(|(part, _)| is_part(part));
    // JSON may escape the slash.
    decoded.map(|(_, after)| after).or_else(|| skip_char(text, '/'))
}

/// Returns what follows the quotes, blanks and signs between a name and its value; `None` if there are none.
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
        let Some((_, after)) = next_char(rest).filter(|(next, _)| "\"'=:> \t\r\n".contains(*next))
        else {
            break;
        };
        rest = after;
    }
    (rest.len() < text.len()).then_some(rest)
}

/// Returns the password in the URL whose `://` begins `text`, up to the last `@` before the host. It may contain most
/// characters, although some should be encoded.
fn find_url_password(text: &str, is_cut: bool) -> Option<(&str, &str)> {
    let mut rest = skip_text(text, "://")?;
    if skip_char(rest, '[').is_some() {
        // The address of a host.
        return None;
    }
    let (mut password, mut end) = (None, None);
    for _ in 0..MAX_USERINFO_CHARS {
        let is_percent = rest.starts_with('%');
        let Some((next, after)) = next_char(rest) else { break };
        // A backslash escapes a slash, a quote or a line break. Stopping at the next URL keeps the search linear.
        let is_end = next.is_whitespace() || next.is_control() || "\"'`/<{\\".contains(next);
        if is_end && !is_percent || next == ':' && skip_text(rest, "://").is_some() {
            break;
        }
        match next {
            ':' if password.is_none() => password = Some(after),
            '@' => {
                let has_host =
                    after.starts_with(|next: char| next.is_alphanumeric() || next == '[');
                end = Some(rest).filter(|_| has_host).or(end);
            }
            _ => {}
        }
        rest = after;
    }
    let password = password?;
    let is_port = || password.bytes().all(|byte| byte.is_ascii_digit());
    let end = end.or_else(|| (is_cut && rest.is_empty() && !is_port()).then_some(rest))?;
    (end.len() < password.len()).then_some((password, end))
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
        ] {
            assert_eq!(without_secrets(&text, &[], false), text);
        }
    }

    #[test]
    fn a_password_in_a_url_is_removed() {
        for (text, shown) in [
            ("postgres://user:pa-ss@db.example/x", "postgres://user:[redacted]@db.example/x"),
            ("redis://:pass@[::1]:6379", "redis://:[redacted]@[::1]:6379"),
            ("\"https:\\/\\/u:p%40ss@host\\/x\"", "\"https:\\/\\/u:[redacted]@host\\/x\""),
            ("amqp://u:p:w@h, http://v:q@i", "amqp://u:[redacted]@h, http://v:[redacted]@i"),
            ("http%3A%2F%2Fu%3Apass%40host", "http%3A%2F%2Fu%3A[redacted]%40host"),
            ("amqp://u:p#a?s^s[w]@h/x?y", "amqp://u:[redacted]@h/x?y"),
            ("amqp://u:a@h,http://v:b@i", "amqp://u:[redacted]@h,http://v:[redacted]@i"),
            ("mongodb://u:pass@h1:27017,h2:27017/d", "mongodb://u:[redacted]@h1:27017,h2:27017/d"),
        ] {
            assert_eq!(without_secrets(text, &[], false), shown);
        }
        let long = format!("https://user:{}@host/", "p".repeat(4_000));
        assert_eq!(without_secrets(&long, &[], false), "https://user:[redacted]@host/");
        for text in [
            "http://localhost:8080/a@b",
            "http://host:80",
            "http://host:80 and me@x.example",
            "see https://example.com/@user and user:name@host",
            "http://user@host/",
            "http://[::1]:8080/x@y",
            "postgres://user:${PASSWORD}@host",
            "\"http://a:1\",\"b@c\"",
        ] {
            assert_eq!(without_secrets(text, &[], false), text);
        }
        let cut = |text| without_secrets(text, &[], true);
        assert_eq!(cut("postgres://user:pas"), "postgres://user:[redacted]");
        for text in ["http://localhost:80", "http://[::1]:80"] {
            assert_eq!(cut(text), text);
        }
    }
}
