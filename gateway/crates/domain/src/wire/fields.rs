//! Views of JSON objects that keep unknown fields that may contain text.

use super::json::{JsonReader, Malformed, RawJson};
use super::text::{FieldKind, Strings, is_label, strings_in};

/// The value of an unknown field.
#[derive(Clone, Copy, Debug)]
pub struct Unknown<'a> {
    /// The kind of its strings.
    pub kind: FieldKind,
    /// The value.
    pub raw: RawJson<'a>,
}

impl<'a> Unknown<'a> {
    /// Creates a field whose strings are text, independent of its name.
    pub(super) fn text(raw: RawJson<'a>) -> Self {
        Self { kind: FieldKind::Text, raw }
    }

    /// Creates a field of this kind; `None` if the value cannot contain text.
    pub(super) fn new(kind: FieldKind, raw: RawJson<'a>) -> Option<Self> {
        let is_empty = match kind {
            FieldKind::Label => is_label(raw),
            FieldKind::Data | FieldKind::Text => !matches!(raw.first_byte(), b'"' | b'{' | b'['),
        };
        (!is_empty).then_some(Self { kind, raw })
    }

    /// Returns all strings of the value.
    pub fn strings(&self) -> Strings<'a> {
        strings_in(self.kind, self.raw)
    }
}

/// The type of a field of a view.
pub(super) trait Field<'a>: Sized {
    /// Reads the value; `None` for `null`.
    ///
    /// # Errors
    /// It has another type.
    fn read(json: &mut JsonReader<'a>) -> Result<Option<Self>, Malformed>;
}

impl<'a> Field<'a> for RawJson<'a> {
    fn read(json: &mut JsonReader<'a>) -> Result<Option<Self>, Malformed> {
        json.value().map(|value| Some(value).filter(|value| !value.is_null()))
    }
}

impl<'a> Field<'a> for u32 {
    fn read(json: &mut JsonReader<'a>) -> Result<Option<Self>, Malformed> {
        let Some(value) = RawJson::read(json)? else { return Ok(None) };
        value.get().parse().map(Some).map_err(|_| json.malformed())
    }
}

/// The most elements of a list, more than any server sends. The view of an element takes a hundred times the memory of
/// its text if that is `{}`.
const MAX_ELEMENTS: usize = 16 * 1024;

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    fn read(json: &mut JsonReader<'a>) -> Result<Option<Self>, Malformed> {
        if json.null()? {
            return Ok(None);
        }
        // Most lists have one element. A list that grows from empty would begin with room for four, which is more than a
        // KiB for the choices of each chunk.
        let mut list = Self::with_capacity(1);
        json.array(|json| {
            if list.len() == MAX_ELEMENTS {
                return Err(json.error("a list of too many elements"));
            }
            list.push(T::read(json)?.ok_or_else(|| json.malformed())?);
            Ok::<_, Malformed>(())
        })?;
        Ok(Some(list))
    }
}

/// Reads a field that may have one value; it may also be `null` before.
///
/// # Errors
/// The value has another type, or `field` has a value.
pub(super) fn read_once<'a, T: Field<'a>>(
    field: &mut Option<T>,
    json: &mut JsonReader<'a>,
) -> Result<(), Malformed> {
    if field.is_some() {
        return Err(json.error("duplicate field"));
    }
    *field = T::read(json)?;
    Ok(())
}

/// Declares a view of an object. Each field is optional; undeclared fields are kept as [`Unknown`].
/// A field with two values is an error.
macro_rules! view_fields {
    (struct $view:ident<$a:lifetime> { $($(#[$doc:meta])* $name:ident: $kind:ty,)* }) => {
        #[derive(Debug, Default)]
        struct $view<$a> {
            $($(#[$doc])* $name: Option<$kind>,)*
            unknown: Vec<$crate::wire::fields::Unknown<$a>>,
        }

        impl<$a> $crate::wire::fields::Field<$a> for $view<$a> {
            fn read(
                json: &mut $crate::wire::json::JsonReader<$a>,
            ) -> Result<Option<Self>, $crate::wire::json::Malformed> {
                use $crate::wire::fields::{Unknown, read_once};
                use $crate::wire::text::FieldKind;

                if json.null()? {
                    return Ok(None);
                }
                let mut view = Self::default();
                json.object(|json, name| {
                    match &*name {
                        $(stringify!($name) => read_once(&mut view.$name, json)?,)*
                        _ => {
                            view.unknown.extend(Unknown::new(FieldKind::of(&name), json.value()?));
                        }
                    }
                    Ok::<_, $crate::wire::json::Malformed>(())
                })?;
                Ok(Some(view))
            }
        }
    };
}

pub(super) use view_fields;
