//! `record!`: declares a message or a nested object once; reading, writing, describing and
//! building it follow.
//!
//! ```text
//! record! {
//!     /// What it is.
//!     Name<'a> as "CatalogueName" {            // `as` where the catalogue calls it otherwise
//!         plain: Cow<'a, str>,                 // required
//!         with_default: i64 = 30,              // the JSON value of a missing field
//!         made: Timestamp = (now),             // made up by the sender; see `Default::Made`
//!         class as "type": Cow<'a, str>,       // another name on the wire
//!         config | "schema": Object<'a> = {},  // also read under that name; its own name wins
//!         delta & "state_delta": Object<'a> = {}, // written under both names; the one that is not empty is read
//!         pid: i64 = 0 ~ null,                 // this ill-typed literal is read as a missing field
//!     }
//!     sparse { extra: bool, }                  // an `Option`, without a default; `None` is not written
//!     others { rest }                          // unknown members are kept here (needs `'a`)
//! }
//! ```
//!
//! A record that borrows nothing has no lifetime. A message's line in the table of `table.rs` must
//! have the same: when a first borrowing field is added, both get `<'a>`.

use crate::wire::{Decode, Describe, MemberSource};
use crate::{Invalid, Timestamp};

/// What a record looks like on the wire, for tests and documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its fields in the order they are written.
    pub fields: Vec<Field>,
    /// Whether members of unknown name are kept.
    pub keeps_others: bool,
}

/// One field of a [`Shape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name on the wire.
    pub name: &'static str,
    /// Its type in the catalogue's notation.
    pub wire_type: String,
    /// The enumeration whose values are expected.
    pub enumeration: Option<&'static str>,
    /// What a missing field means; `None` if it must be there.
    pub default: Option<Default>,
    /// Left out when there is nothing to say.
    pub sparse: bool,
    /// A second name under which the same value is written.
    pub mirror: Option<&'static str>,
    /// Other names under which it is read.
    pub aliases: &'static [&'static str],
    /// An ill-typed value that some peers send for an unset field.
    pub unset: Option<&'static str>,
}

/// What a missing field means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// This JSON value.
    Literal(&'static str),
    /// Something the sender should have made up, by its name in the catalogue: `now` is the
    /// message's time; of ids (`uuid4_hex`, `uuid4`, `hex8`, `hex12`, `b_unix_ns`) there is none.
    Made(&'static str),
}

impl Default {
    /// As it stands in a declaration: a JSON value, or `(name)`.
    pub(crate) fn declared(text: &'static str) -> Self {
        match text
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'))
        {
            Some(name) => Self::Made(name),
            None => Self::Literal(text),
        }
    }
}

/// Something with a [`Shape`].
pub trait Shaped {
    /// Its shape.
    fn shape() -> Shape;
}

impl Field {
    pub(crate) fn of<T: Describe>(name: &'static str) -> Self {
        Self {
            name,
            wire_type: T::wire_type(),
            enumeration: T::enumeration(),
            default: None,
            sparse: false,
            mirror: None,
            aliases: &[],
            unset: None,
        }
    }
}

/// Reads a member's value; an error names the member.
#[inline]
pub(crate) fn field<'de, T: Decode<'de>>(
    members: &mut impl MemberSource<'de>,
    name: &str,
) -> Result<T, Invalid> {
    if let Some(value) = members.plain_string().and_then(T::from_plain) {
        return Ok(value);
    }
    T::decode(members.value()).map_err(|error| error.at_field(name))
}

/// Reads a member's value; the ill-typed literal `unset` is as good as none.
pub(crate) fn field_or_unset<'de, T: Decode<'de>>(
    members: &mut impl MemberSource<'de>,
    name: &str,
    unset: &str,
) -> Result<Option<T>, Invalid> {
    if members.value().take_literal(unset) {
        return Ok(None);
    }
    field(members, name).map(Some)
}

/// The value of a missing field.
pub(crate) fn missing<'de, T: Decode<'de>>(
    name: &'static str,
    default: &'static str,
    ts: Timestamp,
) -> Result<T, Invalid> {
    T::absent(default, ts).map_err(|error| error.at_field(name))
}

/// The default of a field that has one, for `new`.
#[expect(
    clippy::expect_used,
    reason = "the literal stands in the field's declaration; a test builds every record"
)]
pub(crate) fn default<T: Decode<'static>>(literal: &'static str) -> T {
    T::absent(literal, Timestamp::default()).expect("a declared default fits its type")
}

macro_rules! record {
    (
        $(#[$meta:meta])*
        $name:ident $(<$lt:lifetime>)? $(as $catalogue:literal)? {
            $(
                $(#[$field_meta:meta])*
                $field:ident $(as $wire:literal)? $(| $alias:literal)* $(& $mirror:literal)?
                : $type:ty $(= $default:tt $(~ $unset:tt)?)?,
            )*
        }
        $(sparse {
            $($(#[$sparse_meta:meta])* $sparse:ident $(as $sparse_wire:literal)?: $sparse_type:ty,)*
        })?
        $(others { $others:ident })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "fields mean what the specification says of their names")]
        pub struct $name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $type,)*
            $($($(#[$sparse_meta])* pub $sparse: Option<$sparse_type>,)*)?
            $(
                /// Members that the catalogue does not name, in their order.
                pub $others: $crate::Map<'a, strict_json::Raw<'a>>,
            )?
        }

        impl<'de $(: $lt, $lt)?> $crate::wire::FromMembers<'de> for $name $(<$lt>)? {
            #[allow(
                unused_variables,
                clippy::too_many_lines,
                clippy::cognitive_complexity,
                reason = "one arm a field, and some records have none"
            )]
            fn from_members<M: $crate::wire::MemberSource<'de>>(
                members: &mut M,
            ) -> Result<Self, $crate::Invalid> {
                $(let mut $field: Option<$type> = None;)*
                $($(let mut $sparse: Option<$sparse_type> = None;)*)?
                $(let mut $others = $crate::Map::default();)?
                while let Some(name) = members.next_name() {
                    match &*name {
                        $(
                            record!(@name $field $($wire)?) => {
                                if let Some(value) =
                                    record!(@read members, &name $(, $default $(, $unset)?)?)
                                {
                                    record!(@set $field, value $(, $mirror)?);
                                }
                            }
                            $($alias => {
                                let value = $crate::record::field(members, &name)?;
                                $field.get_or_insert(value);
                            })*
                            $($mirror => {
                                let value = $crate::record::field(members, &name)?;
                                let empty = std::default::Default::default();
                                if $field.as_ref().is_none_or(|known| *known == empty) {
                                    $field = Some(value);
                                }
                            })?
                        )*
                        $($(
                            record!(@name $sparse $($sparse_wire)?) => {
                                $sparse = $crate::record::field(members, &name)?;
                            }
                        )*)?
                        _ => record!(@other members, name $(, $others)?),
                    }
                }
                Ok(Self {
                    $($field: match $field {
                        Some(value) => value,
                        None => record!(
                            @missing record!(@name $field $($wire)?), members.ts() $(, $default)?
                        ),
                    },)*
                    $($($sparse,)*)?
                    $($others,)?
                })
            }
        }

        impl<'de $(: $lt, $lt)?> $crate::wire::Decode<'de> for $name $(<$lt>)? {
            fn decode(reader: &mut $crate::wire::Reader<'de>) -> Result<Self, $crate::Invalid> {
                reader.record()
            }
        }

        impl $(<$lt>)? $crate::wire::WriteMembers for $name $(<$lt>)? {
            #[allow(unused_variables, dead_code, reason = "some records have no fields, or no others")]
            fn write_members(&self, out: &mut $crate::wire::Writer<'_>) {
                const KNOWN: &[&str] = &[
                    $(record!(@name $field $($wire)?),)*
                    $($($mirror,)?)*
                    $($(record!(@name $sparse $($sparse_wire)?),)*)?
                ];
                $(
                    out.key(concat!("\"", record!(@name $field $($wire)?), "\":"));
                    $crate::wire::Encode::encode(&self.$field, out);
                    $(
                        out.key(concat!("\"", $mirror, "\":"));
                        $crate::wire::Encode::encode(&self.$field, out);
                    )?
                )*
                $($(
                    if let Some(value) = &self.$sparse {
                        out.key(concat!("\"", record!(@name $sparse $($sparse_wire)?), "\":"));
                        $crate::wire::Encode::encode(value, out);
                    }
                )*)?
                $(
                    let unknown = self.$others.iter().filter(|(name, _)| !KNOWN.contains(name));
                    for (name, value) in unknown {
                        out.separate(b'{');
                        out.string(name);
                        out.push(b':');
                        $crate::wire::Encode::encode(value, out);
                    }
                )?
            }
        }

        impl $(<$lt>)? $crate::wire::Encode for $name $(<$lt>)? {
            fn encode(&self, out: &mut $crate::wire::Writer<'_>) {
                out.record(self);
            }
        }

        impl $(<$lt>)? $crate::wire::Describe for $name $(<$lt>)? {
            fn wire_type() -> String {
                record!(@name $name $($catalogue)?).into()
            }
        }

        impl $(<$lt>)? $crate::record::Shaped for $name $(<$lt>)? {
            fn shape() -> $crate::record::Shape {
                $crate::record::Shape {
                    fields: vec![
                        $($crate::record::Field {
                            $(default: Some($crate::record::Default::declared(stringify!($default))),)?
                            $($(unset: Some(stringify!($unset)),)?)?
                            $(mirror: Some($mirror),)?
                            aliases: &[$($alias),*],
                            ..$crate::record::Field::of::<$type>(record!(@name $field $($wire)?))
                        },)*
                        $($($crate::record::Field {
                            sparse: true,
                            ..$crate::record::Field::of::<$sparse_type>(
                                record!(@name $sparse $($sparse_wire)?),
                            )
                        },)*)?
                    ],
                    keeps_others: record!(@keeps $($others)?),
                }
            }
        }

        record!(@static $name $(<$lt>)? [
            $($field)* $($($sparse)*)? $($others)?
        ]);

        record!(@new $name $(<$lt>)? [] [] {
            $($field: $type $(= $default)?,)*
        } { $($($sparse: None,)*)? $($others: $crate::Map::default(),)? });
    };

    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $wire:literal) => { $wire };

    (@read $members:ident, $name:expr $(, $default:tt)?) => {
        Some($crate::record::field($members, $name)?)
    };
    (@read $members:ident, $name:expr, $default:tt, $unset:tt) => {
        $crate::record::field_or_unset($members, $name, stringify!($unset))?
    };

    (@set $field:ident, $value:ident) => { $field = Some($value) };
    // An empty value does not replace that of the mirror.
    (@set $field:ident, $value:ident, $mirror:literal) => {
        if $field.is_none() || $value != std::default::Default::default() {
            $field = Some($value);
        }
    };

    (@other $members:ident, $name:ident) => { $members.skip() };
    (@other $members:ident, $name:ident, $others:ident) => {{
        let value = $crate::record::field($members, &$name)?;
        $others.push($name, value);
    }};

    (@keeps) => { false };
    (@keeps $others:ident) => { true };

    (@missing $name:expr, $ts:expr) => {
        return Err($crate::Invalid::missing().at_field($name))
    };
    (@missing $name:expr, $ts:expr, $default:tt) => {
        $crate::record::missing($name, stringify!($default), $ts)?
    };

    (@static $name:ident [$($field:ident)*]) => {
        $crate::codec::already_static!($name);
    };
    (@static $name:ident <$lt:lifetime> [$($field:ident)*]) => {
        impl $crate::wire::ToStatic for $name<'_> {
            type Static = $name<'static>;

            fn to_static(self) -> Self::Static {
                $name { $($field: $crate::wire::ToStatic::to_static(self.$field),)* }
            }
        }
    };

    // `new` asks for the fields without a default and for what the sender makes up. It takes field
    // after field from {to do} to [parameters] and [values]; {tail} is what every value ends with.
    (@new $name:ident $(<$lt:lifetime>)? [$($parameters:tt)*] [$($values:tt)*]
        { $field:ident: $type:ty = ($made:ident), $($rest:tt)* } $tail:tt
    ) => {
        record!(@new $name $(<$lt>)?
            [$($parameters)* $field: $type,] [$($values)* $field,] { $($rest)* } $tail);
    };
    (@new $name:ident $(<$lt:lifetime>)? [$($parameters:tt)*] [$($values:tt)*]
        { $field:ident: $type:ty = $default:tt, $($rest:tt)* } $tail:tt
    ) => {
        record!(@new $name $(<$lt>)? [$($parameters)*]
            [$($values)* $field: $crate::record::default::<$type>(stringify!($default)),]
            { $($rest)* } $tail);
    };
    (@new $name:ident $(<$lt:lifetime>)? [$($parameters:tt)*] [$($values:tt)*]
        { $field:ident: $type:ty, $($rest:tt)* } $tail:tt
    ) => {
        record!(@new $name $(<$lt>)?
            [$($parameters)* $field: $type,] [$($values)* $field,] { $($rest)* } $tail);
    };
    (@new $name:ident $(<$lt:lifetime>)? [$($parameters:tt)*] [$($values:tt)*] {}
        { $($tail:tt)* }
    ) => {
        impl $(<$lt>)? $name $(<$lt>)? {
            /// One with the catalogue's defaults for every field that has one.
            #[allow(
                clippy::too_many_arguments,
                clippy::new_without_default,
                reason = "the specification says how many fields are required"
            )]
            #[must_use]
            pub fn new($($parameters)*) -> Self {
                Self { $($values)* $($tail)* }
            }
        }
    };
}
pub(crate) use record;
