//! Account names: validation against look-alikes and unsafe characters.
//!
//! Names are validated when an account is registered. Existing accounts keep their names.

use std::fmt;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::confusable_detection::skeleton;
use unicode_security::{GeneralSecurityProfile, RestrictionLevel, RestrictionLevelDetection};

use super::ValidationError;
use super::text::is_hidden;

const MAX_CHARS: usize = 128;
/// The punctuation of personal names and e-mail addresses. Within a word, it has no special meaning
/// in shells, spreadsheets or glob patterns.
const PUNCTUATION: &str = "._-+@";
/// Names that suggest the gateway itself or its operators.
const RESERVED: [&str; 25] = [
    "admin",
    "administrator",
    "all",
    "anonymous",
    "anybody",
    "billing",
    "default",
    "everybody",
    "everyone",
    "gateway",
    "house",
    "me",
    "nobody",
    "none",
    "null",
    "operator",
    "root",
    "security",
    "self",
    "simulator",
    "superuser",
    "support",
    "system",
    "tollgate",
    "unknown",
];

/// The name of a new account, in Unicode's normal form NFKC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName(String);

/// A normalised appearance of a name, for the detection of look-alikes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Appearance {
    /// An ASCII name, for comparison with ASCII names: only letters and digits of the same shape
    /// are equal.
    Ascii(String),
    /// The skeleton of an ASCII name, for comparison with other names.
    AsciiSkeleton(String),
    /// The skeleton (Unicode TR39) of any other name.
    Skeleton(String),
}

impl AccountName {
    /// Validates and normalises a name: 1 to 128 letters and digits of one script (*Highly
    /// Restrictive* in Unicode TR39), with `. _ - + @` between them.
    ///
    /// # Errors
    /// [`ValidationError`] for `name` if the text has another form or is reserved.
    pub fn parse(text: &str) -> Result<Self, ValidationError> {
        let name = normalized(text);
        if name.is_empty() || name.chars().count() > MAX_CHARS {
            return Err(ValidationError::new("name", "`name` must have 1 to 128 characters"));
        }
        if let Some(c) = name.chars().find(|&c| !is_allowed(c)) {
            let message = format!(
                "`name` must not contain {}; use letters, digits and {PUNCTUATION}",
                described(c)
            );
            return Err(ValidationError::new("name", message));
        }
        if !name.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return Err(ValidationError::new("name", "`name` must begin with a letter or a digit"));
        }
        let letters: String = name.chars().filter(|c| !PUNCTUATION.contains(*c)).collect();
        if !letters.as_str().check_restriction_level(RestrictionLevel::HighlyRestrictive) {
            return Err(ValidationError::new(
                "name",
                "`name` must not mix letters of different scripts",
            ));
        }
        let own = Appearance::all(&name);
        // Punctuation does not make a reserved name acceptable. Between other names it is
        // significant, as in e-mail addresses.
        let bare = Appearance::all(&letters);
        let is_reserved =
            |reserved: &&str| own.iter().chain(&bare).any(|it| it.is_shared_with(reserved));
        if RESERVED.iter().any(is_reserved) {
            return Err(ValidationError::new("name", "`name` is reserved; choose another"));
        }
        Ok(Self(name))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a name in the normal form in which names are stored (NFKC).
pub fn normalized(name: &str) -> String {
    name.nfkc().collect()
}

// === impl Appearance ===

impl Appearance {
    /// Returns all appearances of an account's name.
    ///
    /// TR39 treats `m` and `rn` as confusable. Between ASCII names that would reject legitimate
    /// e-mail addresses, so [`Self::Ascii`] distinguishes them.
    pub fn all(name: &str) -> Vec<Self> {
        // As written, since `I` looks like `l`, and in lower case, since names are
        // case-insensitive.
        let spellings = [name.to_owned(), name.to_lowercase()];
        let mut all: Vec<_> = if name.is_ascii() {
            let ascii = spellings.iter().map(|text| Self::Ascii(ascii_shape(text)));
            ascii.chain(spellings.iter().map(|text| Self::AsciiSkeleton(shape(text)))).collect()
        } else {
            spellings.iter().map(|text| Self::Skeleton(shape(text))).collect()
        };
        all.dedup();
        all
    }

    /// Returns the appearances that another name must not have if this one exists.
    pub fn conflicts(&self) -> Vec<Self> {
        match self {
            Self::Ascii(text) => vec![Self::Ascii(text.clone())],
            Self::AsciiSkeleton(text) => vec![Self::Skeleton(text.clone())],
            Self::Skeleton(text) => {
                vec![Self::Skeleton(text.clone()), Self::AsciiSkeleton(text.clone())]
            }
        }
    }

    fn is_shared_with(&self, name: &str) -> bool {
        let theirs = Self::all(name);
        self.conflicts().iter().any(|conflict| theirs.contains(conflict))
    }
}

fn shape(text: &str) -> String {
    let seen: String = text.chars().filter(|&c| !is_hidden(c)).collect();
    skeleton(&seen).collect::<String>().to_lowercase()
}

/// Maps letters and digits that look alike in many typefaces to one of them.
fn ascii_shape(text: &str) -> String {
    let shape = |c: char| match c {
        'I' | '1' => 'l',
        '0' => 'o',
        _ => c.to_ascii_lowercase(),
    };
    text.chars().map(shape).collect()
}

fn is_allowed(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || PUNCTUATION.contains(c);
    }
    GeneralSecurityProfile::identifier_allowed(c) && (c.is_alphanumeric() || is_combining_mark(c))
}

/// Formats a rejected character for a message; non-printable and non-ASCII characters as `U+XXXX`.
fn described(c: char) -> String {
    if c.is_ascii_graphic() { format!("`{c}`") } else { format!("U+{:04X}", u32::from(c)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, &'static str> {
        AccountName::parse(text).map(AccountName::into_string).map_err(|invalid| invalid.field)
    }

    #[test]
    fn accepts_personal_names_and_email_addresses() {
        let names = [
            "alice",
            "Alice.B",
            "o_brien-2",
            "_x",
            "bob+tollgate@example.org",
            "Änn",
            "josé",
            "Łukasz",
            "иван",
            "ΑΒΓ",
            "李小龍",
            "さくら",
            "サクラ",
            "김철수",
            "สมชาย",
            "मोहन",
            "محمد",
            "user@bücher.example",
        ];
        for name in names {
            assert_eq!(parse(name).as_deref(), Ok(name));
        }
        assert_eq!(parse("ｂｏｂ").unwrap(), "bob", "in its normal form");
        assert_eq!(parse("A\u{308}nn").unwrap(), "Änn");
    }

    #[test]
    fn refuses_invisible_mixed_unsafe_and_reserved_names() {
        let names = [
            "",
            " ",
            "a b",
            "*",
            "operator\u{200b}",
            "bob\u{202e}",
            "b\u{43e}b",
            "p\u{430}ypal",
            "a\u{301}\u{378}",
            "a\0",
            "a\n",
            "\u{feff}a",
            "a\u{ad}",
            "\u{3164}",
            "a\u{e0041}",
            "a/b",
            "a\\b",
            "$HOME",
            "`id`",
            "a;b",
            "a|b",
            "a'b",
            "a\"b",
            "a,b",
            "=1+1",
            "+1",
            "-rf",
            "@SUM",
            ".ssh",
            "a{b}",
            "a?b",
            "[a]",
            "~",
            "#a",
            "%s",
            "a:b",
            "operator",
            "Operator",
            "0perator",
            "operator.",
            "_operator",
            "oper.ator",
            "simulator",
            "ROOT",
            "admin",
            "house",
            "system",
            "tollgate",
            "bob\u{2019}s",
            "\u{1f600}",
            &"x".repeat(129),
        ];
        for name in names {
            assert_eq!(parse(name), Err("name"), "{name:?}");
        }
    }

    #[test]
    fn error_message_escapes_the_rejected_character() {
        let refused = AccountName::parse("bob\u{202e}").unwrap_err().to_string();
        assert!(refused.contains("U+202E") && refused.is_ascii(), "{refused}");
    }

    #[test]
    fn names_that_look_alike_share_an_appearance() {
        let alike = |a: &str, b: &str| {
            let one = Appearance::all(a).iter().any(|it| it.is_shared_with(b));
            let other = Appearance::all(b).iter().any(|it| it.is_shared_with(a));
            assert_eq!(one, other, "{a} {b}");
            one
        };
        for (a, b) in [
            ("bob", "BOB"),
            ("alice", "aIice"),
            ("alice", "a1ice"),
            ("bob0", "bobo"),
            ("scope", "ѕсоре"),
            ("ΑΒΟ", "ABO"),
            ("ann", "ann\u{200b}"),
        ] {
            assert!(alike(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("bern@example.org", "bem@example.org"),
            ("ann", "anna"),
            ("иван", "ivan"),
            ("Änn", "ann"),
        ] {
            assert!(!alike(a, b), "{a} {b}");
        }
    }
}
