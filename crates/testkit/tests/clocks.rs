//! No comparison of system clocks decides whether something is done again. What is remembered for
//! that goes by the run of the store and by clocks that never jump.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The modules of named work, chains, idempotency, journals and approvals, by a part of their paths.
const MODULES: &[&str] = &[
    "/a2a-net/src/server/work",
    "/a2a-session/src/session/works",
    "/a2e-caps/src/chains",
    "/a2e-runtime/src/approvals",
    "/a2e-runtime/src/driver/work",
    "/a2e-runtime/src/idempotency",
    "/a2e-runtime/src/journal",
    "/a2e-runtime/src/retries",
    "/a2e-runtime/src/snapshot",
    "/frith/src/node/chains",
    "/store/src/approvals",
    "/store/src/chains",
    "/store/src/results",
    "/store/src/sqlite/backup",
    "/store/src/sqlite/run",
];

/// What reads or carries the time of a system clock.
const SYSTEM_CLOCK: &[&str] = &[
    "SystemTime",
    "UNIX_EPOCH",
    "UnixMillis",
    "UnixSeconds",
    "fresh::now",
    "clock.millis",
    ".unix",
];

/// Files that use it all the same, and why nothing is done again by that.
const ALLOWED: &[(&str, &str)] = &[
    (
        "a2e-caps/src/chains/keeper.rs",
        "shown to people, and for how long chains are kept that have ended",
    ),
    ("a2e-caps/src/chains/runs.rs", "what of that is listed"),
    ("a2e-caps/src/chains/shown.rs", "what of that is shown"),
    (
        "a2e-runtime/src/approvals.rs",
        "until when a decision stands; an approval is removed when it is used",
    ),
    (
        "a2e-runtime/src/snapshot/files.rs",
        "removes journals of sessions that no agent can go on with",
    ),
    ("store/src/approvals.rs", "as in a2e-runtime"),
    ("store/src/approvals/memory.rs", "as in a2e-runtime"),
    ("store/src/chains.rs", "as in a2e-caps"),
    ("store/src/chains/memory.rs", "as in a2e-caps"),
    ("store/src/chains/sqlite.rs", "as in a2e-caps"),
];

/// The Rust files below a folder, with their paths below the folder of all crates.
fn files(folder: &Path, name: &str, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, own) = (entry.path(), entry.file_name().into_string().unwrap());
        let name = format!("{name}/{own}");
        match path.is_dir() {
            true => files(&path, &name, found),
            false if own.ends_with(".rs") && own != "tests.rs" => {
                found.push((name, fs::read_to_string(path).unwrap()));
            }
            false => {}
        }
    }
}

#[test]
fn no_system_clock_decides_whether_something_is_done_again() {
    let mut all = Vec::new();
    files(&testkit::workspace().join("crates"), "", &mut all);
    let is_meant = |name: &str| MODULES.iter().any(|module| name.starts_with(module));
    let meant: Vec<_> = all.iter().filter(|(name, _)| is_meant(name)).collect();
    assert!(
        meant.len() > 20,
        "the modules are elsewhere: {}",
        meant.len()
    );
    let mut using = BTreeSet::new();
    for (name, text) in meant {
        // What stands in tests within a file decides nothing.
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        if let Some(word) = SYSTEM_CLOCK.iter().find(|word| product.contains(*word)) {
            let name = name.trim_start_matches('/');
            assert!(
                ALLOWED.iter().any(|(allowed, _)| *allowed == name),
                "{name} uses `{word}`: remember what must not be done twice by the run of the store \
                 or `Uptime`, or say in ALLOWED in {} why nothing is done again",
                file!()
            );
            using.insert(name.to_owned());
        }
    }
    for (name, _) in ALLOWED {
        assert!(using.contains(*name), "{name} needs no place in ALLOWED");
    }
}
