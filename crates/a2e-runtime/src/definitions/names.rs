//! Names that a foreign source chose, beside those that are known.
//!
//! An agent, and an operator, tell tools apart by their names. A source that adds a second
//! `read_file`, or a `Read-File`, or one with a letter of another script in it, is not believed that
//! this is chance.

use std::collections::HashMap;

/// Known names, by what is left of them when one does not look closely.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Vec<Known>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) source: String,
    pub(super) name: String,
}

impl Names {
    pub(super) fn add(&mut self, source: &str, name: &str) {
        let known = Known {
            source: source.to_owned(),
            name: name.to_owned(),
        };
        let alike = self.0.entry(skeleton(name)).or_default();
        if !alike.contains(&known) {
            alike.push(known);
        }
    }

    /// Another tool that one of this name could be taken for.
    pub(super) fn like(&self, source: &str, name: &str) -> Option<&Known> {
        let alike = self.0.get(&skeleton(name))?;
        let is_other = |known: &&Known| known.name != name || known.source != source;
        alike.iter().find(is_other)
    }
}

/// Whether a name has letters that may look like others: all but those of ASCII.
pub(super) const fn is_plain(name: &str) -> bool {
    name.is_ascii()
}

/// A name without what is overlooked: case, what stands between words, and letters that look alike.
fn skeleton(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    let lower = letters.flat_map(char::to_lowercase);
    let alike = lower.map(|letter| match letter {
        '0' => 'o',
        '1' | 'i' => 'l',
        '5' => 's',
        other => other,
    });
    let alike: String = alike.collect();
    alike.replace("rn", "m").replace("vv", "w")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike() {
        let mut names = Names::default();
        names.add("built-in", "read_file");
        names.add("remote_plugin:a", "list");
        let like = |source: &str, name: &str| names.like(source, name).map(|it| &*it.name);
        for alike in [
            "read_file",
            "Read_File",
            "readFile",
            "read-file",
            "read.file",
            "READFILE",
            "read_fi1e",
            "read_flle",
        ] {
            assert_eq!(like("remote_plugin:a", alike), Some("read_file"), "{alike}");
        }
        for other in ["read_files", "write_file", "file_read"] {
            assert_eq!(like("remote_plugin:a", other), None, "{other}");
        }
        // A tool is not taken for itself, but for the same name elsewhere.
        assert_eq!(like("remote_plugin:a", "list"), None);
        assert_eq!(like("remote_plugin:b", "list"), Some("list"));
        assert_eq!(like("remote_plugin:a", "1ist"), Some("list"));
        assert!(is_plain("read_file") && !is_plain("re\u{430}d_file"));
    }
}
