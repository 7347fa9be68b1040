//! How components open files.
//!
//! The engine opens whatever a path leads to. A pipe or a device can make that wait for good, and
//! with it one of the threads that there are for such work. Here the path is resolved first, without
//! opening anything; what it led to is looked at, and that same thing is opened, whatever has the
//! path by then.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use rustix::io::Errno;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::OpenMode;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as OpenFile};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::runtime::spawn_blocking;

use super::host::Host;

/// The interface, in the version that the engine has; others of 0.2 are taken for it.
const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// How often a path is looked at again that was changed meanwhile.
const RACES: u32 = 64;

const CONFINED: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// What a component asks to be opened.
struct Asked {
    path: String,
    follow: PathFlags,
    how: OpenFlags,
    mode: OpenMode,
}

/// Puts these functions in the place of the engine's.
pub(super) fn shadow(linker: &mut Linker<Host>) -> Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, Host>, (folder, follow, path, how, flags): OpenAt| {
            Box::new(async move {
                let host = store.data_mut();
                let opened = match folder_of(host, &folder)? {
                    Ok(folder) => open_at(folder, follow, path, how, flags).await,
                    Err(code) => Err(code),
                };
                // A table that is full ends the component, as everywhere in WASI.
                Ok((match opened {
                    Ok(it) => Ok(host.table.push(it)?),
                    Err(code) => Err(code),
                },))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-times-at",
        |store: StoreContextMut<'_, Host>, (folder, follow, path, read, written): SetTimesAt| {
            Box::new(async move {
                let done = match folder_of(store.data(), &folder)? {
                    Ok(folder) => set_times_at(folder, follow, path, read, written).await,
                    Err(code) => Err(code),
                };
                Ok((done,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

type OpenAt = (
    Resource<Descriptor>,
    PathFlags,
    String,
    OpenFlags,
    DescriptorFlags,
);

type SetTimesAt = (
    Resource<Descriptor>,
    PathFlags,
    String,
    NewTimestamp,
    NewTimestamp,
);

fn folder_of(host: &Host, handle: &Resource<Descriptor>) -> Result<Result<Dir, ErrorCode>> {
    Ok(match host.table.get(handle)? {
        Descriptor::Dir(folder) => Ok(folder.clone()),
        Descriptor::File(_) => Err(ErrorCode::NotDirectory),
    })
}

async fn open_at(
    folder: Dir,
    follow: PathFlags,
    path: String,
    how: OpenFlags,
    flags: DescriptorFlags,
) -> Result<Descriptor, ErrorCode> {
    let changes = OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let mut mode = OpenMode::empty();
    mode.set(
        OpenMode::WRITE,
        how.intersects(changes) || flags.contains(DescriptorFlags::WRITE),
    );
    // Something is always asked for; what may be done with it is looked at when it is done.
    mode.set(
        OpenMode::READ,
        flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE),
    );
    let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synchronous) {
        return Err(ErrorCode::Unsupported);
    }
    if how.contains(OpenFlags::DIRECTORY) && how.intersects(changes | OpenFlags::EXCLUSIVE) {
        return Err(ErrorCode::Invalid);
    }
    if folder.perms.write_not_permitted() && mode.contains(OpenMode::WRITE) {
        return Err(ErrorCode::NotPermitted);
    }
    let asked = Asked {
        path,
        follow,
        how,
        mode,
    };
    let (below, perms) = (folder.dir, folder.perms);
    let opened = spawn_blocking(move || asked.open(&below)).await;
    let (file, kind) = opened.map_err(code)?;
    Ok(match kind == FileType::Directory {
        true => Descriptor::Dir(Dir::new(file, perms, mode, false)),
        false => Descriptor::File(OpenFile::new(file, perms, mode, false)),
    })
}

impl Asked {
    fn open(&self, below: &File) -> rustix::io::Result<(File, FileType)> {
        let may_be_there = !self.how.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE);
        for _ in 0..RACES {
            if may_be_there {
                match found(below, &self.path, self.follow) {
                    Err(Errno::NOENT) if self.how.contains(OpenFlags::CREATE) => {}
                    found => return self.reopen(found?),
                }
            }
            match self.make(below) {
                // Somebody else made it, or it is a link that leads nowhere.
                Err(Errno::EXIST) if may_be_there => {}
                made => return Ok((made?, FileType::RegularFile)),
            }
        }
        Err(Errno::EXIST)
    }

    /// Opens what was found, unless that is something that could be waited for.
    fn reopen(&self, (found, kind): (OwnedFd, FileType)) -> rustix::io::Result<(File, FileType)> {
        if kind != FileType::Directory && self.how.contains(OpenFlags::DIRECTORY) {
            return Err(Errno::NOTDIR);
        }
        let mut flags = self.flags();
        flags.set(OFlags::TRUNC, self.how.contains(OpenFlags::TRUNCATE));
        let file = rustix::fs::open(itself(&found), flags, Mode::empty())?;
        Ok((file.into(), kind))
    }

    /// Makes a file that is not there.
    fn make(&self, below: &File) -> rustix::io::Result<File> {
        let flags = self.flags() | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o666);
        Ok(beneath(below, &self.path, flags, mode)?.into())
    }

    fn flags(&self) -> OFlags {
        let access = match (
            self.mode.contains(OpenMode::READ),
            self.mode.contains(OpenMode::WRITE),
        ) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        // A file that somebody has a lease of is not waited for either.
        access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK
    }
}

async fn set_times_at(
    folder: Dir,
    follow: PathFlags,
    path: String,
    read: NewTimestamp,
    written: NewTimestamp,
) -> Result<(), ErrorCode> {
    if folder.perms.write_not_permitted() {
        return Err(ErrorCode::NotPermitted);
    }
    let times = Timestamps {
        last_access: timestamp(read)?,
        last_modification: timestamp(written)?,
    };
    let below = folder.dir;
    let set = spawn_blocking(move || {
        if follow.contains(PathFlags::SYMLINK_FOLLOW) {
            let (found, _) = found(&below, &path, follow)?;
            return rustix::fs::utimensat(CWD, itself(&found), &times, AtFlags::empty());
        }
        // Of a link its own; it cannot be reached by a descriptor, so its folder is held.
        let (above, name) = path.rsplit_once('/').unwrap_or((".", &path));
        let above = beneath(
            &below,
            above,
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
        )?;
        if matches!(name, "" | "." | "..") {
            return Err(Errno::INVAL);
        }
        rustix::fs::utimensat(above, name, &times, AtFlags::SYMLINK_NOFOLLOW)
    });
    set.await.map_err(code)
}

fn timestamp(asked: NewTimestamp) -> Result<Timespec, ErrorCode> {
    let whole = |seconds: u64| i64::try_from(seconds).map_err(|_| ErrorCode::Overflow);
    Ok(match asked {
        NewTimestamp::NoChange => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        NewTimestamp::Now => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
        NewTimestamp::Timestamp(time) => Timespec {
            tv_sec: whole(time.seconds)?,
            tv_nsec: i64::from(time.nanoseconds),
        },
    })
}

/// What a path leads to, without opening it, if that is a regular file or a folder.
fn found(below: &File, path: &str, follow: PathFlags) -> rustix::io::Result<(OwnedFd, FileType)> {
    let mut flags = OFlags::PATH;
    flags.set(
        OFlags::NOFOLLOW,
        !follow.contains(PathFlags::SYMLINK_FOLLOW),
    );
    let found = beneath(below, path, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
    match kind {
        FileType::RegularFile | FileType::Directory => Ok((found, kind)),
        FileType::Symlink => Err(Errno::LOOP),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(Errno::OPNOTSUPP),
    }
}

/// Opens something that lies below a folder.
fn beneath(below: &File, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..RACES {
        match rustix::fs::openat2(below, path, flags, mode, CONFINED) {
            // Something was renamed on the way.
            Err(Errno::AGAIN) => {}
            // It leads out of the folder.
            Err(Errno::XDEV) => return Err(Errno::PERM),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// A path that leads to what is held, and to nothing else.
fn itself(held: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

fn code(why: Errno) -> ErrorCode {
    match why {
        // It is held by somebody, or changes too often.
        Errno::AGAIN => ErrorCode::Busy,
        why => std::io::Error::from(why).into(),
    }
}
