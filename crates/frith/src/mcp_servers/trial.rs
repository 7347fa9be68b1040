//! A server is started in the sandbox before it is written down, and is given what it needs as far as
//! somebody says so. `frith init` and `frith mcp add` both do it here.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2e_caps::http::Web;
use a2e_caps::mcp::client::{NotTried, Tried, try_server};
use a2e_caps::workplace::Workplace;
use a2e_runtime::DataDir;
use a2e_runtime::config::Config;
use anyhow::Result;
use sandbox::{Command, Input, Network, Output, Profile};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;

use super::consent::Consent;
use super::found::Candidate;
use super::grants::{Grants, Guard, Need};
use super::resolve::{Package, Place, Program, Registry, Resolved};
use crate::capabilities::{self, Capabilities};
use crate::screen::{plain, quoted};

/// What trials are made with.
pub(crate) struct Trials {
    workplace: Arc<Workplace>,
    web: Web,
    data: DataDir,
    guard: Guard,
    consent: Consent,
}

/// What came of a server.
#[derive(Debug, Serialize)]
pub(crate) struct Adopted {
    pub(crate) name: String,
    /// The file that it was found in.
    pub(crate) from: String,
    /// As the configuration has it.
    pub(crate) entry: Map<String, Value>,
    /// What it was granted, in words.
    pub(crate) granted: Vec<String>,
    /// What nobody granted, in words, and the lines that would grant it.
    pub(crate) missing: Vec<String>,
    pub(crate) lines: Vec<String>,
    #[serde(skip)]
    pub(crate) is_of_project: bool,
    #[serde(flatten)]
    pub(crate) state: State,
}

#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum State {
    /// It has listed its tools.
    Works {
        name: String,
        tools: Vec<String>,
    },
    Fails {
        why: String,
        stderr: Vec<String>,
    },
    /// Nobody said that it may be started.
    NotStarted,
}

/// How often a server is started, each time with more.
const ROUNDS: usize = 6;

/// How long a download may take.
const DOWNLOAD: Duration = Duration::from_secs(600);

/// Bytes of what a download writes that are kept.
const MAX_OUTPUT: u64 = 64 * 1024;

/// Lines of that which say why it has failed.
const LAST_LINES: usize = 12;

/// What a download may take up: bytes of addresses, and of its largest file.
const DOWNLOAD_MEMORY: u64 = 8 << 30;
const DOWNLOAD_FILE: u64 = 2 << 30;

/// Threads count as processes, and runners have many.
const DOWNLOAD_PROCESSES: u64 = 512;

/// Variables that say where registries are and how they are reached.
const OF_REGISTRIES: [&str; 15] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_PYTHON_INSTALL_MIRROR",
];

impl Trials {
    /// Trials for a configuration that stands in this file, or will.
    ///
    /// # Errors
    /// If nothing can be run in its sandbox.
    pub(crate) fn new(
        config: &Config,
        file: &Path,
        data: &DataDir,
        consent: Consent,
    ) -> Result<Self> {
        let capabilities = Capabilities::new(config, Some(file), data)?;
        let hosts = config.mcp.as_ref().map(|mcp| mcp.private_hosts.as_slice());
        Ok(Self {
            workplace: Arc::clone(capabilities.workplace()),
            web: capabilities.web(hosts.unwrap_or_default())?,
            guard: Guard::new(file, data.path(), &capabilities::servers(data)),
            data: data.clone(),
            consent,
        })
    }

    /// Tries a server, if somebody says so.
    pub(crate) async fn adopt(&self, candidate: Candidate) -> Adopted {
        let shown = match candidate.entry.get("command").and_then(Value::as_array) {
            Some(words) => {
                let words = words.iter().filter_map(Value::as_str);
                let words: Vec<String> = words.map(quoted).collect();
                words.join(" ")
            }
            None => candidate
                .entry
                .get("url")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        };
        tell!(
            "{} ({}): {}",
            plain(&candidate.name),
            plain(&candidate.from),
            plain(shown)
        );
        let mut grants = Grants::of(candidate.entry.clone());
        let question = start(&grants, &candidate.entry);
        let has_secrets = !variables(&candidate.entry, "headers").is_empty();
        let may = match candidate.is_of_project && has_secrets {
            true => self.consent.ask_beyond(&question).await,
            false => self.consent.ask(&question).await,
        };
        let state = match may {
            false => State::NotStarted,
            true => match self.with_grants(&candidate, &mut grants).await {
                Ok(tried) => State::Works {
                    name: tried.name,
                    tools: tried.tools,
                },
                Err(NotTried { why, stderr }) => State::Fails { why, stderr },
            },
        };
        let (missing, lines) = grants.missing();
        Adopted {
            missing,
            lines,
            is_of_project: candidate.is_of_project,
            entry: grants.entry(),
            granted: grants.in_words,
            name: candidate.name,
            from: candidate.from,
            state,
        }
    }

    async fn with_grants(
        &self,
        candidate: &Candidate,
        grants: &mut Grants,
    ) -> Result<Tried, NotTried> {
        let place = Place::new(&candidate.folder);
        let is_of_registry = grants.is_of_registry();
        let known = |grants: &Grants, need: &Need| !need.is_of_user(&self.guard, &place, grants);
        // What was shown before the start: what a program says afterwards adds nothing to that.
        let said = |grants: &Grants, need: &Need| match need {
            Need::Write(path) => grants.names(path) && known(grants, need),
            Need::Network(_) | Need::Memory(_) => is_of_registry,
            Need::Read(_) | Need::Refused(_) => false,
        };
        if let Some(words) = grants.words() {
            let program = match place.resolve(&words).map_err(failed)? {
                Resolved::Program(program) => program,
                Resolved::Package(package) => self.fetch(&candidate.name, &place, &package).await?,
            };
            let needs = grants.begin(program, &place, &self.guard);
            self.ask_for(grants, needs, &known).await;
        }
        let tried = self.rounds(candidate, grants, &said).await?;
        let more = grants.wanted_by(&tried, &self.guard);
        match self.ask_for(grants, more, &said).await {
            // With all that it has been given.
            true => self.rounds(candidate, grants, &said).await,
            false => Ok(tried),
        }
    }

    /// Starts it until it works, or needs nothing more that it is given.
    async fn rounds(
        &self,
        candidate: &Candidate,
        grants: &mut Grants,
        is_covered: &dyn Fn(&Grants, &Need) -> bool,
    ) -> Result<Tried, NotTried> {
        let mut rounds = 0;
        loop {
            let failed = match self.start(candidate, grants).await {
                Ok(tried) => return Ok(tried),
                Err(failed) => failed,
            };
            rounds += 1;
            let need = grants.needed_after(&failed, &self.guard);
            if rounds == ROUNDS || need.is_empty() || !self.ask_for(grants, need, is_covered).await
            {
                return Err(failed);
            }
        }
    }

    async fn start(&self, candidate: &Candidate, grants: &Grants) -> Result<Tried, NotTried> {
        let name = candidate.name.as_str();
        let text = json!({"mcp": {"servers": {name: grants.entry()}}}).to_string();
        let config = Config::of_text(&text, &candidate.folder);
        let config = config.map_err(|error| failed(error.to_string()))?;
        let servers = config.mcp.map(|mcp| mcp.servers).unwrap_or_default();
        let server = servers.into_iter().next();
        let server = server.ok_or_else(|| failed("it is no server".to_owned()))?;
        try_server(&self.workplace, self.web.clone(), server).await
    }

    /// Asks for each, and `--yes` agrees to what is covered; says whether something was granted.
    async fn ask_for(
        &self,
        grants: &mut Grants,
        needs: Vec<Need>,
        is_covered: &dyn Fn(&Grants, &Need) -> bool,
    ) -> bool {
        let mut is_more = false;
        for need in needs {
            if let Need::Refused(why) = &need {
                tell!("  {}", plain(why));
                continue;
            }
            let words = need.in_words(self.changes_owners());
            let question = format!("let it {words}");
            let may = match is_covered(grants, &need) {
                true => self.consent.ask(&question).await,
                false => self.consent.ask_beyond(&question).await,
            };
            if !may {
                grants.lacks(need);
                continue;
            }
            if let Need::Write(folder) = &need
                && let Err(error) = self.workplace.launcher.share_all(folder)
            {
                tell!("  cannot give {} to it: {error}", plain(folder.display()));
                continue;
            }
            is_more = true;
            grants.add(need, words);
        }
        is_more
    }

    /// Whether what programs write to has to be given to their group.
    fn changes_owners(&self) -> bool {
        self.workplace.launcher.settings().is_some() && rustix::process::geteuid().is_root()
    }

    /// Downloads a package into a folder of its own, in the sandbox.
    async fn fetch(
        &self,
        name: &str,
        place: &Place,
        package: &Package,
    ) -> Result<Program, NotTried> {
        let folder = capabilities::servers(&self.data).join(name);
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let registry = match package.registry {
            Registry::Npm => "the npm registry",
            Registry::PyPi => "PyPI",
        };
        let program = place.download(package, &folder).map_err(failed)?;
        let question = format!(
            "download `{}` from {registry} into {}",
            package.spec,
            folder.display()
        );
        if !self.consent.ask(&question).await {
            return Err(failed(format!("`{}` was not downloaded", package.spec)));
        }
        let made = self.make(&folder);
        made.map_err(|error| failed(format!("cannot make {}: {error}", folder.display())))?;
        self.run(program, &folder).await?;
        // It is not needed any more, and nobody else is to have it.
        let _ = fs::remove_dir_all(folder.join(CACHE));
        place.downloaded(package, &folder).map_err(failed)
    }

    /// An empty folder that programs in the sandbox can write to.
    fn make(&self, folder: &Path) -> std::io::Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        self.workplace.launcher.share(folder)
    }

    async fn run(&self, program: Program, folder: &Path) -> Result<(), NotTried> {
        let env = environment(&program, folder);
        let mut profile = Profile {
            readable: [Profile::default().readable, program.readable].concat(),
            writable: vec![folder.to_owned()],
            network: Network::All,
            limits: self.workplace.profile.limits.clone(),
            uid: None,
        };
        profile.limits.wall_time = DOWNLOAD;
        profile.limits.cpu_seconds = DOWNLOAD.as_secs();
        profile.limits.memory = DOWNLOAD_MEMORY;
        profile.limits.processes = profile.limits.processes.max(DOWNLOAD_PROCESSES);
        profile.limits.file_bytes = DOWNLOAD_FILE;
        let told = OF_REGISTRIES.into_iter().filter_map(std::env::var_os);
        let certificates = told.map(PathBuf::from);
        let certificates = certificates.filter(|path| path.is_absolute() && path.exists());
        profile.readable.extend(certificates);
        let mut words = program.words.into_iter();
        let command = Command {
            program: words.next().unwrap_or_default().into(),
            args: words.map(Into::into).collect(),
            cwd: folder.to_owned(),
            env: env
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            stdin: Input::Null,
        };
        let spawned = self.workplace.launcher.spawn(&command, &profile).await;
        let mut child = spawned.map_err(|error| failed(format!("cannot download: {error}")))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (_, said) = tokio::join!(heard(stdout), heard(stderr));
        let exit = child.wait().await;
        if exit.is_success() {
            return Ok(());
        }
        let lines: Vec<&str> = said.lines().filter(|it| !it.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(LAST_LINES);
        Err(NotTried {
            why: format!("what downloads it {exit}"),
            stderr: lines.into_iter().skip(skipped).map(str::to_owned).collect(),
        })
    }
}

/// What is asked before a server is started or connected to: all that `--yes` agrees to beside the paths
/// that are shown one by one.
fn start(grants: &Grants, entry: &Map<String, Value>) -> String {
    let Some(url) = entry.get("url").and_then(Value::as_str) else {
        let given = match variables(entry, "env").join(", ") {
            none if none.is_empty() => none,
            some => format!(", and give it {some}"),
        };
        let more = match grants.is_of_registry() {
            true => ", with the network and the memory that packages want, if it needs them",
            false => "",
        };
        return format!(
            "start it in the sandbox, to try it{given}{more}; what it names it may change if its tools do"
        );
    };
    let parsed = url.parse::<hyper::Uri>().ok();
    let host = parsed.as_ref().and_then(hyper::Uri::host).unwrap_or(url);
    let headers = entry.get("headers").and_then(Value::as_object);
    let name = |(name, value): (&String, &Value)| match value.as_str() {
        Some(value) if value.starts_with("${") => format!("{name} ({value})"),
        _ => name.clone(),
    };
    let sent: Vec<String> = headers.into_iter().flatten().map(name).collect();
    match sent.is_empty() {
        true => format!("connect to {host}"),
        false => format!("connect to {host} and send {}", sent.join(", ")),
    }
}

/// The variables of the environment that it is given.
fn variables(entry: &Map<String, Value>, key: &str) -> Vec<String> {
    let values = entry.get(key).and_then(Value::as_object).into_iter();
    let values = values.flat_map(Map::values).filter_map(Value::as_str);
    let values = values.filter(|value| value.starts_with("${"));
    values.map(str::to_owned).collect()
}

/// Where downloads keep what they need for the moment, below their folder.
const CACHE: &str = ".cache";

/// The variables of a download.
fn environment(program: &Program, folder: &Path) -> Vec<(String, String)> {
    let below = |name: &str| folder.join(name).display().to_string();
    let first = program.words.first().map(Path::new).and_then(Path::parent);
    let first = first
        .map(|it| format!("{}:", it.display()))
        .unwrap_or_default();
    let mut env: Vec<(String, String)> = [
        ("PATH", format!("{first}{}", sandbox::PATH)),
        ("HOME", below(CACHE)),
        ("TMPDIR", "/tmp".to_owned()),
        ("npm_config_cache", below(".cache/npm")),
        ("UV_CACHE_DIR", below(".cache/uv")),
        ("UV_TOOL_DIR", below("tools")),
        ("UV_TOOL_BIN_DIR", below("bin")),
        ("UV_PYTHON_INSTALL_DIR", below("python")),
        ("UV_LINK_MODE", "copy".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    let told = OF_REGISTRIES.into_iter();
    env.extend(told.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))));
    env
}

/// What a program writes, as far as it is kept.
async fn heard(output: Option<Output>) -> String {
    let Some(mut output) = output else {
        return String::new();
    };
    let mut text = Vec::new();
    let _ = (&mut output).take(MAX_OUTPUT).read_to_end(&mut text).await;
    // It must not wait for a reader.
    let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&text).into_owned()
}

fn failed(why: String) -> NotTried {
    NotTried {
        why,
        stderr: Vec::new(),
    }
}
