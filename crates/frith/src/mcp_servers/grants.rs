//! What a server is granted beside what every program has, and what it may not be granted at all.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use a2e_caps::mcp::client::{NotTried, Tried};
use serde_json::{Map, Value, json};

use super::resolve::{Place, Program, children, real};

/// A server with what it was granted.
#[derive(Debug, Default, Clone)]
pub(super) struct Grants {
    entry: Map<String, Value>,
    /// Files and folders that its command line and its variables name.
    named: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    network: bool,
    memory: Option<u64>,
    pub(super) in_words: Vec<String>,
    /// What it was not granted.
    missing: Vec<Need>,
}

/// Something that a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    /// What it is, and what of it.
    Read(Vec<PathBuf>),
    Write(PathBuf),
    Network(String),
    Memory(u64),
    /// It cannot be granted.
    Refused(String),
}

/// What nobody is granted.
#[derive(Debug)]
pub(super) struct Guard {
    file: PathBuf,
    data: PathBuf,
    /// Where packages of servers are, below the data directory.
    servers: PathBuf,
    home: Option<PathBuf>,
}

/// Folders of a user that have keys and settings of other programs.
const PRIVATE: [&str; 6] = [".ssh", ".aws", ".gnupg", ".config", ".kube", ".docker"];

/// So much of addresses is enough for what reserves more than it uses.
const MUCH_MEMORY: u64 = 8 << 30;

/// Entries of a folder that are granted one by one.
const MOST_ENTRIES: usize = 64;

/// What programs write that want a network, memory, or a file.
const NO_NETWORK: [&str; 8] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ENETUNREACH",
    "getaddrinfo",
    "name resolution",
    "Network is unreachable",
    "ConnectError",
    "fetch failed",
];
const NO_MEMORY: [&str; 6] = [
    "out of memory",
    "Out of memory",
    "Cannot allocate memory",
    "MemoryError",
    "ENOMEM",
    "signal 6",
];
const NO_FILE: [&str; 7] = [
    "ENOENT",
    "EACCES",
    "No such file",
    "Permission denied",
    "does not exist",
    "not accessible",
    "Cannot find module",
];

/// Words in the names of variables that are a key to a service.
const CREDENTIALS: [&str; 4] = ["TOKEN", "KEY", "SECRET", "PASSWORD"];

impl Guard {
    pub(super) fn new(file: &Path, data: &Path, servers: &Path) -> Self {
        let absolute =
            |path: &Path| real(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Self {
            // It need not be there yet.
            file: match (file.parent(), file.file_name()) {
                (Some(folder), Some(name)) => real(folder).join(name),
                _ => file,
            },
            servers: absolute(data).join(servers.file_name().unwrap_or_default()),
            data: absolute(data),
            home: std::env::var_os("HOME").map(|home| real(Path::new(&home))),
        }
    }

    /// Why something may not be granted, if it may not.
    fn refuses(&self, path: &Path) -> Option<&'static str> {
        let path = real(path);
        if path.parent().is_none() {
            return Some("it is everything");
        }
        if self
            .home
            .as_ref()
            .is_some_and(|home| home.starts_with(&path))
        {
            return Some("your home folder lies in it");
        }
        let private = |home: &PathBuf| {
            let folders = PRIVATE.map(|name| home.join(name));
            folders.iter().any(|it| path.starts_with(real(it)))
        };
        if self.home.as_ref().is_some_and(private) {
            return Some("keys and settings of other programs lie there");
        }
        let is_package = path != self.servers && path.starts_with(&self.servers);
        if self.data.starts_with(&path) || (path.starts_with(&self.data) && !is_package) {
            return Some("it has to do with the data directory");
        }
        self.file
            .starts_with(&path)
            .then_some("the configuration lies in it")
    }

    /// What of a path may be read: where the configuration lies in it, everything else that is there.
    fn readable(&self, path: &Path) -> Result<Vec<PathBuf>, String> {
        let refused = |why: &str| format!("it may not read {}: {why}", path.display());
        match self.refuses(path) {
            None => Ok(vec![path.to_owned()]),
            Some(_)
                if self.file.parent() == Some(real(path).as_path()) && !self.is_far_up(path) =>
            {
                let mut all = children(path);
                all.retain(|child| self.refuses(child).is_none());
                match all.len() <= MOST_ENTRIES {
                    true => Ok(all),
                    false => Err(refused(
                        "the configuration lies in it, beside too much else",
                    )),
                }
            }
            Some(why) => Err(refused(why)),
        }
    }

    /// Whether it is the user's, and neither of the project nor a program that the user has.
    fn is_of_user(&self, path: &Path, programs: &[PathBuf]) -> bool {
        let path = real(path);
        let Some(home) = self.home.as_ref().filter(|home| path.starts_with(home)) else {
            return false;
        };
        let below_home = |folder: &Path| folder != home && folder.starts_with(home);
        let is_in = |folder: &Path| below_home(folder) && path.starts_with(folder);
        let is_project = self.file.parent().is_some_and(is_in);
        let is_program = |bin: &PathBuf| real(bin).parent().is_some_and(is_in);
        !is_project && !path.starts_with(&self.servers) && !programs.iter().any(is_program)
    }

    /// Whether the user's folder lies there.
    fn is_far_up(&self, path: &Path) -> bool {
        self.home
            .as_ref()
            .is_some_and(|home| home.starts_with(real(path)))
    }
}

impl Need {
    /// Whether it leads to what is the user's.
    pub(super) fn is_of_user(&self, guard: &Guard, place: &Place, grants: &Grants) -> bool {
        // A program is read that `PATH` leads to, not whatever a command line names beside it.
        let is_of_user = |path: &PathBuf| match grants.names(path) {
            true => guard.is_of_user(path, &[]),
            false => guard.is_of_user(path, &place.path),
        };
        match self {
            Self::Read(paths) => paths.iter().any(is_of_user),
            Self::Write(path) => guard.is_of_user(path, &[]),
            Self::Network(_) | Self::Memory(_) | Self::Refused(_) => false,
        }
    }

    /// What it is let do.
    pub(super) fn in_words(&self, changes_owners: bool) -> String {
        let names = |paths: &[PathBuf]| {
            let names: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
            names.join(", ")
        };
        match self {
            Self::Read(paths) => format!("read {}", names(paths)),
            Self::Write(path) if changes_owners => format!(
                "change {} (all in it is given to the group of programs in the sandbox, since root \
                 runs this)",
                path.display()
            ),
            Self::Write(path) => format!("change {}", path.display()),
            Self::Network(why) => format!("reach the network ({why})"),
            Self::Memory(bytes) => format!("reserve {} GiB of memory", bytes >> 30),
            Self::Refused(why) => why.clone(),
        }
    }
}

impl Grants {
    pub(super) fn of(entry: Map<String, Value>) -> Self {
        Self {
            entry,
            ..Self::default()
        }
    }

    /// Whether the command line says that the program is a registry's, which wants a network and as much
    /// memory as its runtime reserves.
    pub(super) fn is_of_registry(&self) -> bool {
        let words = self.words().unwrap_or_default();
        let mut words = words.iter().map(String::as_str);
        let program = words.next().map(Path::new).and_then(Path::file_name);
        match program.and_then(OsStr::to_str) {
            Some("npx" | "uvx") => true,
            Some("uv") => (words.next(), words.next()) == (Some("tool"), Some("run")),
            _ => false,
        }
    }

    /// Whether its command line or its variables name this path.
    pub(super) fn names(&self, path: &Path) -> bool {
        self.named.iter().any(|named| named == path)
    }

    /// It is not granted.
    pub(super) fn lacks(&mut self, need: Need) {
        if !self.missing.contains(&need) {
            self.missing.push(need);
        }
    }

    /// What it was not granted, in words, and the lines of the configuration that would grant it.
    pub(super) fn missing(&self) -> (Vec<String>, Vec<String>) {
        let mut more = self.clone();
        let mut words = Vec::new();
        for need in self.missing.clone() {
            words.push(need.in_words(false));
            more.add(need, String::new());
        }
        let before = self.entry();
        let more = more.entry().into_iter();
        let new = more.filter(|(key, value)| before.get(key) != Some(value));
        (
            words,
            new.map(|(key, value)| format!("{key}: {value}")).collect(),
        )
    }

    /// Its command line, if it is a program.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        let words = self.entry.get("command")?.as_array()?;
        let words = words.iter().filter_map(Value::as_str);
        Some(words.map(str::to_owned).collect())
    }

    /// The server with what it was granted.
    pub(super) fn entry(&self) -> Map<String, Value> {
        let mut entry = self.entry.clone();
        let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        if !self.readable.is_empty() {
            put("readable", json!(self.readable));
        }
        if !self.writable.is_empty() {
            put("writable", json!(self.writable));
        }
        if self.network {
            put("network", json!("all"));
        }
        if let Some(memory) = self.memory {
            put("memory", json!(memory));
        }
        entry
    }

    /// It is this program; says what it needs for sure.
    pub(super) fn begin(&mut self, program: Program, place: &Place, guard: &Guard) -> Vec<Need> {
        let Program {
            mut words,
            readable,
        } = program;
        let mut needs = Vec::new();
        let mut own: Vec<PathBuf> = Vec::new();
        for path in readable {
            match guard.readable(&path) {
                Ok(paths) => own.extend(paths),
                Err(why) => needs.push(Need::Refused(why)),
            }
        }
        let is_own = |path: &Path| {
            let mut own = own.iter();
            own.any(|it| path.starts_with(it) && (path != it || path.is_file()))
        };
        let mut named = Vec::new();
        for word in words.iter_mut().skip(1) {
            let (before, value) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with('-') => (format!("{flag}="), value),
                _ => (String::new(), word.as_str()),
            };
            if let Some(path) = path_in(value, place).filter(|path| !is_own(path)) {
                *word = format!("{before}{}", path.display());
                named.push(path);
            }
        }
        self.entry.insert("command".to_owned(), json!(words));
        if let Some(Value::Object(env)) = self.entry.get_mut("env") {
            for value in env.values_mut() {
                let text = value.as_str().filter(|it| it.starts_with(['/', '~']));
                if let Some(path) = text.and_then(|it| path_in(it, place)) {
                    *value = json!(path);
                    named.push(path);
                }
            }
        }
        let cwd = self.entry.get("cwd").and_then(Value::as_str);
        named.extend(cwd.map(PathBuf::from));
        if !own.is_empty() {
            needs.push(Need::Read(own));
        }
        for path in &named {
            needs.extend(match path.exists() {
                true if is_seen(path) => None,
                true => Some(guard.readable(path).map_or_else(Need::Refused, Need::Read)),
                // It makes the file.
                false => path.parent().map(|folder| writable(folder, guard)),
            });
        }
        if named.iter().any(|path| path.join(".git").exists()) {
            self.trust_repositories();
        }
        self.named = named;
        needs
    }

    /// As root, programs run as users that no repository belongs to, and git asks whose it is.
    fn trust_repositories(&mut self) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let env = self.entry.entry("env").or_insert_with(|| json!({}));
        if let Some(env) = env.as_object_mut() {
            for (name, value) in [
                ("GIT_CONFIG_COUNT", "1"),
                ("GIT_CONFIG_KEY_0", "safe.directory"),
                ("GIT_CONFIG_VALUE_0", "*"),
            ] {
                env.entry(name).or_insert_with(|| json!(value));
            }
        }
    }

    /// What one that works needs for what its tools do.
    pub(super) fn wanted_by(&self, tried: &Tried, guard: &Guard) -> Vec<Need> {
        if self.words().is_none() {
            return Vec::new();
        }
        let mut needs = Vec::new();
        let named = self
            .named
            .iter()
            .filter(|path| tried.writes && path.exists() && !is_seen(path));
        for path in named.filter(|path| !self.may_write(path)) {
            let folder = match path.is_dir() {
                true => path.as_path(),
                // Beside a database there is its journal.
                false => path
                    .parent()
                    .filter(|it| guard.refuses(it).is_none())
                    .unwrap_or(path),
            };
            needs.push(writable(folder, guard));
        }
        let env = self.entry.get("env").and_then(Value::as_object);
        let is_key = |name: &&String| {
            let name = name.to_uppercase();
            !name.starts_with("GIT_CONFIG_") && CREDENTIALS.iter().any(|it| name.contains(it))
        };
        let key = env.and_then(|env| env.keys().find(is_key));
        let why = match (&tried.reaches, key) {
            _ if self.network => None,
            (Some(tool), _) => Some(format!("its tool `{tool}` does")),
            (None, Some(key)) => Some(format!("it is given `{key}`")),
            (None, None) => None,
        };
        needs.extend(why.map(Need::Network));
        needs
    }

    /// What one that does not work seems to need.
    pub(super) fn needed_after(&self, failed: &NotTried, guard: &Guard) -> Vec<Need> {
        if self.words().is_none() {
            return Vec::new();
        }
        let lines = || failed.stderr.iter().chain(std::iter::once(&failed.why));
        let says = |words: &[&str]| lines().any(|line| words.iter().any(|it| line.contains(it)));
        if !self.network && says(&NO_NETWORK) {
            return vec![Need::Network("it says that it must".to_owned())];
        }
        if self.memory.is_none() && says(&NO_MEMORY) {
            return vec![Need::Memory(MUCH_MEMORY)];
        }
        let missing = lines().filter(|line| NO_FILE.iter().any(|it| line.contains(it)));
        let apart = |letter: char| letter.is_whitespace() || "'\"`()[]{},;:".contains(letter);
        let words = missing.flat_map(|line| line.split(apart));
        let paths = words
            .filter(|it| it.len() > 1 && it.starts_with('/'))
            .map(Path::new);
        let mut paths = paths.filter(|it| it.exists() && !is_seen(it));
        let found = paths.find(|it| !self.readable.iter().any(|known| it.starts_with(known)));
        let need = |path: &Path| guard.readable(path).map_or_else(Need::Refused, Need::Read);
        found.map(need).into_iter().collect()
    }

    /// It is granted.
    pub(super) fn add(&mut self, need: Need, words: String) {
        let put = |all: &mut Vec<PathBuf>, path: PathBuf| {
            if !all.iter().any(|known| path.starts_with(known)) {
                all.retain(|known| !known.starts_with(&path));
                all.push(path);
            }
        };
        match need {
            Need::Read(mut paths) => {
                paths.retain(|path| !self.readable.contains(path));
                self.readable.extend(paths);
            }
            Need::Write(path) => put(&mut self.writable, path),
            Need::Network(_) => self.network = true,
            Need::Memory(bytes) => self.memory = Some(bytes),
            Need::Refused(_) => return,
        }
        self.in_words.push(words);
    }

    fn may_write(&self, path: &Path) -> bool {
        self.writable.iter().any(|it| path.starts_with(it))
    }
}

fn writable(path: &Path, guard: &Guard) -> Need {
    match guard.refuses(path) {
        None => Need::Write(path.to_owned()),
        Some(why) => Need::Refused(format!("it may not change {}: {why}", path.display())),
    }
}

/// Whether every program sees it.
fn is_seen(path: &Path) -> bool {
    let seen = sandbox::Profile::default().readable;
    seen.iter().any(|it| real(path).starts_with(it))
}

/// The file or folder that a word names: one that is there, or one to be made in a folder that is.
fn path_in(word: &str, place: &Place) -> Option<PathBuf> {
    let starts = ["/", "./", "../", "~/"]
        .iter()
        .any(|it| word.starts_with(it));
    let is_path = starts || [".", "..", "~"].contains(&word);
    let path = match word {
        "~" => place.home.clone()?,
        _ => place.folder.join(place.at_home(word)),
    };
    let path = normal(&path);
    let is_word = word.starts_with('-') || word.is_empty();
    let is_file = path.file_name() != Some(OsStr::new("")) && path.parent()?.is_dir();
    let is_named = !is_word && (path.exists() || (is_path && is_file));
    // A word that happens to be called as a file is one all the same only if it looks like it.
    let looks = is_path || word.contains('/') || word.contains('.');
    (is_named && looks).then_some(path)
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Scene {
        _root: tempfile::TempDir,
        root: PathBuf,
        place: Place,
        guard: Guard,
    }

    fn scene() -> Scene {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        for folder in [
            "home/project/src",
            "home/project/.git",
            "data/servers/x",
            "docs",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("home/project/main.db"), "").unwrap();
        Scene {
            place: Place {
                folder: root.join("home/project"),
                home: Some(root.join("home")),
                path: Vec::new(),
            },
            guard: Guard {
                file: root.join("home/project/frith.yaml"),
                data: root.join("data"),
                servers: root.join("data/servers"),
                home: Some(root.join("home")),
            },
            root,
            _root: temporary,
        }
    }

    fn begin(scene: &Scene, words: &[&str]) -> (Grants, Vec<Need>) {
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        let mut grants = Grants::default();
        let program = Program {
            words,
            readable: Vec::new(),
        };
        let needs = grants.begin(program, &scene.place, &scene.guard);
        (grants, needs)
    }

    /// `--yes` covers what is the project's and programs of the user, nothing else of the home folder.
    #[test]
    fn what_is_the_users_is_told_apart() {
        let mut scene = scene();
        let home = scene.root.join("home");
        let is_of_user = |scene: &Scene, path: &Path| {
            let needs = [
                Need::Read(vec![path.to_owned()]),
                Need::Write(path.to_owned()),
            ];
            let grants = Grants::default();
            let all = needs.map(|it| it.is_of_user(&scene.guard, &scene.place, &grants));
            assert!(all[1] || !all[0]);
            all[0]
        };
        assert!(is_of_user(&scene, &home.join("letters")));
        assert!(!is_of_user(&scene, &home.join("project/src")));
        assert!(!is_of_user(&scene, &scene.root.join("docs")));
        scene.place.path = vec![home.join(".nvm/bin"), home.join("bin")];
        let library = home.join(".nvm/lib");
        assert!(!is_of_user(&scene, &library));
        let write = Need::Write(library.clone());
        assert!(write.is_of_user(&scene.guard, &scene.place, &Grants::default()));
        let named = Grants {
            named: vec![library.clone()],
            ..Grants::default()
        };
        assert!(Need::Read(vec![library]).is_of_user(&scene.guard, &scene.place, &named));
        assert!(is_of_user(&scene, &home.join("letters")));
        // A project that is the home folder makes nothing of it somebody else's.
        scene.guard.file = home.join("frith.yaml");
        assert!(is_of_user(&scene, &home.join("letters")));
        for name in PRIVATE {
            let path = home.join(name).join("x");
            fs::create_dir_all(&path).unwrap();
            assert!(scene.guard.readable(&path).is_err(), "{name}");
            assert!(matches!(writable(&path, &scene.guard), Need::Refused(_)));
        }
    }

    #[test]
    fn what_is_missing_is_told_with_its_lines() {
        let mut grants = Grants::default();
        grants.add(Need::Read(vec![PathBuf::from("/a")]), String::new());
        grants.lacks(Need::Read(vec![PathBuf::from("/b")]));
        grants.lacks(Need::Network("it says so".to_owned()));
        let (words, lines) = grants.missing();
        assert_eq!(words, ["read /b", "reach the network (it says so)"]);
        assert_eq!(lines, [r#"network: "all""#, r#"readable: ["/a","/b"]"#]);
    }

    /// No grant covers the user's folder, the data directory or the configuration.
    #[test]
    fn some_folders_are_granted_to_nobody() {
        let scene = scene();
        for path in ["", "home", "data", "data/servers", "data/token"] {
            let path = scene.root.join(path);
            assert!(scene.guard.refuses(&path).is_some(), "{}", path.display());
            assert!(scene.guard.readable(&path).is_err(), "{}", path.display());
        }
        assert!(scene.guard.refuses(Path::new("/")).is_some());
        for path in ["docs", "home/project/src", "data/servers/x"] {
            let path = scene.root.join(path);
            assert_eq!(scene.guard.readable(&path), Ok(vec![path]));
        }
        fs::write(&scene.guard.file, "").unwrap();
        let project = scene.root.join("home/project");
        assert!(matches!(writable(&project, &scene.guard), Need::Refused(_)));
        let below = [".git", "main.db", "src"].map(|it| project.join(it));
        assert_eq!(scene.guard.readable(&project), Ok(below.to_vec()));
        // Not by a link either.
        let link = scene.root.join("docs/link");
        std::os::unix::fs::symlink(scene.root.join("home"), &link).unwrap();
        assert!(scene.guard.readable(&link).is_err());
        for number in 0..MOST_ENTRIES {
            fs::write(project.join(format!("{number}")), "").unwrap();
        }
        assert!(scene.guard.readable(&project).is_err());
    }

    #[test]
    fn what_a_command_line_names_is_needed() {
        let scene = scene();
        let docs = scene.root.join("docs");
        let words = [
            "x",
            "--root=../../docs",
            "main.db",
            "new.db",
            "./new.db",
            "src",
            "https://x/y",
            "-v",
        ];
        let (grants, needs) = begin(&scene, &words);
        let project = scene.root.join("home/project");
        let (database, new) = (project.join("main.db"), project.join("new.db"));
        let words = grants.words().unwrap();
        assert_eq!(words[1], format!("--root={}", docs.display()));
        assert_eq!(words[2], database.display().to_string());
        assert_eq!(
            words[3..5],
            ["new.db".to_owned(), new.display().to_string()]
        );
        assert_eq!(words[5..], ["src", "https://x/y", "-v"]);
        let expected = [
            Need::Read(vec![docs]),
            Need::Read(vec![database]),
            Need::Refused(format!(
                "it may not change {}: the configuration lies in it",
                project.display()
            )),
        ];
        assert_eq!(needs, expected);
    }

    #[test]
    fn what_tools_do_is_needed_too() {
        let scene = scene();
        let docs = scene.root.join("docs");
        let (mut grants, _) = begin(&scene, &["x", "/", docs.to_str().unwrap()]);
        let mut tried = Tried {
            name: String::new(),
            tools: Vec::new(),
            writes: false,
            reaches: None,
        };
        assert!(grants.wanted_by(&tried, &scene.guard).is_empty());
        tried.writes = true;
        tried.reaches = Some("fetch".to_owned());
        let needs = grants.wanted_by(&tried, &scene.guard);
        assert!(needs.contains(&Need::Write(docs.clone())), "{needs:?}");
        assert!(needs.contains(&Need::Network("its tool `fetch` does".to_owned())));
        for need in needs {
            grants.add(need, String::new());
        }
        assert_eq!(grants.entry()["writable"], json!([docs]));
        assert_eq!(grants.entry()["network"], "all");
    }

    #[test]
    fn what_a_program_complains_of_is_needed() {
        let scene = scene();
        let docs = scene.root.join("docs");
        let (mut grants, _) = begin(&scene, &["x"]);
        let failed = |line: &str| NotTried {
            why: "it exited with code 1".to_owned(),
            stderr: vec!["Traceback:".to_owned(), line.to_owned()],
        };
        let line = format!("Error: ENOENT: no such file, open '{}'", docs.display());
        let needs = grants.needed_after(&failed(&line), &scene.guard);
        assert_eq!(needs, [Need::Read(vec![docs])]);
        grants.add(needs[0].clone(), String::new());
        assert!(grants.needed_after(&failed(&line), &scene.guard).is_empty());
        let line = "getaddrinfo ENOTFOUND registry.example";
        let needs = grants.needed_after(&failed(line), &scene.guard);
        assert!(matches!(needs[..], [Need::Network(_)]));
        let needs = grants.needed_after(&failed("FATAL: out of memory"), &scene.guard);
        assert_eq!(needs, [Need::Memory(MUCH_MEMORY)]);
    }
}
