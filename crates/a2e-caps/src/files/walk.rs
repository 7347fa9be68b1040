//! Walking a tree with several threads, from descriptor to descriptor.

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, RawDir};
use tokio_util::sync::CancellationToken;

use super::ignored::{Ignored, NAMES};
use super::roots::{Place, stat_in};
use crate::tool::ToolFailure;

/// Sees the files of a tree. Each thread has its own.
pub(super) trait Visitor: Send {
    /// A file of a folder; `path` is relative to where the walk began. It may be gone by now.
    fn file(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: &Path) -> ControlFlow<()>;
}

/// Which files are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Neither hidden ones nor those that ignore files leave out.
    Usual,
    All,
}

/// Folders that lie deeper are not seen. Each level may keep a descriptor open in each thread.
pub const MAX_DEPTH: usize = 128;

/// A thread gives away its files and folders so many at a time.
const BATCH: usize = 64;

/// Bytes of names that are read at a time of a folder inside one that is being read.
const INNER_BUFFER: usize = 4 * 1024;

/// With so much to do, nothing more is given away.
const WAITING: usize = 64;

const MAX_THREADS: usize = 8;

/// Shows all files below a folder to visitors, each thread its own, until one of them has enough or
/// nobody waits any more. Symbolic links are not followed.
pub(super) fn walk<V: Visitor>(
    place: &Place<'_>,
    which: Which,
    over: &CancellationToken,
    visitor: impl Fn() -> V + Sync,
) -> Result<(), ToolFailure> {
    let folder = Arc::new(place.folder()?);
    let from = match place.path == Path::new(".") {
        true => PathBuf::new(),
        false => place.path.clone(),
    };
    let ignored = match which {
        Which::Usual => around(place, &from),
        Which::All => None,
    };
    let first = Folder {
        open: folder,
        path: PathBuf::new(),
        ignored,
        depth: 0,
    };
    let walk = Walk {
        which,
        from,
        over,
        queue: Mutex::new(Queue {
            work: vec![Work::Read(first)],
            ..Queue::default()
        }),
        changed: Condvar::new(),
    };
    let threads =
        std::thread::available_parallelism().map_or(1, |threads| threads.get().min(MAX_THREADS));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| walk.work(visitor()));
        }
        walk.work(visitor());
    });
    Ok(())
}

/// What is to be done.
enum Work {
    /// A folder that is open.
    Read(Folder),
    /// A folder inside another.
    Open(Arc<Folder>, CString),
    /// Files of a folder.
    See(Arc<Folder>, Vec<CString>),
}

/// A folder on the way.
struct Folder {
    open: Arc<OwnedFd>,
    /// From where the walk began.
    path: PathBuf,
    ignored: Option<Arc<Ignored>>,
    depth: usize,
}

#[derive(Default)]
struct Queue {
    /// The last comes first: a tree is done in depth, so that few folders are open.
    work: Vec<Work>,
    /// Threads that may still find more.
    busy: usize,
    is_over: bool,
}

struct Walk<'w> {
    which: Which,
    /// Where the walk began, from the root: this is what patterns refer to.
    from: PathBuf,
    over: &'w CancellationToken,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// A thread that works. When it ends, as it must even by a panic, the others hear of it: nobody
/// waits for what does not come.
struct Turn<'w> {
    walk: &'w Walk<'w>,
    found: ControlFlow<(), Vec<Work>>,
}

impl Turn<'_> {
    fn end(mut self, found: ControlFlow<(), Vec<Work>>) {
        self.found = found;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.walk.queue();
        queue.busy = queue.busy.saturating_sub(1);
        match &mut self.found {
            ControlFlow::Continue(work) => queue.work.append(work),
            ControlFlow::Break(()) => queue.is_over = true,
        }
        if queue.is_over || !queue.work.is_empty() || queue.busy == 0 {
            self.walk.changed.notify_all();
        }
    }
}

impl Walk<'_> {
    fn work(&self, mut visitor: impl Visitor) {
        let mut buffer = Vec::with_capacity(32 * 1024);
        while let Some((work, turn)) = self.take() {
            let found = match work {
                Work::Read(folder) => self.read(folder, &mut visitor, &mut buffer),
                Work::Open(outer, name) => match open(&outer, &name) {
                    Some(folder) => self.read(folder, &mut visitor, &mut buffer),
                    None => ControlFlow::Continue(Vec::new()),
                },
                Work::See(folder, names) => {
                    see(&folder, &names, &mut visitor).map_continue(|()| Vec::new())
                }
            };
            turn.end(found);
        }
    }

    /// The next work; nothing when all is done.
    fn take(&self) -> Option<(Work, Turn<'_>)> {
        let mut queue = self.queue();
        loop {
            if queue.is_over || self.over.is_cancelled() {
                return None;
            }
            if let Some(work) = queue.work.pop() {
                queue.busy = queue.busy.saturating_add(1);
                let found = ControlFlow::Break(());
                return Some((work, Turn { walk: self, found }));
            }
            if queue.busy == 0 {
                return None;
            }
            let woken = self.changed.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a folder; sees its files, or gives them away if they are many. Of a folder with very many
    /// files or folders only some names are in memory at a time: when the others have enough to do, its
    /// folders are read before it is read on.
    fn read(
        &self,
        mut folder: Folder,
        visitor: &mut impl Visitor,
        buffer: &mut Vec<u8>,
    ) -> ControlFlow<(), Vec<Work>> {
        if self.which == Which::Usual {
            let outer = folder.ignored.take();
            let at = self.from.join(&folder.path);
            folder.ignored = Ignored::read(folder.open.as_fd(), &at, NAMES, outer);
        }
        let folder = Arc::new(folder);
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        let mut path = self.from.join(&folder.path);
        buffer.clear();
        let mut entries = RawDir::new(&*folder.open, spare(buffer));
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name();
            let is_dots = [c".", c".."].contains(&name);
            let is_hidden = name.to_bytes().first() == Some(&b'.');
            if is_dots || (is_hidden && self.which == Which::Usual) {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown
                && let Ok(stat) = stat_in(&folder.open, name)
            {
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            let is_folder = kind == FileType::Directory && folder.depth < MAX_DEPTH;
            if !is_folder && kind != FileType::RegularFile {
                continue;
            }
            if let Some(ignored) = &folder.ignored {
                path.push(OsStr::from_bytes(name.to_bytes()));
                let is_left_out = ignored.has(&path, is_folder);
                path.pop();
                if is_left_out {
                    continue;
                }
            }
            match is_folder {
                true => folders.push(name.to_owned()),
                false => files.push(name.to_owned()),
            }
            if files.len() >= BATCH {
                let work = Work::See(Arc::clone(&folder), std::mem::take(&mut files));
                self.share(vec![work], visitor)?;
            }
            if folders.len() >= BATCH {
                self.share(opened(&folder, std::mem::take(&mut folders)), visitor)?;
            }
        }
        see(&folder, &files, visitor)?;
        ControlFlow::Continue(opened(&folder, folders))
    }

    /// Gives work away, or does it if the others have enough to do.
    fn share(&self, mut work: Vec<Work>, visitor: &mut impl Visitor) -> ControlFlow<()> {
        let mut queue = self.queue();
        if queue.is_over || self.over.is_cancelled() {
            return ControlFlow::Break(());
        }
        if queue.work.len() < WAITING {
            queue.work.append(&mut work);
            self.changed.notify_all();
            return ControlFlow::Continue(());
        }
        drop(queue);
        // The last comes first, as in the queue.
        work.into_iter()
            .rev()
            .try_for_each(|work| self.finish(work, visitor))
    }

    /// Does work with all that comes of it, one level of folders inside another.
    fn finish(&self, work: Work, visitor: &mut impl Visitor) -> ControlFlow<()> {
        let folder = match work {
            Work::Read(folder) => Some(folder),
            Work::Open(outer, name) => open(&outer, &name),
            Work::See(folder, names) => return see(&folder, &names, visitor),
        };
        let Some(folder) = folder else {
            return ControlFlow::Continue(());
        };
        if self.queue().is_over || self.over.is_cancelled() {
            return ControlFlow::Break(());
        }
        let found = self.read(folder, visitor, &mut Vec::with_capacity(INNER_BUFFER));
        match found {
            ControlFlow::Continue(work) => work
                .into_iter()
                .rev()
                .try_for_each(|work| self.finish(work, visitor)),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        }
    }
}

/// Folders inside another, the first of them last: that is where the next work is taken.
fn opened(folder: &Arc<Folder>, names: Vec<CString>) -> Vec<Work> {
    let open = |name| Work::Open(Arc::clone(folder), name);
    names.into_iter().rev().map(open).collect()
}

fn see(folder: &Folder, names: &[CString], visitor: &mut impl Visitor) -> ControlFlow<()> {
    let mut path = folder.path.clone();
    for name in names {
        path.push(OsStr::from_bytes(name.to_bytes()));
        visitor.file(folder.open.as_fd(), name, &path)?;
        path.pop();
    }
    ControlFlow::Continue(())
}

/// Opens a folder inside another, if it still is one.
fn open(outer: &Folder, name: &CStr) -> Option<Folder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = rustix::fs::openat(&outer.open, name, flags, Mode::empty()).ok()?;
    Some(Folder {
        open: Arc::new(open),
        path: outer.path.join(OsStr::from_bytes(name.to_bytes())),
        ignored: outer.ignored.clone(),
        depth: outer.depth.saturating_add(1),
    })
}

/// The patterns of the folders between the root and where the walk begins.
fn around(place: &Place<'_>, from: &Path) -> Option<Arc<Ignored>> {
    let mut ignored = None;
    let mut outer: Vec<&Path> = from.ancestors().skip(1).collect();
    outer.reverse();
    for path in outer {
        let folder = place.root.place(path).folder().ok()?;
        ignored = Ignored::read(folder.as_fd(), path, NAMES, ignored);
    }
    ignored
}

fn spare(buffer: &mut Vec<u8>) -> &mut [MaybeUninit<u8>] {
    buffer.spare_capacity_mut()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Notes the files it sees, and how much waits meanwhile.
    struct Noting<'w> {
        walk: &'w Walk<'w>,
        seen: &'w Mutex<(BTreeSet<PathBuf>, usize)>,
    }

    impl Visitor for Noting<'_> {
        fn file(&mut self, _: BorrowedFd<'_>, _: &CStr, path: &Path) -> ControlFlow<()> {
            let waiting = self.walk.queue().work.len();
            let (paths, most) = &mut *self.seen.lock().unwrap();
            paths.insert(path.to_owned());
            *most = waiting.max(*most);
            ControlFlow::Continue(())
        }
    }

    /// The files below a folder, and how much work waited at most, with so many threads.
    fn walked(folder: &Path, threads: usize) -> (BTreeSet<PathBuf>, usize) {
        let over = CancellationToken::new();
        let first = Folder {
            open: Arc::new(fs::File::open(folder).unwrap().into()),
            path: PathBuf::new(),
            ignored: None,
            depth: 0,
        };
        let walk = Walk {
            which: Which::All,
            from: PathBuf::new(),
            over: &over,
            queue: Mutex::new(Queue {
                work: vec![Work::Read(first)],
                ..Queue::default()
            }),
            changed: Condvar::new(),
        };
        let seen = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (walk, seen) = (&walk, &seen);
                scope.spawn(move || walk.work(Noting { walk, seen }));
            }
        });
        seen.into_inner().unwrap()
    }

    #[test]
    fn of_many_folders_in_one_only_some_wait() {
        // As many as are given away at once, and many more.
        for count in [WAITING + BATCH, 5 * (WAITING + BATCH)] {
            let folder = tempfile::tempdir().unwrap();
            let mut expected = BTreeSet::new();
            for number in 0..count {
                let path = PathBuf::from(number.to_string());
                fs::create_dir(folder.path().join(&path)).unwrap();
                fs::write(folder.path().join(&path).join("f"), "").unwrap();
                expected.insert(path.join("f"));
            }
            for threads in [1, 4] {
                let (seen, most) = walked(folder.path(), threads);
                assert_eq!(seen, expected);
                let bound = WAITING + (threads + 1) * BATCH;
                assert!(most <= bound, "{most} of {count} folders waited");
            }
        }
    }

    #[test]
    fn folders_inside_of_many_folders_are_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::new();
        for number in 0..2 * (WAITING + BATCH) {
            let path = PathBuf::from(format!("{number}/a/b"));
            fs::create_dir_all(folder.path().join(&path)).unwrap();
            fs::write(folder.path().join(&path).join("f"), "").unwrap();
            expected.insert(path.join("f"));
        }
        for threads in [1, 4] {
            assert_eq!(walked(folder.path(), threads).0, expected);
        }
    }
}
