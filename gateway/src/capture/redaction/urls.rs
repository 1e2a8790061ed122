//! Passwords in URLs, and in the names of data sources that look like the rest of one.

use super::escapes::{next_char, skip_char, skip_text};

/// The most characters of the user and the password in a URL that are looked at.
const MAX_USERINFO_CHARS: usize = 4 * 1024;
/// The most characters of a password after a user without a scheme. They may be looked at again for each of them.
const MAX_DSN_PASSWORD_CHARS: usize = 128;

/// Returns the password in the URL whose `://` begins `text`, up to the last `@` before the host, or before the end or the
/// path of a URL without a host. It may contain most characters, although some should be encoded.
pub(super) fn find_url_password(text: &str, is_cut: bool) -> Option<(&str, &str)> {
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
        if ends_userinfo(next) && !is_percent || next == ':' && skip_text(rest, "://").is_some() {
            break;
        }
        match next {
            ':' if password.is_none() => password = Some(after),
            '@' => {
                let has_host =
                    after.starts_with(|next: char| next.is_alphanumeric() || next == '[');
                let ends_url = |next| ends_userinfo(next) || "?#)".contains(next);
                let has_none = next_char(after).is_none_or(|(next, _)| ends_url(next));
                end = Some(rest).filter(|_| has_host || has_none).or(end);
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

/// Returns the password after the `:` that begins `text`, if what follows its `@` shows that it is one: the path or the
/// protocol of a data source, as in `user:password@/database` and `user:password@tcp(host)/database`.
pub(super) fn find_dsn_password(text: &str) -> Option<(&str, &str)> {
    let password = skip_char(text, ':')?;
    let (mut rest, mut end) = (password, None);
    for _ in 0..MAX_DSN_PASSWORD_CHARS {
        let Some((next, after)) = next_char(rest) else { break };
        if next == '@' && ["/", "tcp(", "unix("].iter().any(|it| skip_text(after, it).is_some()) {
            end = Some(rest);
        }
        if ends_userinfo(next) && !rest.starts_with('%') {
            break;
        }
        rest = after;
    }
    let end = end?;
    (end.len() < password.len()).then_some((password, end))
}

/// Returns whether no password in a URL contains a character. A backslash escapes a slash, a quote or a line break.
fn ends_userinfo(next: char) -> bool {
    next.is_whitespace() || next.is_control() || "\"'`/<{\\".contains(next)
}

#[cfg(test)]
mod tests {
    use super::super::without_secrets;

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
            // Without a host.
            ("postgres://user:pass@/db", "postgres://user:[redacted]@/db"),
            ("postgres://user:pass@", "postgres://user:[redacted]@"),
            ("\"postgres://user:p@ss@\"", "\"postgres://user:[redacted]@\""),
            ("(postgres://user:pass@), x", "(postgres://user:[redacted]@), x"),
            ("postgres://u:p@?host=/run", "postgres://u:[redacted]@?host=/run"),
            ("postgres://u:p@%2Frun%2Fdb", "postgres://u:[redacted]@%2Frun%2Fdb"),
            ("\"redis:\\/\\/u:pass@\\/0\"", "\"redis:\\/\\/u:[redacted]@\\/0\""),
            ("dsn=root:pa:s@s@/db?x", "dsn=root:[redacted]@/db?x"),
            ("\"root:pass@\\/db\"", "\"root:[redacted]@\\/db\""),
            ("root:pass@tcp(db:3306)/x", "root:[redacted]@tcp(db:3306)/x"),
            ("root%3Apass%40%2Fdb", "root%3A[redacted]%40%2Fdb"),
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
            "http://host:80/x@",
            "http://user@/",
            "mailto:@/x",
            "from: @/components/x",
            "{\"a\":\"@/components\",\"b\":\"x@/y\"}",
            "at 10:30, see a@/b",
            "user:name@tcp.example",
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
