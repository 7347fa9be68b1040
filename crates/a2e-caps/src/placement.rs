//! Where a plugin stands among others.

/// Where a plugin stands among others, as its configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i64,
    /// Whether no other plugin serves what it serves.
    pub exclusive: bool,
}

impl Placement {
    /// Where a plugin stands that is told nothing but its name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            priority: 0,
            exclusive: false,
        }
    }
}

/// The methods of a plugin that say where it stands, by the field that knows.
macro_rules! placed {
    ($($field:ident).+) => {
        fn name(&self) -> &str {
            &self.$($field).+.name
        }

        fn priority(&self) -> i64 {
            self.$($field).+.priority
        }

        fn exclusive(&self) -> bool {
            self.$($field).+.exclusive
        }
    };
}

pub(crate) use placed;
