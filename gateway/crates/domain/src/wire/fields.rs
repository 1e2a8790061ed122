//! Views of JSON objects that keep unknown fields that may contain text.

use serde_json::value::RawValue;

use super::first_byte;
use super::text::{FieldKind, Strings, is_label, strings_in};

/// The value of an unknown field.
#[derive(Clone, Copy, Debug)]
pub struct Unknown<'a> {
    /// The kind of its strings.
    pub kind: FieldKind,
    /// The value.
    pub raw: &'a RawValue,
}

impl<'a> Unknown<'a> {
    /// Creates a field whose strings are text, independent of its name.
    pub(super) fn text(raw: &'a RawValue) -> Self {
        Self { kind: FieldKind::Text, raw }
    }

    /// Creates a field of this kind; `None` if the value cannot contain text.
    pub(super) fn new(kind: FieldKind, raw: &'a RawValue) -> Option<Self> {
        let is_empty = match kind {
            FieldKind::Label => is_label(raw),
            FieldKind::Data | FieldKind::Text => !matches!(first_byte(raw), b'"' | b'{' | b'['),
        };
        (!is_empty).then_some(Self { kind, raw })
    }

    /// Returns all strings of the value.
    pub fn strings(&self) -> Strings<'a> {
        strings_in(self.kind, self.raw)
    }
}

/// Declares a view of an object. Each field is optional; undeclared fields are kept as [`Unknown`].
/// A duplicate field is an error.
macro_rules! view_fields {
    (struct $view:ident<$a:lifetime> { $($(#[$doc:meta])* $name:ident: $kind:ty,)* }) => {
        #[derive(Debug, Default)]
        struct $view<$a> {
            $($(#[$doc])* $name: Option<$kind>,)*
            unknown: Vec<$crate::wire::fields::Unknown<$a>>,
        }

        impl<'de: $a, $a> serde::Deserialize<'de> for $view<$a> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use std::{fmt, marker::PhantomData};

                use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
                use serde_json::value::RawValue;
                use $crate::wire::{fields::Unknown, text::FieldKind};

                #[expect(non_camel_case_types, reason = "these are the names of the fields")]
                enum Key {
                    $($name,)*
                    Other(FieldKind),
                }
                impl<'de> Deserialize<'de> for Key {
                    fn deserialize<D: Deserializer<'de>>(keys: D) -> Result<Self, D::Error> {
                        struct Name;
                        impl Visitor<'_> for Name {
                            type Value = Key;

                            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                                f.write_str("a field's name")
                            }

                            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                                Ok(match name {
                                    $(stringify!($name) => Key::$name,)*
                                    _ => Key::Other(FieldKind::of(name)),
                                })
                            }
                        }
                        keys.deserialize_identifier(Name)
                    }
                }
                struct Fields<$a>(PhantomData<&$a ()>);
                impl<'de: $a, $a> Visitor<'de> for Fields<$a> {
                    type Value = $view<$a>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<$view<$a>, M::Error> {
                        let mut view = $view::default();
                        while let Some(key) = map.next_key()? {
                            match key {
                                $(Key::$name => {
                                    if view.$name.is_some() {
                                        return Err(M::Error::duplicate_field(stringify!($name)));
                                    }
                                    view.$name = map.next_value()?;
                                })*
                                Key::Other(kind) => {
                                    let raw: &$a RawValue = map.next_value()?;
                                    view.unknown.extend(Unknown::new(kind, raw));
                                }
                            }
                        }
                        Ok(view)
                    }
                }
                deserializer.deserialize_map(Fields(PhantomData))
            }
        }
    };
}

pub(super) use view_fields;
