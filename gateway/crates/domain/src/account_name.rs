//! Names of accounts, such that no name can pass for another, nor do harm where it is printed.
//!
//! Checked when an account is made; accounts that were made before keep the names they have.

use std::fmt;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::confusable_detection::skeleton;
use unicode_security::{GeneralSecurityProfile, RestrictionLevel, RestrictionLevelDetection};

use super::Invalid;
use super::text::is_hidden;

const MAX_CHARS: usize = 128;
/// What names of people and e-mail addresses have beside letters and digits. Neither shells nor spreadsheets
/// nor patterns give these a meaning within a word.
const PUNCTUATION: &str = "._-+@";
/// Names that a reader would take for the gateway's own or for its operators.
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

/// What a name looks like, in one of two views; names that share one look alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Appearance {
    /// A name within ASCII, to others within ASCII: only letters and digits of one shape are the same.
    Ascii(String),
    /// The skeleton of a name within ASCII, to all others.
    AsciiSkeleton(String),
    /// The skeleton (Unicode TR39) of any other name.
    Skeleton(String),
}

impl AccountName {
    /// Checks and normalises a name: 1 to 128 letters and digits of one script, as far as Unicode TR39 calls
    /// that *Highly Restrictive*, with `. _ - + @` between them.
    ///
    /// # Errors
    /// [`Invalid`] for `name` if it is not of that form, or reserved.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let name = normalized(text);
        if name.is_empty() || name.chars().count() > MAX_CHARS {
            return Err(Invalid::new("name", "`name` must have 1 to 128 characters"));
        }
        if let Some(c) = name.chars().find(|&c| !is_allowed(c)) {
            let message = format!(
                "`name` must not contain {}; use letters, digits and {PUNCTUATION}",
                described(c)
            );
            return Err(Invalid::new("name", message));
        }
        if !name.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return Err(Invalid::new("name", "`name` must begin with a letter or a digit"));
        }
        let letters: String = name.chars().filter(|c| !PUNCTUATION.contains(*c)).collect();
        if !letters.as_str().check_restriction_level(RestrictionLevel::HighlyRestrictive) {
            return Err(Invalid::new("name", "`name` must not mix letters of different scripts"));
        }
        let own = Appearance::all(&name);
        // Punctuation does not tell a reserved name apart; between other names it does, as in addresses.
        let bare = Appearance::all(&letters);
        let is_reserved =
            |reserved: &&str| own.iter().chain(&bare).any(|it| it.is_shared_with(reserved));
        if RESERVED.iter().any(is_reserved) {
            return Err(Invalid::new("name", "`name` is reserved; choose another"));
        }
        Ok(Self(name))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a name in the form in which names are stored.
pub fn normalized(name: &str) -> String {
    name.nfkc().collect()
}

// === impl Appearance ===

impl Appearance {
    /// Returns what an account's name looks like, for names to come to be compared with.
    ///
    /// TR39 takes `m` for `rn`; that may be so between scripts, but would keep people from their own e-mail
    /// addresses within ASCII.
    pub fn all(name: &str) -> Vec<Self> {
        // as it is written and in small letters: `I` looks like `l`, and case does not tell names apart
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

    /// Returns the appearances that another name must not have if this one is taken.
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

/// Takes letters and digits for each other that have one shape in many typefaces.
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

/// A character that a name must not have, such that it does no harm in a message.
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
    fn names_of_people_and_addresses_are_names() {
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
    fn what_is_invisible_mixed_dangerous_or_reserved_is_refused() {
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
    fn a_message_carries_no_character_that_it_warns_of() {
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
