//! Searches JSON strings for their end: short ones by words of eight bytes, long ones with vectors.

use memchr::memchr2;

/// Strings are searched for their end by eight bytes at a time up to this length, in bytes: a vectorized search takes
/// longer to begin than most names of fields take to read.
const SHORT: usize = 32;

/// Returns the position of the first character that a string cannot contain as it is: a quote, a backslash, or a control
/// character.
pub(super) fn find_special(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        if let Some(position) = find_special_in(u64::from_le_bytes(*chunk)) {
            return Some(at + position);
        }
        at += chunk.len();
        if at == SHORT {
            return Some(at + find_special_in_long(&text[at..])?);
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    text[at..].iter().position(is_special).map(|position| at + position)
}

/// Returns the position among eight characters, of which the first is the least significant byte.
fn find_special_in(characters: u64) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    // Subtracting sets the high bit of each byte that was less, and may set it in higher bytes by its borrow. Only the
    // lowest such bit is used.
    let less_than = |characters: u64, limit: u8| {
        characters.wrapping_sub(ONES * u64::from(limit)) & !characters & (ONES << 7)
    };
    let equal_to = |byte: u8| less_than(characters ^ (ONES * u64::from(byte)), 1);
    let found = less_than(characters, b' ') | equal_to(b'"') | equal_to(b'\\');
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

fn find_special_in_long(text: &[u8]) -> Option<usize> {
    let end = memchr2(b'"', b'\\', text)?;
    // It has no early exit, so that the compiler vectorizes it.
    let least = text[..end].iter().fold(u8::MAX, |least, byte| least.min(*byte));
    if least >= b' ' { Some(end) } else { text.iter().position(|byte| *byte < b' ') }
}

/// Whether `text` begins with the four hexadecimal digits of an escape sequence.
pub(super) fn is_code_unit(text: &[u8]) -> bool {
    text.get(..4).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_any_length_end_at_their_quote() {
        for length in 0..100 {
            let plain = "é".repeat(length / 2) + &"x".repeat(length % 2);
            for special in ["\"", "\\", "\n", "\u{0}", "\u{1f}"] {
                let text = format!("{plain}{special}\"\u{1}\\");
                assert_eq!(find_special(text.as_bytes()), Some(plain.len()), "{text:?}");
            }
            assert_eq!(find_special(plain.as_bytes()), None, "{plain:?}");
        }
    }
}
