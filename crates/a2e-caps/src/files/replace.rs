//! Putting a file in the place of another, whole or not at all.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Roots;
use super::roots::{Place, real_path, short, stat_in};
use crate::tool::ToolFailure;

/// What a file was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp([i128; 5]);

/// Whether folders on the way are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    Must,
    Make,
}

/// Whether there was a file before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaced {
    Created,
    Overwritten,
}

/// Why a file was not replaced.
pub(super) enum Refusal {
    /// It is not what it was when it was read.
    Changed(ToolFailure),
    Failed(ToolFailure),
}

impl From<ToolFailure> for Refusal {
    fn from(failure: ToolFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Refusal> for ToolFailure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Changed(failure) | Refusal::Failed(failure) => failure,
        }
    }
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self([
            i128::from(stat.st_ino),
            i128::from(stat.st_size),
            i128::from(stat.st_mtime),
            i128::from(stat.st_mtime_nsec),
            i128::from(stat.st_ctime),
        ])
    }
}

/// Writes a file beside the one in that place and renames it there. What is there keeps its mode; a
/// symbolic link stays one. If it is no longer what it was (`before`), nothing is done.
pub(super) fn replace(
    roots: &Roots,
    place: &Place<'_>,
    content: &[u8],
    parents: Parents,
    before: Option<Stamp>,
) -> Result<Replaced, Refusal> {
    place.is_writable()?;
    let target = follow(place)?;
    let explain = |errno: Errno| place.explain(errno);
    let (Some(name), parent) = (target.file_name(), target.parent()) else {
        return Err(place.explain(Errno::ISDIR).into());
    };
    let parent = parent.unwrap_or_else(|| Path::new(""));
    let folder = match parents {
        Parents::Must => open_folder(place, parent).map_err(|errno| no_folder(place, errno))?,
        Parents::Make => make_folders(place, parent).map_err(explain)?,
    };
    let known = match stat_in(&folder, name) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(explain(errno).into()),
    };
    if let Some(stat) = &known {
        place.is_regular(stat)?;
    }
    let temporary = temporary_name()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let made = rustix::fs::openat(&folder, &temporary, flags, mode).map_err(explain)?;
    let mode = match &known {
        Some(stat) => Some(Mode::from_raw_mode(stat.st_mode & 0o777)),
        None => shared_mode(&folder).map_err(explain)?,
    };
    let written = write(made, content, mode).map_err(|errno| explain(errno).into());
    let renamed = written.and_then(|()| {
        let _alone = roots
            .renaming
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = stat_in(&folder, name).ok();
        if before.is_some() && now.map(|stat| Stamp::of(&stat)) != before {
            return Err(Refusal::Changed(changed(place)));
        }
        let renamed = rustix::fs::renameat(&folder, &temporary, &folder, name);
        renamed.map_err(|errno| explain(errno).into())
    });
    if renamed.is_err() {
        // The first failure counts; this is only tidying up.
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
    }
    renamed.map(|()| match known {
        Some(_) => Replaced::Overwritten,
        None => Replaced::Created,
    })
}

/// The rename is what counts: it is not made durable, as no program's writing to a file is.
fn write(file: OwnedFd, content: &[u8], mode: Option<Mode>) -> Result<(), Errno> {
    let mut file = File::from(file);
    let failed = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all(content).map_err(failed)?;
    mode.map_or(Ok(()), |mode| rustix::fs::fchmod(&file, mode))
}

/// The mode of a new file in a folder whose files belong to a group: the group works on them too.
fn shared_mode(folder: &OwnedFd) -> Result<Option<Mode>, Errno> {
    let shared = Mode::SGID | Mode::WGRP;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    Ok(mode.contains(shared).then(|| Mode::from_raw_mode(0o664)))
}

/// The path of what a symbolic link in the last place leads to, below the root; else the path itself.
fn follow(place: &Place<'_>) -> Result<PathBuf, ToolFailure> {
    let path = &place.path;
    let explain = |errno: Errno| place.explain(errno);
    if path.components().next_back() == Some(Component::ParentDir) {
        return Err(place.explain(Errno::ISDIR));
    }
    let unfollowed = OFlags::PATH | OFlags::NOFOLLOW;
    let is_link = match place.root.resolve(path, unfollowed) {
        Ok(found) => {
            let stat = rustix::fs::fstat(&found).map_err(explain)?;
            FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
        }
        Err(Errno::NOENT) => false,
        Err(errno) => return Err(explain(errno)),
    };
    if !is_link {
        return Ok(path.clone());
    }
    let target = place.root.resolve(path, OFlags::PATH).map_err(explain)?;
    let real = real_path(&target).map_err(explain)?;
    let root = place.root.real_path().map_err(explain)?;
    let below = real.strip_prefix(root).map(Path::to_owned);
    below.map_err(|_| place.explain(Errno::XDEV))
}

fn open_folder(place: &Place<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    place.root.resolve(path, OFlags::PATH | OFlags::DIRECTORY)
}

fn make_folders(place: &Place<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let mut below = PathBuf::new();
    let mut folder = open_folder(place, &below)?;
    for part in path.components() {
        let mut is_new = false;
        if let Component::Normal(name) = part {
            match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => is_new = true,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        below.push(part);
        if is_new && shared_mode(&folder)?.is_some() {
            // By its descriptor: somebody else may have put a link in its place.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let made = place.root.resolve(&below, flags)?;
            rustix::fs::fchmod(&made, Mode::from_raw_mode(0o2775))?;
        }
        folder = open_folder(place, &below)?;
    }
    Ok(folder)
}

/// Nothing else has such a name, and it is hidden.
fn temporary_name() -> Result<OsString, ToolFailure> {
    let mut random = [0; 8];
    let failed = |error| ToolFailure::new(format!("there is no randomness: {error}"));
    getrandom::fill(&mut random).map_err(failed)?;
    Ok(format!(".frith-{}", hex::encode(random)).into())
}

fn no_folder(place: &Place<'_>, errno: Errno) -> ToolFailure {
    match errno {
        Errno::NOENT => ToolFailure::new(format!(
            "the folder of `{}` does not exist; set create_parents to make it",
            short(&place.shown)
        )),
        errno => place.explain(errno),
    }
}

fn changed(place: &Place<'_>) -> ToolFailure {
    let shown = short(&place.shown);
    ToolFailure::new(format!(
        "`{shown}` was changed meanwhile; read it again first"
    ))
}
