//! From the paths of a profile to what is put into the file tree of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::plan::{Kind, Mount};
use crate::{Error, Profile};

/// Paths that the sandbox has of its own.
const OWN: [&str; 2] = ["/proc", "/dev"];
/// Links one path may lead over, as in the kernel.
const MOST_LINKS: usize = 40;

/// What to put where, outer folders first.
pub(crate) fn mounts(
    profile: &Profile,
    hidden: &[PathBuf],
    shown: &[PathBuf],
) -> Result<Vec<Mount>, Error> {
    let (hidden, shown) = (existing(hidden), existing(shown));
    let mut binds: BTreeMap<PathBuf, (bool, Kind)> = BTreeMap::new();
    let mut links = BTreeSet::new();
    let mut plain = BTreeSet::new();
    let names = profile.network.readable();
    let readable = profile.readable.iter().chain(&names);
    let all = readable.map(|path| (path, false));
    for (path, writable) in all.chain(profile.writable.iter().map(|path| (path, true))) {
        let (real, kind) = trace(path, &mut links, &mut plain).map_err(|why| Error::Path {
            path: path.clone(),
            why,
        })?;
        let is_below = |all: &[PathBuf]| all.iter().any(|it| real.starts_with(it));
        if is_below(&hidden) && !is_below(&shown) {
            return Err(Error::Path {
                path: path.clone(),
                why: "it is hidden from all commands".into(),
            });
        }
        binds.entry(real).or_insert((false, kind)).0 |= writable;
    }
    let mut mounts = Vec::with_capacity(binds.len().saturating_add(links.len()));
    for (path, (writable, kind)) in &binds {
        let above = path.ancestors().skip(1).find_map(|above| binds.get(above));
        if above.is_some_and(|(above, _)| above == writable) {
            continue; // it is part of that one
        }
        mounts.push(Mount::Bind {
            kind: *kind,
            path: path.clone(),
            writable: *writable,
        });
    }
    mounts.extend(links.into_iter().map(|(at, to)| Mount::Link { at, to }));
    for path in hidden {
        if path.ancestors().any(|above| binds.contains_key(above)) {
            // What covers it would cover this too.
            if let Some(inside) = binds.keys().find(|bound| bound.starts_with(&path)) {
                return Err(Error::Path {
                    path: inside.clone(),
                    why: format!(
                        "it lies in {}, which is hidden from all commands, and so does a \
                                  folder above that; leave out one of them",
                        path.display()
                    ),
                });
            }
            let kind = kind(&path).map_err(|why| Error::Path {
                path: path.clone(),
                why: why.to_string(),
            })?;
            mounts.push(Mount::Hide { path, kind });
        }
    }
    Ok(mounts)
}

/// Those that are there, where they really are.
fn existing(paths: &[PathBuf]) -> Vec<PathBuf> {
    let real = paths.iter().filter_map(|path| fs::canonicalize(path).ok());
    real.collect()
}

/// Where a path really is, what is there, and the symbolic links that lead there. The paths of a
/// profile have much in common, and it is asked only once what is known not to be a link.
fn trace(
    path: &Path,
    links: &mut BTreeSet<(PathBuf, PathBuf)>,
    plain: &mut BTreeSet<PathBuf>,
) -> Result<(PathBuf, Kind), String> {
    if !path.is_absolute() {
        return Err("it does not begin with /".into());
    }
    let missing = |why: io::Error| format!("{why}; make it or leave it out");
    let mut current = path.to_owned();
    for _ in 0..MOST_LINKS {
        match walk(&current, plain) {
            Walked::Whole(real) => {
                let kind = kind(&real).map_err(missing)?;
                return match real.parent() {
                    None => Err("it is everything; name what is needed".into()),
                    Some(_) if OWN.iter().any(|own| real.starts_with(own)) => {
                        Err("the sandbox has its own".into())
                    }
                    Some(_) => Ok((real, kind)),
                };
            }
            Walked::ToLink { at, rest } => {
                let to = fs::canonicalize(&at).map_err(missing)?;
                plain.extend(to.ancestors().map(Path::to_owned));
                current = to.components().chain(rest.components()).collect();
                links.insert((at, to));
            }
        }
    }
    Err("it leads over too many symbolic links".into())
}

/// How far a path goes without a symbolic link.
enum Walked {
    /// To its end; without `.` and `..` it is this.
    Whole(PathBuf),
    /// To this link, and there is a rest of it.
    ToLink { at: PathBuf, rest: PathBuf },
}

fn walk(path: &Path, plain: &mut BTreeSet<PathBuf>) -> Walked {
    let mut walked = PathBuf::new();
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        if part == Component::ParentDir {
            walked.pop();
            continue;
        }
        walked.push(part);
        if plain.contains(&walked) {
            continue;
        }
        if walked.is_symlink() {
            return Walked::ToLink {
                at: walked,
                rest: parts.as_path().to_owned(),
            };
        }
        plain.insert(walked.clone());
    }
    Walked::Whole(walked)
}

fn kind(path: &Path) -> io::Result<Kind> {
    Ok(match fs::metadata(path)?.is_dir() {
        true => Kind::Folder,
        false => Kind::File,
    })
}

#[cfg(test)]
mod tests;
