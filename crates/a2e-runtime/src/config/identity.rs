//! The section `identity`: who a node is to others.

use super::read::Field;
use super::sections::{Reader, set, set_some};
use crate::secret::Secret;

/// Who a node is to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What its identity is called in the data directory. The default one is made if it is not there.
    pub name: String,
    /// What opens its keys, if they are encrypted.
    pub passphrase: Option<Secret>,
}

impl Identity {
    /// The name of the identity that every node has.
    pub const DEFAULT: &str = "default";
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            name: Self::DEFAULT.to_owned(),
            passphrase: None,
        }
    }
}

impl Reader<'_> {
    pub(super) fn identity(&self, field: &Field<'_>) -> Option<Identity> {
        let mut identity = Identity::default();
        let mut section = field.section()?;
        set(&mut identity.name, section.field("name"), name);
        set_some(
            &mut identity.passphrase,
            section.field("passphrase"),
            |it| self.secret(it),
        );
        section.finish();
        Some(identity)
    }
}

/// What an identity may be called.
fn name(field: &Field<'_>) -> Option<String> {
    let name = field.word()?;
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    match (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        true => Some(name),
        false => {
            field.wrong("must be 1 to 64 of `A-Za-z0-9_-`; `frith id list` shows those there are")
        }
    }
}
