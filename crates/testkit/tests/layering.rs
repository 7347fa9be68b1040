//! Who may use whom. The table is the architecture; anything not in it is an error.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// What a crate may use and must not reach.
struct Rule {
    name: &'static str,
    /// Crates of this workspace it may use.
    uses: &'static [&'static str],
    /// Kinds of foreign crates that must not be in its dependencies, however deep.
    never: &'static [&'static [&'static str]],
}

#[rustfmt::skip]
const ASYNC: &[&str] = &[
    "tokio", "tokio-util", "mio", "hyper", "axum", "tonic", "reqwest", "smol", "async-std",
    "futures-executor",
];
const CLOCK: &[&str] = &["jiff", "chrono", "time", "quanta"];
const RANDOM: &[&str] = &["rand", "rand_core", "getrandom", "fastrand", "uuid"];
const HASH: &[&str] = &["sha2"];
#[rustfmt::skip]
const CRYPTO: &[&str] = &[
    "ed25519-dalek", "x25519-dalek", "aws-lc-rs", "ring", "rustls",
    "chacha20poly1305", "hkdf", "hmac", "openssl",
];
const SOCKETS: &[&str] = &["socket2", "mio", "hyper", "rustls", "reqwest"];

/// The whole plan of ARCHITECTURE.md, the crates that are still to come included.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule("base", &[], &[ASYNC, CLOCK, RANDOM, HASH, CRYPTO]),
    rule("net", &[], &[]),
    rule("strict-json", &[], &[ASYNC, CLOCK, RANDOM, HASH, CRYPTO]),
    rule("canonical", &["strict-json"], &[ASYNC, CLOCK, RANDOM, CRYPTO]),
    rule("a2e-wire", &["strict-json"], &[ASYNC, CLOCK, RANDOM, HASH, CRYPTO]),
    rule("a2a-wire", &["canonical"], &[ASYNC, CLOCK, RANDOM, CRYPTO]),
    rule("policy", &["canonical"], &[ASYNC, CLOCK, RANDOM, CRYPTO]),
    rule("audit", &["base", "canonical"], &[ASYNC, CLOCK, RANDOM, CRYPTO, SOCKETS]),
    rule("store", &[], &[ASYNC, CLOCK, CRYPTO, SOCKETS]),
    rule("sandbox", &[], &[]),
    rule("a2e-session", &["a2e-wire"], &[ASYNC, CLOCK, RANDOM, CRYPTO]),
    rule("a2e-runtime", &["base", "net", "a2e-wire", "a2e-session", "policy", "audit", "store", "canonical"], &[]),
    rule("a2e-caps", &["base", "a2e-wire", "a2e-runtime", "policy", "store", "sandbox", "canonical", "strict-json"], &[]),
    rule("a2a-identity", &["base", "canonical", "a2a-wire"], &[ASYNC, CLOCK, SOCKETS]),
    rule("a2a-session", &["base", "a2a-wire", "a2a-identity", "policy", "canonical"], &[ASYNC, CLOCK, SOCKETS]),
    rule("a2a-net", &["base", "net", "a2a-wire", "a2a-identity", "a2a-session", "policy", "audit", "store", "canonical", "strict-json"], &[]),
    rule("bridge", &[
        "base", "a2e-wire", "a2e-runtime", "a2a-wire", "a2a-identity", "a2a-net", "policy", "canonical", "store",
    ], &[]),
    rule("frith", &[
        "base", "strict-json", "canonical", "a2e-wire", "a2a-wire", "policy", "audit", "store", "sandbox",
        "a2e-session", "a2e-runtime", "a2e-caps", "a2a-identity", "a2a-session", "a2a-net", "bridge",
    ], &[]),
    rule("testkit", &[
        "strict-json", "canonical", "a2e-wire", "a2a-wire", "policy", "a2e-session", "a2a-identity",
        "a2a-session",
    ], &[]),
    // Not part of the product: it may use what it measures.
    rule("benches", &[
        "strict-json", "canonical", "a2e-wire", "a2a-wire", "a2a-identity", "a2a-session", "a2a-net", "a2e-runtime",
        "a2e-caps", "policy", "audit", "sandbox", "store",
    ], &[]),
    rule("xtask", &[], &[]),
];

/// Foreign crates that a pure crate may name; docs/decisions.md says what each is for.
#[rustfmt::skip]
const PURE: &[(&str, &[&str])] = &[
    ("base", &["parking_lot", "thiserror"]),
    ("strict-json", &["serde", "serde_json", "thiserror"]),
    ("canonical", &["base64", "serde", "serde_json", "sha2", "thiserror"]),
    ("a2a-wire", &["thiserror"]),
    ("policy", &["jpx-core", "serde", "serde_json", "thiserror"]),
    ("a2a-identity", &[
        "bs58", "chacha20poly1305", "ed25519-dalek", "hkdf", "pkcs8", "sha2", "thiserror",
        "x25519-dalek", "zeroize",
    ]),
    ("a2a-session", &["thiserror"]),
    ("a2e-wire", &["memchr", "serde", "serde_json", "thiserror"]),
    ("a2e-session", &["thiserror"]),
    // Not pure as a whole: it writes files, which is what `rustix` is for.
    ("audit", &["rustix", "thiserror"]),
];

const fn rule(
    name: &'static str,
    uses: &'static [&'static str],
    never: &'static [&'static [&'static str]],
) -> Rule {
    Rule { name, uses, never }
}

/// The resolved dependencies of the workspace.
struct Graph {
    /// Package id to name.
    names: BTreeMap<String, String>,
    /// Package id to the ids it needs to run or build; what only its tests need is left out.
    edges: BTreeMap<String, Vec<String>>,
    members: Vec<String>,
    /// Package id to the names of what it may do without.
    optional: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn load() -> Self {
        let output = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--format-version=1",
                "--all-features",
                "--locked",
            ])
            .current_dir(testkit::workspace())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let needed = |node: &Value| {
            let deps = list(&node["deps"]).into_iter();
            deps.filter(|dep| {
                list(&dep["dep_kinds"])
                    .iter()
                    .any(|kind| kind["kind"] != "dev")
            })
            .map(|dep| text(&dep["pkg"]))
            .collect()
        };
        Self {
            names: list(&metadata["packages"])
                .iter()
                .map(|package| (text(&package["id"]), text(&package["name"])))
                .collect(),
            edges: list(&metadata["resolve"]["nodes"])
                .iter()
                .map(|node| (text(&node["id"]), needed(node)))
                .collect(),
            members: list(&metadata["workspace_members"])
                .iter()
                .map(text)
                .collect(),
            optional: list(&metadata["packages"])
                .iter()
                .map(|package| {
                    let needed = list(&package["dependencies"]).into_iter();
                    let optional = needed.filter(|it| it["optional"] == true);
                    let names = optional.map(|it| text(&it["name"]));
                    (text(&package["id"]), names.collect())
                })
                .collect(),
        }
    }

    fn name(&self, id: &str) -> &str {
        &self.names[id]
    }

    /// All that a package needs, however deep, with the way to it.
    fn reach(&self, id: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![(id.to_owned(), self.name(id).to_owned())];
        while let Some((id, way)) = open.pop() {
            for next in &self.edges[&id] {
                if !found.contains_key(self.name(next)) {
                    let way = format!("{way} -> {}", self.name(next));
                    found.insert(self.name(next).to_owned(), way.clone());
                    open.push((next.clone(), way));
                }
            }
        }
        found
    }
}

#[test]
fn every_edge_is_in_the_table() {
    let graph = Graph::load();
    let members: BTreeSet<&str> = graph.members.iter().map(|id| graph.name(id)).collect();
    for id in &graph.members {
        let name = graph.name(id);
        let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
            panic!("{name} is not in the table: say in RULES what it may use");
        };
        for dependency in &graph.edges[id] {
            let dependency = graph.name(dependency);
            assert!(
                !members.contains(dependency) || rule.uses.contains(&dependency),
                "{name} uses {dependency}, which RULES in {} does not allow",
                file!()
            );
        }
    }
}

#[test]
fn nothing_pulls_in_what_its_layer_must_not_have() {
    let graph = Graph::load();
    for id in &graph.members {
        let reach = graph.reach(id);
        let rule = RULES.iter().find(|rule| rule.name == graph.name(id));
        for banned in rule
            .into_iter()
            .flat_map(|rule| rule.never)
            .copied()
            .flatten()
        {
            if let Some(way) = reach.get(*banned) {
                panic!("{way}");
            }
        }
    }
}

#[test]
fn pure_crates_name_only_what_they_may() {
    let graph = Graph::load();
    let members: BTreeSet<&str> = graph.members.iter().map(|id| graph.name(id)).collect();
    for (name, allowed) in PURE {
        let id = graph
            .members
            .iter()
            .find(|id| graph.name(id) == *name)
            .unwrap();
        for dependency in &graph.edges[id] {
            let dependency = graph.name(dependency);
            assert!(
                members.contains(dependency) || allowed.contains(&dependency),
                "{name} uses {dependency}, which a pure crate may not"
            );
        }
    }
}

#[test]
fn the_product_does_not_need_the_testkit() {
    let graph = Graph::load();
    for id in &graph.members {
        assert_eq!(graph.reach(id).get("testkit"), None);
    }
}

/// A crate without this section would be free of every lint.
#[test]
fn every_crate_takes_the_shared_lints() {
    let folders = ["crates", "."].map(|folder| testkit::workspace().join(folder));
    let manifests = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten())
        .filter(|entry| entry.file_name() != "fuzz")
        .map(|entry| entry.path().join("Cargo.toml"))
        .filter(|manifest| manifest.exists());
    let mut count = 0;
    for manifest in manifests {
        let text = std::fs::read_to_string(&manifest).unwrap();
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{}",
            manifest.display()
        );
        count += 1;
    }
    assert_eq!(count, Graph::load().members.len());
}

/// Every fuzz target has a corpus, and a test that replays it.
#[test]
fn every_fuzz_target_is_replayed() {
    let names = |folder: &str| -> BTreeSet<String> {
        std::fs::read_dir(testkit::workspace().join(folder))
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    };
    let targets = names("fuzz/fuzz_targets");
    assert_eq!(targets, names("fuzz/corpus"));
    let mut tests = String::new();
    for crate_name in names("crates") {
        let folder = testkit::workspace().join(format!("crates/{crate_name}/tests/it"));
        for file in std::fs::read_dir(folder).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.is_file() {
                tests += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    for target in targets {
        let call = format!("testkit::replay(\"{target}\"");
        assert!(tests.contains(&call), "no test has {call}, ...)");
    }
}

/// The workspaces beside this one (fuzz targets, benchmark peers) are built locked, and seldom: what a
/// crate of ours needs by now must stand in their locks.
#[test]
fn the_other_locks_know_what_our_crates_need() {
    let graph = Graph::load();
    for lock in ["fuzz/Cargo.lock", "benches/peers/Cargo.lock"] {
        let text = std::fs::read_to_string(testkit::workspace().join(lock)).unwrap();
        let packages = text.split("[[package]]").skip(1);
        let ours = packages.filter(|package| !package.contains("\nsource = "));
        for package in ours {
            let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
            let lines = package.lines();
            let name = lines.clone().find(|line| line.starts_with("name = "));
            let name = quoted(name.unwrap());
            let locked: BTreeSet<String> = lines
                .filter(|line| line.starts_with(" \""))
                .map(|line| {
                    quoted(line)
                        .split(' ')
                        .next()
                        .unwrap_or_default()
                        .to_owned()
                })
                .collect();
            let Some(id) = graph.members.iter().find(|id| graph.names[*id] == name) else {
                continue;
            };
            let needed = graph.edges[id].iter().map(|id| &graph.names[id]);
            // What a feature brings is in a lock only if somebody there wants the feature.
            let needed = needed.filter(|needed| !graph.optional[id].contains(*needed));
            let missing: Vec<_> = needed.filter(|needed| !locked.contains(*needed)).collect();
            assert!(
                missing.is_empty(),
                "{lock}: `{name}` lacks {missing:?}; run `cargo metadata` in its folder"
            );
        }
    }
}

/// Files that are renamed otherwise than by `base::replace_file`, and why.
#[rustfmt::skip]
const RENAMES: &[(&str, &str)] = &[
    ("a2a-net/src/tls/development.rs", "a folder, which it syncs"),
    ("a2e-caps/src/files/replace.rs", "files of agents, by descriptors below a root"),
    ("a2e-caps/src/scripts.rs", "copies of scripts, made anew at every start"),
    ("a2e-caps/src/skills/program.rs", "a folder of copies"),
    ("a2e-runtime/src/snapshot/files.rs", "two files change places"),
    ("base/src/atomic_file.rs", "it is the one"),
    ("frith/src/log_file.rs", "full logs are set aside"),
    ("frith/src/watch.rs", "a test"),
    ("sandbox/src/attempt/files.rs", "tries to get around the guard"),
    ("store/src/sqlite/backup.rs", "SQLite writes the file"),
    ("testkit/src/faults.rs", "a process reads a rule as a whole"),
];

/// A private file is replaced by one function, which syncs what must be on the disk.
#[test]
fn files_are_replaced_by_one_function() {
    let crates = testkit::workspace().join("crates");
    let mut folders: Vec<_> = std::fs::read_dir(&crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("fs::rename(") || text.contains("renameat(") {
                let name = path.strip_prefix(&crates).unwrap();
                found.insert(name.to_str().unwrap().to_owned());
            }
        }
    }
    let known = RENAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, known);
}
