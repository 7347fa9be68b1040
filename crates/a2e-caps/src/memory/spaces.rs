//! The memories that a session has opened.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2e_runtime::Failure;
use a2e_wire::lenient::LooseText;
use a2e_wire::{ErrorCode, Map, Namespace, Raw};
use serde::{Deserialize, Serialize};
use store::MAX_NAME;

use super::schema;

/// Memories that one session may have open.
pub(super) const MAX_OPEN: usize = 256;

/// Bytes of a namespace.
pub(super) const MAX_NAMESPACE: usize = 256;

/// A memory: a namespace, and a part of it if a scope was named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Space {
    pub(super) namespace: String,
    /// Its name in the store.
    pub(super) name: String,
}

/// The memories that a session has opened, by their ids.
#[derive(Debug, Default)]
pub(super) struct Spaces(Mutex<BTreeMap<String, Space>>);

const DEFAULT: &str = "default";

impl Default for Space {
    fn default() -> Self {
        Self {
            namespace: DEFAULT.to_owned(),
            name: DEFAULT.to_owned(),
        }
    }
}

impl Space {
    pub(super) fn named(namespace: &str, scope: &Map<'_, LooseText<'_>>) -> Result<Self, Failure> {
        let namespace = if namespace.is_empty() {
            DEFAULT
        } else {
            namespace
        };
        if namespace.len() > MAX_NAMESPACE || namespace.contains(char::is_control) {
            let text =
                format!("a namespace has at most {MAX_NAMESPACE} bytes and no control characters");
            return Err(schema(text));
        }
        let mut name = namespace.to_owned();
        let scope: BTreeMap<&str, &str> =
            scope.iter().map(|(key, value)| (key, &*value.0)).collect();
        if !scope.is_empty() {
            name.push('\u{1f}');
            name.push_str(&serde_json::to_string(&scope).map_err(|it| schema(it.to_string()))?);
        }
        match name.len() > MAX_NAME {
            true => Err(schema(format!(
                "a namespace and its scope have at most {MAX_NAME} bytes together"
            ))),
            false => Ok(Self {
                namespace: namespace.to_owned(),
                name,
            }),
        }
    }
}

impl Spaces {
    /// The id of a memory, the same each time it is opened in this session.
    pub(super) fn open(&self, space: Space) -> Result<String, Failure> {
        let mut spaces = self.lock();
        if let Some((id, _)) = spaces.iter().find(|(_, known)| **known == space) {
            return Ok(id.clone());
        }
        if spaces.len() >= MAX_OPEN {
            let text = format!("a session has at most {MAX_OPEN} memories open");
            return Err(Failure::new(ErrorCode::MemoryFull, Namespace::Memory, text));
        }
        let id = fresh_id()?;
        spaces.insert(id.clone(), space);
        Ok(id)
    }

    pub(super) fn find(&self, id: &str) -> Option<Space> {
        self.lock().get(id).cloned()
    }

    pub(super) fn save(&self) -> Option<Raw<'static>> {
        let spaces = self.lock();
        match spaces.is_empty() {
            true => None,
            false => Raw::from_serialize(&*spaces).ok(),
        }
    }

    pub(super) fn restore(&self, state: &Raw<'_>) {
        if let Ok(spaces) = state.deserialize() {
            *self.lock() = spaces;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Space>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A random UUID with dashes, as other hosts give.
fn fresh_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| {
        let text = "the system gives no random bytes";
        Failure::new(ErrorCode::RuntimeError, Namespace::Memory, text)
    })?;
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let mut id = hex::encode(bytes);
    for at in [20, 16, 12, 8] {
        id.insert(at, '-');
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids() {
        let id = fresh_id().unwrap();
        assert_eq!(id.len(), 36);
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
    }
}
