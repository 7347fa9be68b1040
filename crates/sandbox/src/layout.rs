//! From the paths of a profile to what is put into the file tree of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::plan::{Kind, Mount};
use crate::{Error, Profile};

/// Paths that the sandbox has of its own.
const OWN: [&str; 2] = ["/proc", "/dev"];
/// Links one path may lead over, as in the kernel.
const MOST_LINKS: usize = 40;

/// What to put where, outer folders first.
pub(crate) fn mounts(profile: &Profile, hidden: &[PathBuf]) -> Result<Vec<Mount>, Error> {
    let hidden: Vec<PathBuf> = hidden
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    let mut binds = BTreeMap::new();
    let mut links = BTreeSet::new();
    let names = profile.network.readable();
    let readable = profile.readable.iter().chain(&names);
    let all = readable.map(|path| (path, false));
    for (path, writable) in all.chain(profile.writable.iter().map(|path| (path, true))) {
        let real = trace(path, &mut links).map_err(|why| Error::Path {
            path: path.clone(),
            why,
        })?;
        if hidden.iter().any(|hidden| real.starts_with(hidden)) {
            return Err(Error::Path {
                path: path.clone(),
                why: "it is hidden from all commands".into(),
            });
        }
        *binds.entry(real).or_insert(false) |= writable;
    }
    let mut mounts = Vec::with_capacity(binds.len().saturating_add(links.len()));
    for (path, writable) in &binds {
        let above = path.ancestors().skip(1).find_map(|above| binds.get(above));
        if above == Some(writable) {
            continue; // it is part of that one
        }
        mounts.push(Mount::Bind {
            kind: kind(path)?,
            path: path.clone(),
            writable: *writable,
        });
    }
    mounts.extend(links.into_iter().map(|(at, to)| Mount::Link { at, to }));
    for path in hidden {
        if path.ancestors().any(|above| binds.contains_key(above)) {
            mounts.push(Mount::Hide {
                kind: kind(&path)?,
                path,
            });
        }
    }
    Ok(mounts)
}

/// Where a path really is, and the symbolic links that lead there.
fn trace(path: &Path, links: &mut BTreeSet<(PathBuf, PathBuf)>) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err("it does not begin with /".into());
    }
    let missing = |why: std::io::Error| format!("{why}; make it or leave it out");
    let mut current = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some((at, rest)) = first_link(&current) else {
            let real = fs::canonicalize(&current).map_err(missing)?;
            return match real.parent() {
                None => Err("it is everything; name what is needed".into()),
                Some(_) if OWN.iter().any(|own| real.starts_with(own)) => {
                    Err("the sandbox has its own".into())
                }
                Some(_) => Ok(real),
            };
        };
        let to = fs::canonicalize(&at).map_err(missing)?;
        current = to.components().chain(rest.components()).collect();
        links.insert((at, to));
    }
    Err("it leads over too many symbolic links".into())
}

/// The first part of a path that is a symbolic link, and the rest of it.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut walked = PathBuf::new();
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        if part == Component::ParentDir {
            walked.pop();
            continue;
        }
        walked.push(part);
        if walked.is_symlink() {
            return Some((walked, parts.as_path().to_owned()));
        }
    }
    None
}

fn kind(path: &Path) -> Result<Kind, Error> {
    let metadata = fs::metadata(path).map_err(|why| Error::Path {
        path: path.to_owned(),
        why: why.to_string(),
    })?;
    Ok(match metadata.is_dir() {
        true => Kind::Folder,
        false => Kind::File,
    })
}

#[cfg(test)]
mod tests;
