//! Reading typed values from the tree, with errors that name the member, and writing them.

use canonical::{Digest, Number, Object, Value};

use crate::limits;
use crate::{FieldError, Problem};

/// A type that a JSON value can become.
pub trait Read: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn read(value: &Value<'_>) -> Result<Self, FieldError>;
}

/// A type that becomes a JSON value.
pub trait Write {
    /// Writes it.
    fn write(&self) -> Value<'static>;

    /// The same for good: what it is made of is not copied.
    fn into_value(self) -> Value<'static>
    where
        Self: Sized,
    {
        self.write()
    }
}

/// How a type stands in an object: always, or perhaps.
pub(crate) trait Member: Sized {
    fn take(object: &Object<'_>, name: &str) -> Result<Self, FieldError>;
    fn put(&self, object: &mut Object<'static>, name: &'static str);
    fn put_into(self, object: &mut Object<'static>, name: &'static str);
}

impl<T: Read + Write> Member for T {
    fn take(object: &Object<'_>, name: &str) -> Result<Self, FieldError> {
        match object.get(name) {
            Some(value) => T::read(value),
            None => Err(FieldError::new(Problem::Missing)),
        }
        .map_err(|error| error.within(name))
    }

    fn put(&self, object: &mut Object<'static>, name: &'static str) {
        object.insert(name, self.write());
    }

    fn put_into(self, object: &mut Object<'static>, name: &'static str) {
        object.insert(name, self.into_value());
    }
}

impl<T: Read + Write> Member for Option<T> {
    fn take(object: &Object<'_>, name: &str) -> Result<Self, FieldError> {
        let read = |value| T::read(value).map_err(|error| error.within(name));
        match object.get(name) {
            // Some libraries write `null` for what they leave out.
            Some(Value::Null) => Ok(T::read(&Value::Null).ok()),
            Some(value) => read(value).map(Some),
            None => Ok(None),
        }
    }

    fn put(&self, object: &mut Object<'static>, name: &'static str) {
        if let Some(value) = self {
            object.insert(name, value.write());
        }
    }

    fn put_into(self, object: &mut Object<'static>, name: &'static str) {
        if let Some(value) = self {
            object.insert(name, value.into_value());
        }
    }
}

/// Declares a JSON object: its members with their types, `Option` for those that may be missing.
///
/// Makes the struct, its reading (unknown members are passed over) and its writing.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$field_meta:meta])* $field:ident $(as $wire:literal)?: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// The object, with these members alone.
            #[must_use]
            pub fn to_object(&self) -> canonical::Object<'static> {
                let mut object = canonical::Object::default();
                $($crate::read::Member::put(&self.$field, &mut object, $crate::read::record!(@name $field $($wire)?));)*
                object
            }

            /// The same object, made of these members rather than of copies. There is room for the `type` of a
            /// message; its signature has the place of a member.
            #[must_use]
            pub fn into_object(self) -> canonical::Object<'static> {
                const MEMBERS: usize = [$(stringify!($field)),*].len();
                let mut object = canonical::Object::with_capacity(MEMBERS + 1);
                $($crate::read::Member::put_into(self.$field, &mut object, $crate::read::record!(@name $field $($wire)?));)*
                object
            }

            /// Reads the object's members.
            ///
            /// # Errors
            /// If one is missing or wrong.
            pub fn from_object(object: &canonical::Object<'_>) -> Result<Self, $crate::FieldError> {
                Ok(Self {
                    $($field: $crate::read::Member::take(object, $crate::read::record!(@name $field $($wire)?))?,)*
                })
            }
        }

        impl $crate::Read for $name {
            fn read(value: &canonical::Value<'_>) -> Result<Self, $crate::FieldError> {
                Self::from_object($crate::read::object(value)?)
            }
        }

        impl $crate::Write for $name {
            fn write(&self) -> canonical::Value<'static> {
                canonical::Value::Object(self.to_object())
            }

            fn into_value(self) -> canonical::Value<'static> {
                canonical::Value::Object(self.into_object())
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $wire:literal) => { $wire };
}
pub(crate) use record;

pub(crate) fn object<'v, 'a>(value: &'v Value<'a>) -> Result<&'v Object<'a>, FieldError> {
    value
        .as_object()
        .ok_or_else(|| FieldError::mistyped("an object", value))
}

pub(crate) fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, FieldError> {
    value
        .as_str()
        .ok_or_else(|| FieldError::mistyped("a string", value))
}

pub(crate) fn list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v [Value<'a>], FieldError> {
    let Value::Array(list) = value else {
        return Err(FieldError::mistyped("an array", value));
    };
    match list.len() > limits::LIST {
        true => Err(FieldError::form("a list of at most 1024 elements")),
        false => Ok(list),
    }
}

fn integer(value: &Value<'_>) -> Result<i64, FieldError> {
    let wrong = || FieldError::mistyped("an integer", value);
    match value {
        Value::Number(number) => number
            .as_i64()
            .ok_or_else(|| FieldError::form("written as an integer")),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong())
        }
    }
}

/// An integer as JSON; those of this crate are all within ±(2^53−1).
fn number(value: i64) -> Value<'static> {
    Number::integer(value).map_or(Value::Null, Value::Number)
}

impl Read for bool {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        match value {
            Value::Bool(value) => Ok(*value),
            Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => Err(FieldError::mistyped("a boolean", value)),
        }
    }
}

impl Write for bool {
    fn write(&self) -> Value<'static> {
        Value::Bool(*self)
    }
}

/// Seconds since 1970, as every time on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// This many seconds later; the end of time at most.
    #[must_use]
    pub const fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Whether a claimed time is at most [`limits::SKEW`] away, both ways, inclusive.
    #[must_use]
    pub const fn is_near(self, now: Self) -> bool {
        self.0.abs_diff(now.0) <= limits::SKEW.unsigned_abs()
    }
}

impl Read for UnixSeconds {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        integer(value).map(Self)
    }
}

impl Write for UnixSeconds {
    fn write(&self) -> Value<'static> {
        number(self.0)
    }
}

/// A number of things: 0 to 2^53−1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(u64);

impl Count {
    /// None of them.
    pub const ZERO: Self = Self(0);

    /// `None` beyond 2^53−1.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Number::MAX_INTEGER.unsigned_abs() {
            return Some(Self(value));
        }
        None
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Read for Count {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        let value = u64::try_from(integer(value)?);
        value.map(Self).map_err(|_| FieldError::form("0 or more"))
    }
}

impl Write for Count {
    fn write(&self) -> Value<'static> {
        number(i64::try_from(self.0).unwrap_or(Number::MAX_INTEGER))
    }
}

/// A value or an explicit `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nullable<T>(pub Option<T>);

impl<T: Read> Read for Nullable<T> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        match value {
            Value::Null => Ok(Self(None)),
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => T::read(value).map(|value| Self(Some(value))),
        }
    }
}

impl<T: Write> Write for Nullable<T> {
    fn write(&self) -> Value<'static> {
        self.0.as_ref().map_or(Value::Null, Write::write)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        let read = |(index, item)| {
            T::read(item).map_err(|error: FieldError| error.within(&format!("[{index}]")))
        };
        list(value)?.iter().enumerate().map(read).collect()
    }
}

impl<T: Write> Write for Vec<T> {
    fn write(&self) -> Value<'static> {
        Value::Array(self.iter().map(Write::write).collect())
    }

    fn into_value(self) -> Value<'static> {
        Value::Array(self.into_iter().map(Write::into_value).collect())
    }
}

impl Read for Digest {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        let rule = "`sha256:` and 64 lower-case hexadecimal digits";
        text(value)?.parse().map_err(|_| FieldError::form(rule))
    }
}

impl Write for Digest {
    fn write(&self) -> Value<'static> {
        Value::String(String::from(*self).into())
    }
}

/// Any JSON, as it came.
impl Read for Value<'static> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Ok(value.to_static())
    }
}

impl Write for Value<'static> {
    fn write(&self) -> Self {
        self.clone()
    }

    fn into_value(self) -> Self {
        self
    }
}

/// An object of free form, as it came.
impl Read for Object<'static> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Ok(object(value)?.to_static())
    }
}

impl Write for Object<'static> {
    fn write(&self) -> Value<'static> {
        Value::Object(self.clone())
    }

    fn into_value(self) -> Value<'static> {
        Value::Object(self)
    }
}
