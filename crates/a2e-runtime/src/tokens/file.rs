//! The files tokens are kept in.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use canonical::{Digest, Value};
use serde::{Deserialize, Serialize};

use super::{
    DEFAULT_AGENT, Entry, FILE_ID, MAX_TOKEN, MAX_TOKENS, TokenError, check_name, random_token,
};
use crate::data_dir::{Claim, at};

/// What `agents.json` holds. The first version; another one is not read.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Agents<T> {
    version: u32,
    tokens: T,
}

const VERSION: u32 = 1;

/// The tokens that were made before.
pub(super) fn read(claim: &Claim) -> Result<Vec<Entry>, TokenError> {
    let path = claim.dir().agents();
    let Some(bytes) = claim.read_private(&path)? else {
        return Ok(Vec::new());
    };
    parse(&bytes).map_err(|what| TokenError::Damaged {
        path,
        what,
        remedy: "put back a copy of it, or delete it and make new tokens with `frith token new`",
    })
}

/// Keeps the tokens that were made.
pub(super) fn write(claim: &Claim, tokens: &[Entry]) -> Result<(), TokenError> {
    let path = claim.dir().agents();
    let agents = Agents {
        version: VERSION,
        tokens,
    };
    let bytes = serde_json::to_vec_pretty(&agents).map_err(|error| TokenError::Damaged {
        path: path.clone(),
        what: error.to_string(),
        remedy: "this is a defect; please report it",
    })?;
    Ok(claim.write_private(&path, &bytes)?)
}

/// The default agent's token as its file has it; the first time it is made.
pub(super) fn first_token(claim: &Claim) -> Result<Entry, TokenError> {
    let path = claim.dir().token();
    let Some(bytes) = claim.read_private(&path)? else {
        return renew_first_token(claim);
    };
    let text = str::from_utf8(&bytes).unwrap_or_default().trim();
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > MAX_TOKEN || !printable {
        return Err(TokenError::Damaged {
            path,
            what: "it does not hold one token".to_owned(),
            remedy: "delete it to have a new token made",
        });
    }
    let metadata = std::fs::metadata(&path).map_err(at("look at", &path))?;
    Ok(entry(text, metadata.mtime().try_into().ok()))
}

/// Puts another token in the default agent's file.
pub(super) fn renew_first_token(claim: &Claim) -> Result<Entry, TokenError> {
    let token = random_token()?;
    let line = format!("{}\n", token.reveal());
    claim.write_private(&claim.dir().token(), line.as_bytes())?;
    Ok(entry(token.reveal(), Some(super::unix_seconds())))
}

fn entry(token: &str, created: Option<u64>) -> Entry {
    Entry {
        id: FILE_ID.to_owned(),
        agent: DEFAULT_AGENT.to_owned(),
        hash: Digest::of(token.as_bytes()),
        created,
        label: "the file `token` of the data directory".to_owned(),
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let mut limits = canonical::LIMITS;
    limits.values = 16 * MAX_TOKENS;
    let tree = Value::parse_within(bytes, limits).map_err(|fault| fault.to_string())?;
    let version = tree.as_object().and_then(|agents| agents.get("version"));
    if version.is_none_or(|version| version.deserialize_into() != Ok(VERSION)) {
        return Err(format!("it is not of version {VERSION}"));
    }
    // The error would quote what it found, which may be a hash.
    let Ok(agents) = tree.deserialize_into::<Agents<Vec<Entry>>>() else {
        return Err("a token in it lacks a part or has one too many".to_owned());
    };
    let ids: BTreeSet<&str> = agents
        .tokens
        .iter()
        .map(|entry| entry.id.as_str())
        .collect();
    if ids.len() != agents.tokens.len() || ids.len() > MAX_TOKENS {
        return Err("it has too many tokens, or two with one id".to_owned());
    }
    if agents
        .tokens
        .iter()
        .any(|entry| check_name(&entry.agent).is_err())
    {
        return Err("an agent in it has an impossible name".to_owned());
    }
    Ok(agents.tokens)
}
