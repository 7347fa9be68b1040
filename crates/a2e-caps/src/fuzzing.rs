//! What the fuzz targets run. Not part of the interface.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use a2e_wire::Raw;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::files::{Access, Roots, resolve_for_fuzzing};
use crate::tool::{Definition, Schema};

/// The folder of this crate's source: what is resolved is only looked at.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

static ROOTS: LazyLock<[Option<Arc<Roots>>; 2]> = LazyLock::new(|| {
    let folder = Path::new(FOLDER);
    let named = [
        ("src", folder, Access::ReadOnly),
        ("tool", folder, Access::ReadOnly),
    ];
    [
        Roots::one(folder, Access::ReadOnly).ok(),
        Roots::named(named).ok(),
    ]
});

/// Any text as a path: whatever it leads to lies below the root.
pub fn paths(bytes: &[u8]) {
    let Ok(path) = str::from_utf8(bytes) else {
        return;
    };
    for roots in ROOTS.iter().flatten() {
        if let Some(real) = resolve_for_fuzzing(roots, path, OFlags::PATH) {
            let folder = Path::new(FOLDER).canonicalize().unwrap_or_default();
            assert!(
                real.starts_with(&folder),
                "{path} leads to {}",
                real.display()
            );
        }
    }
}

/// Any schema and any arguments, parted by a zero byte: a violation is at a place that is there.
pub fn arguments(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let text = |part: Option<&[u8]>| String::from_utf8(part.unwrap_or_default().to_vec()).ok();
    let (Some(schema), Some(given)) = (text(parts.next()), text(parts.next())) else {
        return;
    };
    let Ok(schema) = Raw::parse(&schema, a2e_wire::OWN_VALUES) else {
        return;
    };
    let Ok(schema) = schema.deserialize::<Value>() else {
        return;
    };
    if let Ok(definition) = Definition::new("t", "T", &schema) {
        let listed = definition.to_wire();
        assert!(listed.input_parameters.len() <= 10_000);
    }
    let (Ok(schema), Ok(given)) = (
        Schema::compile(&schema),
        Raw::parse(&given, a2e_wire::OWN_VALUES),
    ) else {
        return;
    };
    let tree: Value = given.deserialize().unwrap_or_default();
    match schema.arguments(given.into_owned()) {
        Ok(arguments) => assert!(schema.check(arguments.raw()).is_ok()),
        Err(violations) => {
            assert!(!violations.is_empty());
            for violation in violations {
                assert!(tree.pointer(&violation.path).is_some(), "{violation:?}");
            }
        }
    }
}
