//! The folders that a server is told to work in.

use std::path::{Path, PathBuf};

use a2e_runtime::config::{McpCommand, McpPlace};

use super::server::Server;

/// A folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) uri: String,
    pub(super) name: String,
}

impl Root {
    pub(super) fn named(folder: &Path, name: &str) -> Self {
        let mut uri = "file://".to_owned();
        for byte in folder.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
                byte => uri.push_str(&format!("%{byte:02X}")),
            }
        }
        let name = name.to_owned();
        Self { uri, name }
    }

    fn of(folder: &Path) -> Self {
        let name = folder.file_name().unwrap_or(folder.as_os_str());
        Self::named(folder, &name.to_string_lossy())
    }
}

impl Server {
    /// The folders that it is told to work in. Many servers take no others, not even those of their
    /// command line.
    pub(super) fn roots(&self) -> Vec<Root> {
        if let Some(roots) = &self.settings.roots {
            return roots.iter().map(|path| Root::of(path)).collect();
        }
        let own = match &self.settings.place {
            McpPlace::Command(command) if self.owner.is_none() => folders(command),
            McpPlace::Command(_) | McpPlace::Http(_) | McpPlace::Sse(_) => Vec::new(),
        };
        let own = own.iter().map(|path| Root::of(path));
        std::iter::once(self.ground.workspace())
            .chain(own)
            .collect()
    }
}

/// The folders that a program of the operator's may reach beside the workspace, and those that its
/// command line names.
fn folders(command: &McpCommand) -> Vec<PathBuf> {
    let arguments = command.words.iter().skip(1).map(PathBuf::from);
    let arguments = arguments.filter(|path| path.is_absolute());
    let reached = command.writable.iter().chain(&command.readable).cloned();
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in reached.chain(arguments) {
        let is_known = folders.iter().any(|known| path.starts_with(known));
        if !is_known && path.is_dir() {
            folders.push(path);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_what_a_program_may_reach_or_is_started_with() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = temporary.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (read, written, named) = (folder("read"), folder("written"), folder("named"));
        let within = folder("read/within");
        let file = temporary.path().join("file");
        std::fs::write(&file, "").unwrap();
        let words = [Path::new("server"), &named, &within, &file, Path::new("x")];
        let words = words.map(|word| word.to_str().unwrap().to_owned());
        let mut command = McpCommand::new(words[..1].to_vec());
        assert!(folders(&command).is_empty());
        command.words = words.to_vec();
        command.readable = vec![read.clone(), file];
        command.writable = vec![written.clone()];
        assert_eq!(folders(&command), [written, read, named]);
    }

    #[test]
    fn paths_are_encoded() {
        let root = Root::of(Path::new("/srv/my docs/é#1"));
        assert_eq!(root.uri, "file:///srv/my%20docs/%C3%A9%231");
        assert_eq!(root.name, "é#1");
    }
}
