//! did:github.

use std::fmt;

use super::DidError;

/// A DID that is a repository, or a file in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DidGithub {
    owner: String,
    repository: String,
    /// Another place than `.well-known/agent-manifest.json`.
    path: Vec<String>,
}

impl DidGithub {
    /// The owner, in lower case.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// `owner/repository`, in lower case.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.repository)
    }

    /// The repository itself, whatever file of it this names.
    #[must_use]
    pub fn repository(&self) -> Self {
        Self {
            path: Vec::new(),
            ..self.clone()
        }
    }

    /// Where its manifest is.
    #[must_use]
    pub fn manifest_url(&self) -> String {
        let path = match self.path.as_slice() {
            [] => ".well-known/agent-manifest.json".to_owned(),
            path => path.join("/"),
        };
        format!(
            "https://raw.githubusercontent.com/{}/main/{path}",
            self.full_name()
        )
    }

    /// Where GitHub says whose the repository is.
    #[must_use]
    pub fn ownership_url(&self) -> String {
        format!("https://api.github.com/repos/{}", self.full_name())
    }

    pub(super) fn parse(id: &str) -> Result<Self, DidError> {
        let mut parts = id.split('/');
        let (Some(owner), Some(repository)) = (parts.next(), parts.next()) else {
            return Err(DidError::Malformed("it must be owner/repository"));
        };
        let (owner, repository) = (owner.to_ascii_lowercase(), repository.to_ascii_lowercase());
        let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let word = |byte: u8| alphanumeric(byte) || matches!(byte, b'.' | b'_');
        let is_name = |text: &str, most: usize| {
            (1..=most).contains(&text.len())
                && text != "."
                && text != ".."
                && text.bytes().all(word)
        };
        if !is_name(&owner, 39) || !owner.bytes().all(alphanumeric) {
            return Err(DidError::Malformed(
                "the owner must be 1 to 39 of `a-z0-9-`",
            ));
        }
        if !is_name(&repository, 100) {
            let rule = "the repository must be 1 to 100 of `a-z0-9._-`";
            return Err(DidError::Malformed(rule));
        }
        let path: Vec<String> = parts.map(str::to_owned).collect();
        let is_file = path.last().is_none_or(|name| name.ends_with(".json"));
        if path.len() > 5 || !is_file || !path.iter().all(|part| is_name(part, 255)) {
            let rule = "the path must have at most 5 segments of `A-Za-z0-9._-` and end in .json";
            return Err(DidError::Malformed(rule));
        }
        Ok(Self {
            owner,
            repository,
            path,
        })
    }
}

impl fmt::Display for DidGithub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "did:github:{}", self.full_name())?;
        self.path.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}
