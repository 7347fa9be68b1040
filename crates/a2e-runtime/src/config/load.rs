//! From a file to a configuration: where it is found, what lies over it, what goes together.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Problem};
use super::layers::Overrides;
use super::{Config, a2a, intents, peers, policy, sections, toml, yaml};

/// The names that are looked for in a folder.
const NAMES: [&str; 3] = ["frith.yaml", "frith.yml", "frith.toml"];

/// Nobody writes more by hand.
const MAX_FILE: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Yaml,
    Toml,
}

/// What else a configuration depends on, so that tests can say it.
pub(super) struct Surroundings<'a> {
    /// Relative paths begin here.
    pub(super) folder: &'a Path,
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Config {
    /// Reads a file; one that ends in `.toml` is TOML, all others are YAML.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::layered(Some(file), &Overrides::default())
    }

    /// Reads a file, if there is one, and what is said beside it, which is stronger.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn layered(file: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let fail = |problems| ConfigError {
            file: file.map(Path::to_owned),
            problems,
        };
        let text = file.map_or_else(|| Ok(String::new()), read_file);
        let text = text.map_err(|text| fail(vec![Problem { at: None, text }]))?;
        let format = match file.and_then(Path::extension) {
            Some(extension) if extension == "toml" => Format::Toml,
            _ => Format::Yaml,
        };
        // Made absolute once: the sandbox mounts no relative path.
        let folder = std::path::absolute(file.unwrap_or_else(|| Path::new("."))).map(|path| {
            match file.and_then(|_| path.parent()) {
                Some(folder) => folder.to_owned(),
                None => path,
            }
        });
        let folder = folder.map_err(|error| {
            let text = format!("the current folder cannot be found: {error}");
            fail(vec![Problem { at: None, text }])
        })?;
        let surroundings = Surroundings {
            folder: &folder,
            variable: &|name| std::env::var(name).ok(),
        };
        Self::parse(&text, format, overrides, &surroundings).map_err(fail)
    }

    /// Reads a text that stands in a file of this folder, or is to.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn of_text(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let surroundings = Surroundings {
            folder,
            variable: &|name| std::env::var(name).ok(),
        };
        let overrides = Overrides::default();
        let config = Self::parse(text, Format::Yaml, &overrides, &surroundings);
        config.map_err(|problems| ConfigError {
            file: None,
            problems,
        })
    }

    /// Finds the configuration file of a folder; a folder need not have one.
    ///
    /// # Errors
    /// If it has more than one.
    pub fn find(folder: &Path) -> Result<Option<PathBuf>, ConfigError> {
        // A link that leads nowhere is one too: without its rules the node must not start.
        let is_there = |name: &&&str| match folder.join(name).symlink_metadata() {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let mut found = NAMES.iter().filter(is_there);
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => Err(ConfigError::of(format!(
                "there are both {one} and {other} in {}; keep one, or choose with --config",
                folder.display()
            ))),
            (found, _) => Ok(found.map(|name| folder.join(name))),
        }
    }

    /// Checks what is about more than one key. [`Config::load`] has done so; do it again after a
    /// change.
    ///
    /// # Errors
    /// All that does not go together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let server = &self.server;
        let addresses = [
            ("server.listen", Some(server.listen)),
            ("server.tcp", server.tcp),
        ];
        let mut error = ConfigError {
            file: None,
            problems: Vec::new(),
        };
        for (key, address) in addresses {
            let public = address.filter(|address| !address.ip().to_canonical().is_loopback());
            if let (Some(address), true) = (public, server.allow_unauthenticated) {
                error.add(format!(
                    "`server.allow_unauthenticated` needs every listener on a loopback address \
                     such as 127.0.0.1, but `{key}` is {address}"
                ));
            }
        }
        if server.tcp == Some(server.listen) && server.listen.port() != 0 {
            error.add("`server.tcp` and `server.listen` need different ports".to_owned());
        }
        for (index, plugin) in self.plugins.iter().enumerate() {
            let earlier = self.plugins.iter().take(index);
            if earlier.clone().any(|other| other.name == plugin.name) {
                error.add(format!("two plugins are called `{}`", plugin.name));
            }
        }
        a2a::problems(&self.a2a, &[Some(server.listen), server.tcp], &mut error);
        intents::problems(self, &mut error);
        peers::problems(self, &mut error);
        policy::problems(&self.policy)
            .into_iter()
            .for_each(|problem| error.add(problem));
        match error.problems.is_empty() {
            true => Ok(()),
            false => Err(error),
        }
    }

    pub(super) fn parse(
        text: &str,
        format: Format,
        overrides: &Overrides,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, Vec<Problem>> {
        let tree = match format {
            Format::Yaml => yaml::parse(text),
            Format::Toml => toml::parse(text),
        };
        let mut tree = tree.map_err(|problem| vec![problem])?;
        overrides.lay_over(&mut tree)?;
        let config = sections::config(&tree, surroundings);
        let config = config.map_err(|problems| overrides.name_sources(problems))?;
        config.validate().map_err(|error| error.problems)?;
        Ok(config)
    }
}

fn read_file(file: &Path) -> Result<String, String> {
    let failed = |error| format!("cannot be read: {error}");
    let mut text = String::new();
    // The size of a device or a pipe is not known before it is read.
    let mut file = File::open(file).map_err(failed)?.take(MAX_FILE + 1);
    file.read_to_string(&mut text).map_err(failed)?;
    match file.limit() {
        0 => Err("is larger than 1 MiB, so it is no configuration".to_owned()),
        _ => Ok(text),
    }
}
