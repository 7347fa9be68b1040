//! The folders that file tools may reach, and how paths are resolved below them.

mod below;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use a2e_runtime::nearest;
use base::Budget;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::edit::EDITING;
use crate::tool::ToolFailure;

/// What may be done below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Files can be read.
    ReadOnly,
    /// Files can be read, written and created.
    ReadWrite,
}

/// The folders that file tools may reach.
///
/// With one root, paths are relative to it. With several, each begins with the name of its root.
/// Absolute paths below a root are taken too.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Root>,
    /// Held between the last look at a file and the rename that replaces it, so that two edits of
    /// one file do not undo each other; never while anything is read or written. Roots that lie
    /// below others have the same.
    pub(super) renaming: Arc<Mutex<()>>,
    /// Bytes that edits have in memory, counted for each agent.
    pub(super) editing: Budget<Arc<str>>,
}

/// One such folder.
#[derive(Debug)]
pub(super) struct Root {
    name: String,
    path: PathBuf,
    folder: OwnedFd,
    access: Access,
}

/// Why there cannot be such roots.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The folder cannot be opened.
    #[error("cannot open `{path}` as a folder for file tools: {error}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The kernel cannot keep paths below a folder.
    #[error("file tools need `openat2`, which Linux has since 5.6: {0}")]
    Kernel(std::io::Error),
    /// A name does not do.
    #[error(
        "`{0}` cannot be the name of a root: it must be unique, not empty, without `/`, not `.` or `..`"
    )]
    Name(String),
    /// There are none.
    #[error("file tools need at least one root")]
    None,
    /// It does not lie below the roots that there are.
    #[error("the root `{name}`: {why}")]
    NotBelow {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

/// Something below a root, by its path.
#[derive(Debug)]
pub(super) struct Place<'r> {
    pub(super) root: &'r Root,
    /// Never empty; `.` is the root itself.
    pub(super) path: PathBuf,
    /// As answers call it.
    pub(super) shown: String,
}

/// The longest path that is taken, in bytes.
pub const MAX_PATH: usize = 4096;

/// How often a path is resolved again that was changed meanwhile.
const RACES: u32 = 64;

/// So many names are looked at to find what a mistyped one was meant to be.
const MAX_SIMILAR: usize = 1000;

const CONFINED: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

impl Roots {
    /// One root.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn one(path: &Path, access: Access) -> Result<Arc<Self>, RootsError> {
        Self::with(vec![Root::open(String::new(), path, access)?])
    }

    /// Several roots by their names.
    ///
    /// # Errors
    /// If there are none, a folder cannot be opened, or names do not do.
    pub fn named<'r>(
        roots: impl IntoIterator<Item = (&'r str, &'r Path, Access)>,
    ) -> Result<Arc<Self>, RootsError> {
        let mut opened: Vec<Root> = Vec::new();
        for (name, path, access) in roots {
            check_name(&opened, name)?;
            opened.push(Root::open(name.to_owned(), path, access)?);
        }
        Self::with(opened)
    }

    fn with(roots: Vec<Root>) -> Result<Arc<Self>, RootsError> {
        if roots.is_empty() {
            return Err(RootsError::None);
        }
        Ok(Arc::new(Self {
            roots,
            renaming: Arc::default(),
            editing: Budget::new(EDITING),
        }))
    }

    /// Whether anything can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.roots
            .iter()
            .any(|root| root.access == Access::ReadWrite)
    }

    /// Which root a path belongs to. Nothing is resolved yet.
    pub(super) fn locate(&self, path: &str) -> Result<Place<'_>, ToolFailure> {
        if path.len() > MAX_PATH || path.contains('\0') {
            let text = format!("a path has at most {MAX_PATH} bytes, none of them zero");
            return Err(ToolFailure::new(text));
        }
        let given = Path::new(path);
        if given.is_absolute() {
            let found = self
                .roots
                .iter()
                .find_map(|root| Some((root, given.strip_prefix(&root.path).ok()?)));
            let (root, rest) = found.ok_or_else(|| self.outside(path))?;
            return Ok(root.place(rest));
        }
        match self.roots.as_slice() {
            [root] if root.name.is_empty() => Ok(root.place(given)),
            roots => {
                let mut parts = given.components();
                let first = parts.find(|part| *part != Component::CurDir);
                let named = |root: &&Root| {
                    first.is_some_and(|first| first.as_os_str() == root.name.as_str())
                };
                let root = roots.iter().find(named);
                let root = root.ok_or_else(|| self.unnamed(path))?;
                Ok(root.place(parts.as_path()))
            }
        }
    }

    fn outside(&self, path: &str) -> ToolFailure {
        let paths: Vec<String> = self
            .roots
            .iter()
            .map(|root| format!("`{}`", root.path.display()))
            .collect();
        let text = format!(
            "`{}` is not below {}; paths there can be given as relative ones",
            short(path),
            paths.join(" or ")
        );
        ToolFailure::denied("outside_roots", text)
    }

    fn unnamed(&self, path: &str) -> ToolFailure {
        let names: Vec<&str> = self.roots.iter().map(|root| root.name.as_str()).collect();
        let text = format!(
            "`{}` must begin with the name of a root: {}",
            short(path),
            names.join(", ")
        );
        ToolFailure::new(text)
    }
}

fn check_name(others: &[Root], name: &str) -> Result<(), RootsError> {
    let is_bad = name.is_empty() || name.contains(['/', '\0']) || [".", ".."].contains(&name);
    match is_bad || others.iter().any(|root| root.name == name) {
        true => Err(RootsError::Name(name.to_owned())),
        false => Ok(()),
    }
}

impl Root {
    fn open(name: String, path: &Path, access: Access) -> Result<Self, RootsError> {
        let failed = |error: std::io::Error| RootsError::Folder {
            path: path.to_owned(),
            error,
        };
        let path = path.canonicalize().map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let root = Self {
            name,
            path,
            folder,
            access,
        };
        root.resolve(Path::new("."), flags)
            .map_err(|error| RootsError::Kernel(error.into()))?;
        Ok(root)
    }

    /// Opens something by its path from here; nothing leads out.
    pub(super) fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..RACES {
            match rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), CONFINED) {
                // A rename elsewhere made the kernel unsure whether a `..` stays below.
                Err(Errno::AGAIN) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::AGAIN)
    }

    /// The same, if it needs no disk.
    pub(super) fn resolve_cached(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (flags, how) = (flags | OFlags::CLOEXEC, CONFINED | ResolveFlags::CACHED);
        rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), how)
    }

    /// Where the folder is now.
    pub(super) fn real_path(&self) -> Result<PathBuf, Errno> {
        real_path(&self.folder)
    }

    pub(super) fn place(&self, path: &Path) -> Place<'_> {
        // `a/./b` and `a//b` are `a/b`.
        let clean: PathBuf = path
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        let shown = Path::new(&self.name)
            .join(&clean)
            .to_string_lossy()
            .into_owned();
        let is_root = clean.as_os_str().is_empty();
        Place {
            root: self,
            path: if is_root { ".".into() } else { clean },
            shown: if shown.is_empty() { ".".into() } else { shown },
        }
    }
}

impl Place<'_> {
    /// The same for something in this folder.
    pub(super) fn show(&self, inside: &Path) -> String {
        let shown = Path::new(if self.shown == "." { "" } else { &self.shown }).join(inside);
        shown.to_string_lossy().into_owned()
    }

    /// Opens a folder to see what is in it.
    pub(super) fn folder(&self) -> Result<OwnedFd, ToolFailure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.root.resolve(&self.path, flags);
        opened.map_err(|errno| match errno {
            Errno::NOTDIR => {
                let shown = short(&self.shown);
                ToolFailure::new(format!("`{shown}` is no folder; read_file reads files"))
            }
            errno => self.explain(errno),
        })
    }

    /// Opens a regular file to read it.
    pub(super) fn file(&self) -> Result<(File, Stat), ToolFailure> {
        let opened = self.root.resolve(&self.path, READ);
        let file = opened.map_err(|errno| self.explain(errno))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| self.explain(errno))?;
        self.is_regular(&stat)?;
        Ok((file.into(), stat))
    }

    /// A failure unless it is a regular file.
    pub(super) fn is_regular(&self, stat: &Stat) -> Result<(), ToolFailure> {
        let shown = short(&self.shown);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(()),
            FileType::Directory => Err(ToolFailure::new(format!(
                "`{shown}` is a folder; list_dir lists what is in it"
            ))),
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Err(ToolFailure::new(format!(
                "`{shown}` is neither a file nor a folder, and is left alone"
            ))),
        }
    }

    /// A failure unless files may be written there.
    pub(super) fn is_writable(&self) -> Result<(), ToolFailure> {
        match self.root.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => {
                let text = format!(
                    "`{}` is in a folder that is only for reading",
                    short(&self.shown)
                );
                Err(ToolFailure::denied("read_only", text))
            }
        }
    }

    /// What went wrong, and what to do next.
    pub(super) fn explain(&self, errno: Errno) -> ToolFailure {
        let shown = short(&self.shown);
        match errno {
            Errno::NOENT => ToolFailure::new(match self.similar() {
                Some(similar) => format!("there is no `{shown}`; did you mean `{similar}`?"),
                None => format!("there is no `{shown}`; list_dir lists what there is"),
            }),
            Errno::XDEV => ToolFailure::denied(
                "outside_roots",
                format!("`{shown}` leads out of the folder that may be used"),
            ),
            Errno::LOOP => ToolFailure::new(format!(
                "`{shown}` has symbolic links that lead nowhere or must not be followed"
            )),
            Errno::NOTDIR => {
                ToolFailure::new(format!("a part of `{shown}` is a file, not a folder"))
            }
            Errno::ISDIR => ToolFailure::new(format!("`{shown}` is a folder; give a file in it")),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                ToolFailure::new(format!("`{shown}`: the host has no permission for this"))
            }
            Errno::AGAIN => ToolFailure::new(format!("`{shown}` keeps changing; try again")),
            errno => ToolFailure::new(format!("`{shown}`: {}", std::io::Error::from(errno))),
        }
    }

    /// What a name that does not exist was probably meant to be.
    fn similar(&self) -> Option<String> {
        let (parent, name) = (self.path.parent()?, self.path.file_name()?.to_str()?);
        let parent = self.root.place(parent);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = self.root.resolve(&parent.path, flags).ok()?;
        let entries = Dir::read_from(folder).ok()?.take(MAX_SIMILAR);
        let names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name.len() <= 64)
            .collect();
        let found = nearest(name, names.iter().map(String::as_str))?;
        Some(parent.show(Path::new(found)))
    }
}

/// A pipe does not keep the host waiting, and a terminal does not become its own.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Where something that is open is now.
pub(super) fn real_path(open: impl AsFd) -> Result<PathBuf, Errno> {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStringExt;
    let link = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

/// What something in a folder is, not what it leads to.
pub(super) fn stat_in(folder: impl AsFd, name: impl rustix::path::Arg) -> Result<Stat, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Enough of a path for a message.
pub(super) fn short(path: &str) -> &str {
    path.get(..path.floor_char_boundary(200)).unwrap_or(path)
}
