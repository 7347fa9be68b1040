//! The file tree of the command: an empty one, with what the profile names put into it.

mod host;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, open, openat2, statx, symlink,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root, umask};

use self::host::HostMounts;
use super::{Failure, missing};
use crate::Guard;
use crate::plan::{Confinement, Ground, Kind, Mount};
use crate::settings::MemoryLevel;

/// Where the new tree is built: a folder that every system has. What it hides comes back when the
/// trees change places.
const SITE: &str = "/tmp";
/// Where the tree of the host is while the new one is built.
const OLD: &str = "/.host";
/// Devices that hold nothing of anyone.
const DEVICES: [&str; 4] = ["null", "full", "random", "urandom"];
/// Files and folders of `/proc` that describe the kernel, its keys and the machine, some of them to users
/// without any rights. Programs do not need them.
const MASKED_FILES: [&str; 22] = [
    "cmdline",
    "config.gz",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "modules",
    "mtrr",
    "pagetypeinfo",
    "sched_debug",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
];
const MASKED_FOLDERS: [&str; 7] = ["acpi", "asound", "bus", "driver", "fs", "irq", "scsi"];
/// What holds for everything that is mounted.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// One file for so many bytes of `/tmp`; each takes some of the kernel's memory.
const BYTES_PER_FILE: u64 = 4096;

/// Begins the tree, with what is in it for every command. What the host has is returned.
pub(super) fn begin(ground: &Ground) -> Result<OwnedFd, Failure> {
    lay(ground).map_err(missing(Guard::MountNamespace))
}

/// Puts into the tree what is there for one command, and lets go of the host's.
pub(super) fn finish(
    host: OwnedFd,
    confinement: &Confinement,
    terminal: bool,
) -> Result<(), Failure> {
    assemble(&host, confinement, terminal).map_err(missing(Guard::MountNamespace))
}

fn lay(ground: &Ground) -> Result<OwnedFd, String> {
    umask(Mode::from_raw_mode(0o022));
    // Nothing mounted from here on is seen by the host.
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(at("/"))?;
    mount("sandbox", SITE, "tmpfs", PLAIN, c"size=1m,mode=755").map_err(at("root"))?;
    chdir(SITE).map_err(at(SITE))?;
    folder(Path::new(&OLD[1..])).map_err(|why| why.to_string())?;
    pivot_root(".", &OLD[1..]).map_err(at("pivot_root"))?;
    chdir("/").map_err(at("/"))?;
    let old = open(
        OLD,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(at(OLD))?;
    folder(Path::new("/proc")).map_err(|why| why.to_string())?;
    mount("proc", "/proc", "proc", PLAIN | MountFlags::NOEXEC, None).map_err(at("/proc"))?;
    mask(&old).map_err(|why| format!("/proc: {why}"))?;
    devices(&old, ground.memory).map_err(|why| format!("/dev: {why}"))?;
    Ok(old)
}

fn assemble(old: &OwnedFd, confinement: &Confinement, terminal: bool) -> Result<(), String> {
    temporary(confinement.limits.tmp_bytes).map_err(at("/tmp"))?;
    if terminal {
        device(old, "tty", "tty").map_err(|why| format!("/dev/tty: {why}"))?;
    }
    let mounts = HostMounts::read(OLD).map_err(|why| format!("mountinfo: {why}"))?;
    for one in &confinement.mounts {
        put(old, &mounts, one)?;
    }
    unmount(OLD, UnmountFlags::DETACH).map_err(at("unmount"))?;
    std::fs::remove_dir(OLD).map_err(|why| why.to_string())?;
    let whole = PLAIN | MountFlags::BIND | MountFlags::RDONLY;
    mount_remount("/", whole, "").map_err(at("/"))
}

fn at(what: &'static str) -> impl FnOnce(Errno) -> String {
    move |why| format!("{what}: {why}")
}

/// Hides these files and folders of `/proc`.
fn mask(old: &OwnedFd) -> io::Result<()> {
    let kinds = [
        (MASKED_FILES.as_slice(), Kind::File),
        (&MASKED_FOLDERS, Kind::Folder),
    ];
    for (names, kind) in kinds {
        for name in names {
            hide(old, &Path::new("/proc").join(name), kind)?;
        }
    }
    Ok(())
}

/// The one place that everybody may write to, of a fixed size.
fn temporary(bytes: u64) -> rustix::io::Result<()> {
    let files = (bytes / BYTES_PER_FILE).max(64);
    let options = match bytes {
        u64::MAX => "mode=1777".to_owned(),
        _ => format!("size={bytes},nr_inodes={files},mode=1777"),
    };
    folder(Path::new("/tmp")).map_err(|_| Errno::IO)?;
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount("tmp", "/tmp", "tmpfs", PLAIN, options.as_c_str())
}

fn devices(old: &OwnedFd, memory: MemoryLevel) -> io::Result<()> {
    folder(Path::new("/dev"))?;
    // Mapping `/dev/zero` gives shared memory that no limit of a process counts. `/dev/full` reads
    // the same and cannot be mapped.
    let zero = match memory {
        MemoryLevel::Process => "full",
        MemoryLevel::Tree => "zero",
    };
    for name in DEVICES {
        device(old, name, name)?;
    }
    device(old, "zero", zero)?;
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("shm", "/tmp"),
    ] {
        symlink(target, format!("/dev/{name}"))?;
    }
    Ok(())
}

/// Puts a device of the host into the tree, under a name that may be another.
fn device(old: &OwnedFd, name: &str, source: &str) -> io::Result<()> {
    let path = format!("/dev/{name}");
    File::create(&path)?;
    let source = open_host(old, Path::new(&format!("/dev/{source}")))?;
    Ok(attach(&source, Path::new(&path))?)
}

fn put(old: &OwnedFd, mounts: &HostMounts, one: &Mount) -> Result<(), String> {
    match one {
        Mount::Bind {
            path,
            kind,
            writable,
        } => bind(old, mounts, path, *kind, *writable)
            .map_err(|why| format!("{}: {why}", path.display())),
        Mount::Link { at, to } => {
            let parent = at.parent().unwrap_or(at);
            match folder(parent).and_then(|()| Ok(symlink(to, at)?)) {
                Ok(()) => Ok(()),
                // Then it is in a folder of the host that is here, and as it is there.
                Err(_) if at.is_symlink() => Ok(()),
                Err(why) => Err(format!("{}: {why}", at.display())),
            }
        }
        Mount::Hide { path, kind } => {
            hide(old, path, *kind).map_err(|why| format!("{}: {why}", path.display()))
        }
    }
}

fn bind(
    old: &OwnedFd,
    mounts: &HostMounts,
    path: &Path,
    kind: Kind,
    writable: bool,
) -> io::Result<()> {
    if path.symlink_metadata().is_err() {
        match kind {
            Kind::Folder => folder(path)?,
            Kind::File => {
                folder(path.parent().unwrap_or(path))?;
                File::create(path)?;
            }
        }
    }
    let source = open_host(old, path)?;
    attach(&source, path)?;
    let flags = match writable {
        true => PLAIN | MountFlags::BIND,
        false => PLAIN | MountFlags::BIND | MountFlags::RDONLY,
    };
    let id = statx(&source, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id;
    // A user namespace may not take away what a mount of the host has.
    mount_remount(path, flags | mounts.flags(id), "")?;
    for below in mounts.below(id, path) {
        match mount_remount(&below.path, flags | below.flags, "") {
            // It is in a folder that this process may not enter, so the command may not either.
            Err(Errno::ACCESS) => {}
            remounted => remounted?,
        }
    }
    Ok(())
}

/// Puts what is open here.
fn attach(source: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
    let tree = open_tree(
        source.as_fd(),
        "",
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE,
    )?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree.as_fd(), "", CWD, path, flags)
}

/// What the host has at a path. One that has come to lead over a symbolic link since it was looked
/// at is refused.
fn open_host(old: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(
        old,
        path.strip_prefix("/").unwrap_or(path),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Covers what is at a path, if the command would see it.
fn hide(old: &OwnedFd, path: &Path, kind: Kind) -> io::Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    match kind {
        Kind::Folder => {
            let flags = PLAIN | MountFlags::RDONLY;
            Ok(mount("hidden", path, "tmpfs", flags, c"size=4k,mode=000")?)
        }
        Kind::File => Ok(attach(&open_host(old, Path::new("/dev/null"))?, path)?),
    }
}

fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}
