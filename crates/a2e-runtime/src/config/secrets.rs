//! Where secrets come from: the file itself, the environment, another file.

use super::Surroundings;
use crate::secret::Secret;

/// More is no credential.
const MAX_SECRET: usize = 4096;

/// The secret that a value stands for: itself, `${NAME}` or `file:PATH`.
///
/// # Errors
/// What is wrong, without the value.
pub(super) fn resolve(value: &str, surroundings: &Surroundings<'_>) -> Result<Secret, String> {
    let secret = if let Some(path) = value.strip_prefix("file:") {
        let path = surroundings.folder.join(path);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("names {}, which cannot be read: {error}", path.display()))?;
        text.trim_end().to_owned()
    } else if let Some(name) = variable_name(value)? {
        (surroundings.variable)(name)
            .ok_or_else(|| format!("names the environment variable {name}, which is not set"))?
    } else {
        value.to_owned()
    };
    match secret.len() {
        0 => Err("is empty; leave it out to have none".to_owned()),
        1..=MAX_SECRET => Ok(Secret::new(secret)),
        _ => Err(format!("is longer than {MAX_SECRET} bytes")),
    }
}

/// The name in `${NAME}`.
fn variable_name(value: &str) -> Result<Option<&str>, String> {
    if !value.contains("${") {
        return Ok(None);
    }
    let name = value
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    let is_name = |name: &&str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match name.filter(is_name) {
        Some(name) => Ok(Some(name)),
        None => Err("must be `${NAME}` alone if it takes an environment variable".to_owned()),
    }
}
