//! Which program a command line really starts, and what that has to see of this machine.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where a command line stands, and where programs are looked for.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The folder that relative paths begin in.
    pub(super) folder: PathBuf,
    pub(super) home: Option<PathBuf>,
    /// The folders of `PATH`.
    pub(super) path: Vec<PathBuf>,
}

/// A program that is on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) words: Vec<String>,
    /// What it has to see, beside what every program sees.
    pub(super) readable: Vec<PathBuf>,
}

/// What a command line starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resolved {
    Program(Program),
    /// It has to be downloaded first.
    Package(Package),
}

/// A package of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) registry: Registry,
    /// As the registry knows it, maybe with a version.
    pub(super) spec: String,
    /// Its program, if it is not called as the package.
    program: Option<String>,
    /// What else the runner was told about it.
    options: Vec<String>,
    args: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    Npm,
    PyPi,
}

/// Programs that run a file.
const INTERPRETERS: [&str; 9] = [
    "node", "bun", "deno", "python", "python3", "ruby", "perl", "sh", "bash",
];

/// Programs that have others run by a daemon.
const CONTAINERS: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Folders above a file in which its project may begin.
const DEEP: usize = 6;

/// Links one path may lead over, and interpreters one script may have.
const MOST_LINKS: usize = 10;

type Resolution<T> = Result<T, String>;

impl Place {
    /// A folder, with what this process knows of the machine.
    pub(super) fn new(folder: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            folder: folder.to_owned(),
            home: std::env::var_os("HOME").map(PathBuf::from),
            path: std::env::split_paths(&path).collect(),
        }
    }

    /// Finds out what a command line starts.
    ///
    /// # Errors
    /// In words, why it cannot be started.
    pub(super) fn resolve(&self, words: &[String]) -> Resolution<Resolved> {
        let (program, args) = words.split_first().ok_or("its command is empty")?;
        let name = Path::new(program).file_name().and_then(OsStr::to_str);
        let arg = |index: usize| args.get(index).map(String::as_str);
        match name.unwrap_or_default() {
            "npx" => self.npx(args),
            "uvx" => self.uvx(args),
            "uv" if (arg(0), arg(1)) == (Some("tool"), Some("run")) => {
                self.uvx(args.get(2..).unwrap_or_default())
            }
            "uv" => self.uv_run(args).map(Resolved::Program),
            name if CONTAINERS.contains(&name) => Err(format!(
                "`{name}` has a daemon run it, which the sandbox does not reach; name the program \
                 itself, or run it by yourself and name its `url`"
            )),
            _ => self.program(program, args).map(Resolved::Program),
        }
    }

    /// A program with its arguments, by its name or path.
    pub(super) fn program(&self, program: &str, args: &[String]) -> Resolution<Program> {
        let path = self.find(program)?;
        self.at(&path, args)
    }

    /// A program at a path. One that names its interpreter by name is started by that: the sandbox looks
    /// for names in the folders of the system alone.
    fn at(&self, path: &Path, args: &[String]) -> Resolution<Program> {
        let word = path.display().to_string();
        if let Some(interpreter) = interpreter(path).filter(|it| !it.contains('/')) {
            let words: Vec<String> = std::iter::once(word).chain(args.iter().cloned()).collect();
            return self.program(&interpreter, &words);
        }
        let mut readable = self.needs(path, 0);
        let mut words = vec![word];
        words.extend(args.iter().cloned());
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_one = |known: &&str| name == *known || is_version_of(name, known);
        if INTERPRETERS.iter().any(is_one) {
            readable.extend(self.source(&mut words));
        }
        Ok(Program {
            words,
            readable: beside_the_system(readable),
        })
    }

    /// What of the command line of an interpreter it is to run: that file's project.
    fn source(&self, words: &mut [String]) -> Vec<PathBuf> {
        let mut args = words.iter_mut().skip(1);
        while let Some(word) = args.next() {
            if word == "-m" {
                let module = args
                    .next()
                    .map(|it| it.split('.').next().unwrap_or_default());
                let module = module.map(|it| self.folder.join(it));
                let is_here = module.filter(|it| it.is_dir() || it.with_extension("py").is_file());
                return is_here.map(|_| self.folder.clone()).into_iter().collect();
            }
            if word.starts_with('-') || ["run", "x"].contains(&word.as_str()) {
                continue;
            }
            let file = self.folder.join(&*word);
            if !file.is_file() {
                return Vec::new();
            }
            *word = file.display().to_string();
            let real = file.canonicalize().unwrap_or_else(|_| file.clone());
            return vec![self.project(&file), self.project(&real)];
        }
        Vec::new()
    }

    /// The folder that a file's project begins in.
    fn project(&self, file: &Path) -> PathBuf {
        let beside = file.parent().unwrap_or(file);
        let above = beside.ancestors().take(DEEP);
        let mut above = above.take_while(|folder| !self.is_home_or_above(folder));
        let begins = |folder: &&Path| {
            let marks = ["package.json", "pyproject.toml", "node_modules"];
            marks.iter().any(|mark| folder.join(mark).exists())
        };
        above.find(begins).unwrap_or(beside).to_owned()
    }

    pub(super) fn is_home_or_above(&self, folder: &Path) -> bool {
        let home = self.home.as_ref();
        home.is_some_and(|home| home.starts_with(folder) || real(home).starts_with(folder))
    }

    /// Where a program is.
    fn find(&self, program: &str) -> Resolution<PathBuf> {
        if program.contains('/') {
            let path = self.folder.join(self.at_home(program));
            let path = std::path::absolute(&path).unwrap_or(path);
            return match path.is_file() {
                true => self.behind_shim(path),
                false => Err(format!("there is no program {}", path.display())),
            };
        }
        let of_node = self.home.as_ref().and_then(|home| newest_node(home));
        let of_user = self.home.as_ref().map(|home| home.join(".local/bin"));
        let places = self.path.iter().cloned().chain(of_node).chain(of_user);
        let mut candidates = places.map(|place| place.join(program));
        match candidates.find(|path| path.is_file()) {
            Some(path) => self.behind_shim(path),
            None => Err(format!(
                "`{program}` is not installed: it is in no folder of PATH"
            )),
        }
    }

    /// A path of which `~/` is the user's folder.
    pub(super) fn at_home(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        }
    }

    /// The program that pyenv would start, as it goes by the folder.
    fn behind_shim(&self, path: PathBuf) -> Resolution<PathBuf> {
        let shims = path.parent().filter(|it| it.ends_with("shims"));
        let Some(root) = shims.and_then(Path::parent) else {
            return Ok(path);
        };
        let (versions, name) = (root.join("versions"), path.file_name().unwrap_or_default());
        let told = std::env::var("PYENV_VERSION").ok();
        let mut files: Vec<PathBuf> = self.folder.ancestors().map(Path::to_owned).collect();
        files
            .iter_mut()
            .for_each(|folder| folder.push(".python-version"));
        files.push(root.join("version"));
        let written = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        let told = told.into_iter().chain(written);
        let words = told.flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        let mut candidates = words.map(|version| versions.join(version).join("bin").join(name));
        let elsewhere = || {
            let others = self.path.iter().filter(|it| !it.ends_with("shims"));
            others.map(|it| it.join(name)).find(|it| it.is_file())
        };
        let found = candidates.find(|it| it.is_file()).or_else(elsewhere);
        found.ok_or_else(|| format!("pyenv has no `{}` here", name.display()))
    }

    /// What a program has to see: where it is installed, and its interpreter.
    fn needs(&self, path: &Path, depth: usize) -> Vec<PathBuf> {
        if depth > MOST_LINKS {
            return Vec::new();
        }
        let mut needed = vec![path.to_owned()];
        // Each link on the way: the Python of an environment is one to that of another installation.
        let mut current = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(environment) = environment_of(&current) {
                needed.extend(self.needs_of_environment(&environment, depth));
            }
            let next = fs::read_link(&current).ok();
            let next = next.and_then(|to| Some(current.parent()?.join(to)));
            let Some(next) = next else {
                break;
            };
            current = next;
        }
        let real = real(path);
        needed.extend(self.installation(&real));
        if let Some(interpreter) = interpreter(&real) {
            let interpreter = match interpreter.contains('/') {
                true => Some(PathBuf::from(interpreter)),
                false => self.find(&interpreter).ok(),
            };
            let interpreter = interpreter.filter(|it| it.is_file());
            needed.extend(interpreter.iter().flat_map(|it| self.needs(it, depth + 1)));
        }
        needed
    }

    /// What a virtual environment has to see: itself, the Python that it was made with, and what it names
    /// in other folders.
    fn needs_of_environment(&self, environment: &Path, depth: usize) -> Vec<PathBuf> {
        let mut needed = vec![environment.to_owned()];
        let text = fs::read_to_string(environment.join("pyvenv.cfg")).unwrap_or_default();
        let members = text.lines().filter_map(|line| line.split_once('='));
        let mut members = members.map(|(name, value)| (name.trim(), value.trim()));
        if let Some((_, home)) = members.find(|(name, _)| *name == "home") {
            let python = Path::new(home).join("python3");
            if python.is_file() && environment_of(&python).as_deref() != Some(environment) {
                needed.extend(Path::new(home).parent().map(Path::to_owned));
                needed.extend(self.needs(&python, depth + 1));
            }
        }
        for libraries in children(&environment.join("lib")) {
            let packages = libraries.join("site-packages");
            let named = children(&packages).into_iter();
            let named = named.filter(|it| it.extension() == Some(OsStr::new("pth")));
            for text in named.filter_map(|file| fs::read_to_string(file).ok()) {
                let folders = text.lines().map(Path::new);
                let folders = folders.filter(|it| it.is_absolute() && it.is_dir());
                needed.extend(folders.map(Path::to_owned));
            }
        }
        needed
    }

    /// The folder that a program is installed in, if it is one of those that have nothing else.
    fn installation(&self, real: &Path) -> Vec<PathBuf> {
        let Some(root) = real
            .parent()
            .filter(|it| it.ends_with("bin"))
            .and_then(Path::parent)
        else {
            return vec![real.to_owned()];
        };
        let libraries = children(&root.join("lib"));
        let of_user = self
            .home
            .as_ref()
            .is_some_and(|home| root == home.join(".local"));
        if of_user || self.is_home_or_above(root) {
            let own = libraries.into_iter().filter(|it| is_python(it));
            return std::iter::once(real.to_owned()).chain(own).collect();
        }
        let marks = [
            "pyvenv.cfg",
            "lib/node_modules",
            "include/node",
            "conda-meta",
        ];
        let is_one = marks.iter().any(|mark| root.join(mark).exists())
            || libraries.iter().any(|it| is_python(it));
        vec![if is_one {
            root.to_owned()
        } else {
            real.to_owned()
        }]
    }
}

/// Programs of packages.
impl Place {
    fn npx(&self, args: &[String]) -> Resolution<Resolved> {
        let (mut spec, mut words) = (None, args.iter());
        let mut program = None;
        while let Some(word) = words.next() {
            match word.as_str() {
                "-y" | "--yes" | "-q" | "--quiet" | "--prefer-offline" | "--" => {}
                "-p" | "--package" => spec = words.next().cloned(),
                _ if word.starts_with("--package=") => {
                    spec = word.strip_prefix("--package=").map(str::to_owned);
                }
                _ if word.starts_with('-') => {
                    return Err(format!(
                        "`npx {word}` is not known here; name the program itself"
                    ));
                }
                _ if spec.is_none() => {
                    spec = Some(word.clone());
                    break;
                }
                _ => {
                    program = Some(word.clone());
                    break;
                }
            }
        }
        let package = Package {
            registry: Registry::Npm,
            spec: spec.ok_or("`npx` is told no package")?,
            program,
            options: Vec::new(),
            args: words.cloned().collect(),
        };
        let name = package.name();
        let is_here = |modules: &PathBuf| modules.join(&name).join("package.json").is_file();
        let above = self.folder.ancestors().map(|it| it.join("node_modules"));
        let cached = self
            .home
            .iter()
            .flat_map(|home| children(&home.join(".npm/_npx")));
        // One that was asked for by its version is that version.
        let cached =
            cached.filter(|it| package.is_any_version() || was_asked_for(it, &package.spec));
        let mut found = above.chain(cached.map(|it| it.join("node_modules")));
        match found.find(is_here) {
            Some(modules) => self.of_npm(&package, &modules).map(Resolved::Program),
            None => Ok(Resolved::Package(package)),
        }
    }

    /// The program of a package among others in a folder `node_modules`.
    fn of_npm(&self, package: &Package, modules: &Path) -> Resolution<Program> {
        let name = package.name();
        let folder = modules.join(&name);
        let text = fs::read_to_string(folder.join("package.json"));
        let text = text.map_err(|error| format!("`{name}` cannot be read: {error}"))?;
        let described: Value = serde_json::from_str(&text).unwrap_or_default();
        let programs = &described["bin"];
        let last = name.rsplit('/').next().unwrap_or_default();
        let wanted = package.program.as_deref().unwrap_or(last);
        let all = programs.as_object();
        let single = all.filter(|all| all.len() == 1 && package.program.is_none());
        let script = programs
            .as_str()
            .or_else(|| all?.get(wanted)?.as_str())
            .or_else(|| single?.values().next()?.as_str());
        let script = script.ok_or_else(|| format!("`{name}` has no program `{wanted}`"))?;
        let mut program = self.at(&folder.join(script), &package.args)?;
        let real = real(&folder);
        program.readable.push(modules.to_owned());
        if !real.starts_with(modules) {
            program
                .readable
                .push(self.project(&real.join("package.json")));
        }
        program.readable = beside_the_system(program.readable);
        Ok(program)
    }

    fn uvx(&self, args: &[String]) -> Resolution<Resolved> {
        let (mut from, mut options, mut words) = (None, Vec::new(), args.iter());
        let program = loop {
            let word = words.next().ok_or("`uvx` is told no program")?;
            match word.as_str() {
                "--from" => from = words.next().cloned(),
                "--with" | "--python" | "-p" => {
                    options.push(word.clone());
                    options.extend(words.next().cloned());
                }
                "-q" | "--quiet" | "--isolated" | "--refresh" | "--no-cache" | "--offline" => {}
                _ if word.starts_with("--from=") => {
                    from = word.strip_prefix("--from=").map(str::to_owned);
                }
                _ if word.starts_with('-') => {
                    return Err(format!(
                        "`uvx {word}` is not known here; name the program itself"
                    ));
                }
                _ => break word.clone(),
            }
        };
        let package = Package {
            registry: Registry::PyPi,
            spec: from.unwrap_or_else(|| program.clone()),
            program: Some(program),
            options,
            args: words.cloned().collect(),
        };
        let tools = self
            .home
            .as_ref()
            .map(|it| it.join(".local/share/uv/tools"));
        let installed = tools.map(|it| it.join(package.name()).join("bin").join(package.program()));
        match installed.filter(|it| it.is_file() && package.is_any_version()) {
            Some(path) => self.at(&path, &package.args).map(Resolved::Program),
            None => Ok(Resolved::Package(package)),
        }
    }

    /// `uv run` in a project that has its environment.
    fn uv_run(&self, args: &[String]) -> Resolution<Program> {
        let (mut folder, mut words) = (self.folder.clone(), args.iter().peekable());
        let mut is_run = false;
        while let Some(word) = words.next_if(|it| it.starts_with('-') || (!is_run && *it == "run"))
        {
            match word.as_str() {
                "run" => is_run = true,
                "--directory" | "--project" => {
                    let named = words.next().ok_or("`uv --directory` is told no folder")?;
                    folder = self.folder.join(self.at_home(named));
                }
                "-q" | "--quiet" | "--frozen" | "--no-sync" | "--locked" | "--" => {}
                _ => {
                    return Err(format!(
                        "`uv {word}` is not known here; name the program itself"
                    ));
                }
            }
        }
        let program = words.next().filter(|_| is_run);
        let program = program.ok_or("only `uv run`, `uv tool run` and `uvx` start a server")?;
        let programs = folder.join(".venv/bin");
        if !programs.is_dir() {
            let folder = folder.display();
            return Err(format!(
                "{folder} has no `.venv`; run `uv sync` there first"
            ));
        }
        let mut args: Vec<String> = words.cloned().collect();
        let path = match program.ends_with(".py") {
            true => {
                args.insert(0, folder.join(program).display().to_string());
                programs.join("python")
            }
            false => programs.join(program),
        };
        if !path.is_file() {
            return Err(format!("there is no program {}", path.display()));
        }
        let there = Self {
            folder,
            ..self.clone()
        };
        there.at(&path, &args)
    }

    /// What downloads a package into a folder.
    pub(super) fn download(&self, package: &Package, folder: &Path) -> Resolution<Program> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|it| (*it).to_owned()));
        match package.registry {
            Registry::Npm => {
                let shown = folder.display().to_string();
                add(&[
                    "install",
                    "--prefix",
                    &shown,
                    "--no-audit",
                    "--no-fund",
                    "--loglevel=error",
                ]);
                add(&[package.spec.as_str()]);
                self.program("npm", &words)
            }
            Registry::PyPi => {
                add(&["tool", "install", "--quiet"]);
                let mut needed = Vec::new();
                if let Ok(python) = self.program("python3", &[])
                    && !package
                        .options
                        .iter()
                        .any(|it| it == "--python" || it == "-p")
                {
                    add(&["--python"]);
                    words.extend(python.words);
                    needed = python.readable;
                }
                words.extend(package.options.iter().cloned());
                words.push(package.spec.clone());
                let mut program = self.program("uv", &words)?;
                program.readable.extend(needed);
                Ok(program)
            }
        }
    }

    /// The program of a package that was downloaded into a folder.
    pub(super) fn downloaded(&self, package: &Package, folder: &Path) -> Resolution<Program> {
        let mut program = match package.registry {
            Registry::Npm => self.of_npm(package, &folder.join("node_modules"))?,
            Registry::PyPi => {
                let path = folder.join("bin").join(package.program());
                if !path.is_file() {
                    let (spec, program) = (&package.spec, package.program());
                    return Err(format!("`{spec}` has no program `{program}`"));
                }
                self.at(&path, &package.args)?
            }
        };
        program.readable.insert(0, folder.to_owned());
        program.readable = beside_the_system(program.readable);
        Ok(program)
    }
}

impl Package {
    /// Its name, without a version and what else is asked of it.
    fn name(&self) -> String {
        let (scope, rest) = match self.spec.strip_prefix('@') {
            Some(rest) => ("@", rest),
            None => ("", self.spec.as_str()),
        };
        let end = rest.find(['@', '[', '=', '<', '>', '~', '!']);
        format!(
            "{scope}{}",
            rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest)
        )
    }

    fn program(&self) -> &str {
        let named = self.program.as_deref().unwrap_or(&self.spec);
        named.split('@').next().unwrap_or(named)
    }

    fn is_any_version(&self) -> bool {
        let rest = self.spec.get(self.name().len()..).unwrap_or_default();
        rest.is_empty() || rest == "@latest"
    }
}

/// Without what all programs see, and what is part of another.
fn beside_the_system(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let seen = sandbox::Profile::default().readable;
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().filter(|it| it.exists()) {
        let mut known = seen.iter().chain(&kept);
        if !known.any(|it| path.starts_with(it)) {
            kept.retain(|it| !it.starts_with(&path));
            kept.push(path);
        }
    }
    kept
}

/// Whether it is the folder of the libraries of a Python.
fn is_python(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with("python3"))
}

/// Whether what npx has kept in a folder was asked for in these words.
fn was_asked_for(folder: &Path, spec: &str) -> bool {
    let text = fs::read_to_string(folder.join("package.json")).unwrap_or_default();
    let kept: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut asked = kept["_npx"]["packages"].as_array().into_iter().flatten();
    asked.any(|it| it == spec)
}

/// What a script says that it is run by: a path, or a name if it is to be looked for.
fn interpreter(script: &Path) -> Option<String> {
    let mut start = [0; 256];
    let read = fs::File::open(script).ok()?.read(&mut start).ok()?;
    let text = String::from_utf8_lossy(start.get(..read)?).into_owned();
    let line = text.lines().next()?.strip_prefix("#!")?;
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if !program.ends_with("/env") {
        return Some(program.to_owned());
    }
    let mut names = words.filter(|it| !it.starts_with('-') && !it.contains('='));
    names.next().map(str::to_owned)
}

/// The virtual environment whose program this is.
fn environment_of(program: &Path) -> Option<PathBuf> {
    let root = program.parent()?.parent()?;
    root.join("pyvenv.cfg").is_file().then(|| root.to_owned())
}

/// Whether a name is that of a program with its version: `python3.11`.
fn is_version_of(name: &str, known: &str) -> bool {
    let rest = name.strip_prefix(known);
    rest.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Where the newest Node is that nvm has.
fn newest_node(home: &Path) -> Option<PathBuf> {
    let versions = children(&home.join(".nvm/versions/node"));
    let version = |path: &PathBuf| -> Vec<u32> {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let parts = name.trim_start_matches('v').split('.');
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    versions
        .into_iter()
        .max_by_key(version)
        .map(|it| it.join("bin"))
}

/// What is in a folder, in order.
pub(super) fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
