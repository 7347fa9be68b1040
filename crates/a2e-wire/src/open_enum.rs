//! `open_enum!`: words with a meaning, among others that survive.

/// What an open enumeration says of itself, for tests and documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enumeration {
    /// Its name in the catalogue.
    pub name: &'static str,
    /// The values with a meaning.
    pub values: &'static [&'static str],
}

/// Declares an enumeration whose unknown values are kept as they came.
///
/// `read f` names the function that turns a received text into a value, if it is not `from`.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        $name:ident $(as $catalogue:literal)? $(read $read:ident)? {
            $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "values mean what the specification says of them")]
        pub enum $name<'a> {
            $($(#[$variant_meta])* $variant,)*
            /// Another value, kept as it came.
            Other(std::borrow::Cow<'a, str>),
        }

        impl<'a> $name<'a> {
            /// Its name in the catalogue and the values with a meaning.
            pub const ENUMERATION: $crate::open_enum::Enumeration =
                $crate::open_enum::Enumeration {
                    name: open_enum!(@name $name $($catalogue)?),
                    values: &[$($value),*],
                };

            /// The value on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $value,)*
                    Self::Other(text) => text,
                }
            }

            fn known(text: &str) -> Option<Self> {
                match text {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The value a peer means that may have written it in upper case.
            #[must_use]
            pub fn from_any_case(text: std::borrow::Cow<'a, str>) -> Self {
                Self::known(&text)
                    .or_else(|| Self::known(&text.to_ascii_lowercase()))
                    .unwrap_or(Self::Other(text))
            }
        }

        impl<'a, T: Into<std::borrow::Cow<'a, str>>> From<T> for $name<'a> {
            fn from(text: T) -> Self {
                let text = text.into();
                Self::known(&text).unwrap_or(Self::Other(text))
            }
        }

        impl std::fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl<'de: 'a, 'a> $crate::wire::Decode<'de> for $name<'a> {
            fn decode(reader: &mut $crate::wire::Reader<'de>) -> Result<Self, $crate::Invalid> {
                let text = <std::borrow::Cow<'de, str> as $crate::wire::Decode>::decode(reader)?;
                Ok(open_enum!(@read text $($read)?))
            }

            #[inline]
            fn from_plain(text: &'de str) -> Option<Self> {
                let text = std::borrow::Cow::Borrowed(text);
                Some(open_enum!(@read text $($read)?))
            }
        }

        impl $crate::wire::Encode for $name<'_> {
            fn encode(&self, out: &mut $crate::wire::Writer<'_>) {
                out.string(self.as_str());
            }
        }

        impl $crate::wire::Describe for $name<'_> {
            fn wire_type() -> String {
                "string".into()
            }

            fn enumeration() -> Option<&'static str> {
                Some(Self::ENUMERATION.name)
            }
        }

        impl $crate::wire::ToStatic for $name<'_> {
            type Static = $name<'static>;

            fn to_static(self) -> Self::Static {
                match self {
                    $(Self::$variant => $name::$variant,)*
                    Self::Other(text) => $name::Other($crate::wire::ToStatic::to_static(text)),
                }
            }
        }
    };

    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $catalogue:literal) => { $catalogue };

    (@read $text:ident) => { Self::from($text) };
    (@read $text:ident $read:ident) => { Self::$read($text) };
}
pub(crate) use open_enum;
