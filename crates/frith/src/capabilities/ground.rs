//! What capabilities stand on: the folder that agents work in, and the sandbox.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use a2e_runtime::DataDir;
use a2e_runtime::config::{Config, Network, Sandbox};
use anyhow::{Context, Result, bail};
use sandbox::{Launcher, MemoryLevel, Profile, Settings};

/// The folder that agents work in; the default one is made.
pub(super) fn workspace(config: &Config, data: &DataDir) -> Result<PathBuf> {
    let Some(path) = &config.workspace else {
        let path = data.path().join("workspace");
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        // Another host may make it at this moment.
        if let Err(error) = made.or_else(|error| path.is_dir().then_some(()).ok_or(error)) {
            let text = format!("cannot make the workspace {}", path.display());
            return Err(anyhow::Error::from(error).context(text));
        }
        return Ok(path.canonicalize()?);
    };
    let found = path.canonicalize().ok().filter(|path| path.is_dir());
    found.with_context(|| format!("`workspace` is no folder: {}", path.display()))
}

/// What starts programs of agents, with the guards that the configuration asks for. They are put up for
/// each program, or it is not started; whether they can be is found out by
/// [`Capabilities::try_guards`](super::Capabilities::try_guards).
pub(crate) fn launcher(config: &Config) -> Result<Launcher> {
    let Sandbox::Guarded(guarded) = &config.sandbox else {
        tracing::warn!("`sandbox: none`: what agents run has all rights of this process");
        return Ok(Launcher::none()?);
    };
    let settings = Settings {
        landlock: guarded.landlock,
        memory: match guarded.tree_memory {
            true => MemoryLevel::Tree,
            false => MemoryLevel::Process,
        },
        ..Settings::default()
    };
    Launcher::untried(settings).context(NO_SANDBOX)
}

pub(super) const NO_SANDBOX: &str =
    "the sandbox cannot be set up (`frith doctor` shows each guard)";

pub(super) fn profile(config: &Config, workspace: &Path) -> Profile {
    let mut profile = Profile::default();
    profile.writable.push(workspace.to_owned());
    let Sandbox::Guarded(guarded) = &config.sandbox else {
        return profile;
    };
    let told = &guarded.profile;
    profile.readable.extend(told.readable.iter().cloned());
    profile.writable.extend(told.writable.iter().cloned());
    profile.network = match told.network {
        Network::None => sandbox::Network::None,
        Network::Loopback => sandbox::Network::Loopback,
        Network::All => sandbox::Network::All,
    };
    profile.limits = sandbox::Limits {
        memory: told.memory,
        cpu_seconds: told.cpu_seconds,
        processes: told.processes,
        open_files: told.open_files,
        file_bytes: told.file_bytes,
        tmp_bytes: told.tmp_bytes,
        output_bytes: told.output_bytes,
        wall_time: told.wall_time,
    };
    profile
}

/// An agent must not be able to rewrite its own rules, nor read what keeps others out.
pub(super) fn check(profile: &Profile, data: &Path, file: Option<&Path>) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let data = real(data);
    for path in profile.readable.iter().chain(&profile.writable) {
        if data.starts_with(real(path)) {
            bail!(
                "agents could read the data directory {}, since {} is open to what they run; \
                 change `workspace`, `sandbox.readable` or `sandbox.writable`, or move it (--data)",
                data.display(),
                path.display()
            );
        }
    }
    let Some(file) = file.map(real) else {
        return Ok(());
    };
    if let Some(path) = profile
        .writable
        .iter()
        .find(|path| file.starts_with(real(path)))
    {
        bail!(
            "agents could rewrite the configuration {}, since {} is open to them; move one of them",
            file.display(),
            path.display()
        );
    }
    Ok(())
}
