//! Whether a terminal has 24-bit colours, by its terminfo entry.
//!
//! The format is that of term(5): a header of six little-endian numbers, the sections that it
//! counts, and extended capabilities after them, whose names are in the last table.

/// The magic numbers of entries with 16-bit and 32-bit numbers.
const MAGIC_16: u16 = 0o432;
const MAGIC_32: u16 = 0o1036;
/// The place of `max_colors` among the numbers.
const MAX_COLOURS: usize = 13;
/// The number of 24-bit colours.
const TRUECOLOR: u32 = 1 << 24;
/// The extended capabilities of terminals with 24-bit colours.
const NAMES: [&[u8]; 3] = [b"Tc", b"RGB", b"setrgbf"];

/// Returns the file of the terminal within a terminfo directory, in both of its layouts.
pub fn files(terminal: &str) -> Option<[String; 2]> {
    let first = terminal.chars().next().filter(|_| !terminal.contains(['/', '\0']))?;
    let number = u32::from(first);
    Some([format!("{first}/{terminal}"), format!("{number:02x}/{terminal}")])
}

/// Returns whether a terminfo entry says that the terminal has 24-bit colours.
pub fn has_truecolor(entry: &[u8]) -> bool {
    has_direct_colours(entry).unwrap_or(false) || has_extended_name(entry).unwrap_or(false)
}

/// Returns whether the number of colours is that of 24 bits.
fn has_direct_colours(entry: &[u8]) -> Option<bool> {
    let header = Header::read(entry)?;
    let start = header.numbers_start() + MAX_COLOURS * header.number_size;
    if MAX_COLOURS >= header.numbers || header.number_size != 4 {
        return Some(false);
    }
    let bytes = entry.get(start..start + 4)?;
    let colours = u32::from_le_bytes(bytes.try_into().ok()?);
    Some((TRUECOLOR..=u32::MAX / 2).contains(&colours))
}

/// Returns whether one of [`NAMES`] is among the texts of the extended capabilities.
fn has_extended_name(entry: &[u8]) -> Option<bool> {
    let extended = entry.get(Header::read(entry)?.end()..)?;
    Some(extended.split(|byte| *byte == 0).any(|text| NAMES.contains(&text)))
}

/// The sizes in the header.
struct Header {
    number_size: usize,
    names: usize,
    booleans: usize,
    numbers: usize,
    offsets: usize,
    strings: usize,
}

impl Header {
    fn read(entry: &[u8]) -> Option<Self> {
        let number = |index: usize| {
            let bytes = entry.get(2 * index..2 * index + 2)?;
            Some(u16::from_le_bytes(bytes.try_into().ok()?))
        };
        let size = |index| number(index).map(usize::from);
        let number_size = match number(0)? {
            MAGIC_16 => 2,
            MAGIC_32 => 4,
            _ => return None,
        };
        Some(Self {
            number_size,
            names: size(1)?,
            booleans: size(2)?,
            numbers: size(3)?,
            offsets: size(4)?,
            strings: size(5)?,
        })
    }

    /// Returns where the numbers begin, which is at an even offset.
    fn numbers_start(&self) -> usize {
        (12 + self.names + self.booleans).next_multiple_of(2)
    }

    /// Returns where the extended capabilities begin.
    fn end(&self) -> usize {
        let offsets = self.numbers_start() + self.numbers * self.number_size;
        (offsets + 2 * self.offsets + self.strings).next_multiple_of(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(magic: u16, colours: u32, extended: &[u8]) -> Vec<u8> {
        let mut entry = Vec::new();
        for number in [magic, 3, 0, 14, 0, 0] {
            entry.extend(number.to_le_bytes());
        }
        entry.extend(b"t|\0\0");
        for index in 0..14 {
            let value = if index == MAX_COLOURS { colours } else { 0 };
            let size = if magic == MAGIC_32 { 4 } else { 2 };
            entry.extend(&value.to_le_bytes()[..size]);
        }
        entry.extend(extended);
        entry
    }

    #[test]
    fn colours_and_extended_names_tell() {
        for (entry, expected) in [
            (entry(MAGIC_16, 256, b""), false),
            (entry(MAGIC_16, 256, b"\x01\0AX\0Tc\0"), true),
            (entry(MAGIC_16, 256, b"\x01\0XTc\0Tcx\0"), false),
            (entry(MAGIC_32, TRUECOLOR, b""), true),
            (entry(MAGIC_32, u32::MAX, b""), false),
            (entry(7, 256, b"Tc\0"), false),
            (Vec::new(), false),
            (entry(MAGIC_32, TRUECOLOR, b"")[..40].to_vec(), false),
        ] {
            assert_eq!(has_truecolor(&entry), expected);
        }
    }

    #[test]
    fn a_name_is_no_path() {
        let files_of = |name| files(name).map(|it| it[0].clone());
        assert_eq!(files_of("xterm").as_deref(), Some("x/xterm"));
        assert_eq!(files("xterm").unwrap()[1], "78/xterm");
        assert_eq!([files_of("../x"), files_of("")], [None, None]);
    }
}
