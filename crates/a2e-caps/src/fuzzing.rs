//! What the fuzz targets run. Not part of the interface.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use a2e_wire::Raw;
use grep_searcher::SearcherBuilder;
use grep_searcher::sinks::Bytes;
use policy::Query;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::chains::compile_for_fuzzing;
use crate::expressions;
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

/// Any text as each kind of expression that an agent may write, and what it is applied to, parted by a
/// zero byte: each is compiled and evaluated, or refused.
pub fn agent_expressions(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let mut text = || str::from_utf8(parts.next().unwrap_or_default()).ok();
    let (Some(expression), Some(subject)) = (text(), text()) else {
        return;
    };
    if let Ok(glob) = expressions::glob(expression) {
        glob.is_match(subject);
    }
    for is_literal in [false, true] {
        let matcher = expressions::regex(expression, |builder| {
            builder.fixed_strings(is_literal).multi_line(true);
        });
        if let Ok(matcher) = matcher {
            let mut searcher = SearcherBuilder::new().build();
            let sink = Bytes(|_, _| Ok(true));
            let found = searcher.search_slice(&matcher, subject.as_bytes(), sink);
            assert!(found.is_ok(), "{found:?}");
        }
    }
    compile_for_fuzzing(expression);
    let subject = Raw::parse(subject, a2e_wire::OWN_VALUES).ok();
    let tree: Value = subject
        .as_ref()
        .and_then(|subject| subject.deserialize().ok())
        .unwrap_or_default();
    if let Ok(query) = Query::parse(expression) {
        let _ = query.search(&tree);
    }
    let schema = Raw::parse(expression, a2e_wire::OWN_VALUES).ok();
    let schema: Option<Value> = schema.and_then(|schema| schema.deserialize().ok());
    if let (Some(schema), Some(subject)) = (schema, subject)
        && let Ok(schema) = Schema::compile(&schema)
    {
        let _ = schema.check(&subject);
    }
}
