//! seccomp: which system calls there are for a command.
//!
//! The list says what is allowed, so a call that a newer kernel adds is not. What is left out:
//! namespaces and mounts, tracing and looking into others, kernel keys and modules, BPF, io_uring
//! (which makes sockets without a call), file handles, clocks, accounting, and 32-bit calls.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{BpfProgram, Error, apply_filter};

use super::filter::{Answer, Test, compile};
use crate::Network;
use crate::settings::MemoryLevel;

/// The filters for the networks that a command may turn out to have.
#[derive(Debug)]
pub(super) struct Filters {
    without_sockets: BpfProgram,
    with_sockets: BpfProgram,
}

impl Filters {
    pub(super) fn compile(memory: MemoryLevel) -> Self {
        Self {
            without_sockets: filter(Network::None, memory),
            with_sockets: filter(Network::All, memory),
        }
    }

    /// Restricts this thread and all that comes of it.
    pub(super) fn restrict(&self, network: Network) -> Result<(), Error> {
        apply_filter(match network {
            Network::None => &self.without_sockets,
            Network::Loopback | Network::All => &self.with_sockets,
        })
    }
}

/// Everything but the list is refused.
fn filter(network: Network, memory: MemoryLevel) -> BpfProgram {
    let mut answers: BTreeMap<u32, Answer> = BTreeMap::new();
    let mut set = |call: libc::c_long, answer: Answer| {
        // A number that this machine does not have is none that could be called.
        if let Ok(number) = u32::try_from(call) {
            answers.insert(number, answer);
        }
    };
    for call in CALLS.iter().chain(OLDER) {
        set(*call, Answer::Allow);
    }
    // Processes, but no namespaces.
    set(libc::SYS_clone, when(&[&[Test::bits(0, NAMESPACES, 0)]]));
    // Its flags cannot be seen from here. Programs take it for missing, and use `clone`.
    set(libc::SYS_clone3, Answer::Fail(libc::ENOSYS.cast_unsigned()));
    set(libc::SYS_ioctl, when(&[TYPING]));
    set(
        libc::SYS_personality,
        when(&[&[Test::is(0, 0)], &[Test::is(0, u32::MAX)]]),
    );
    // Not of datagrams: one end of those can send to any path it sees.
    let pairs = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
    let pairs = pairs.map(|kind| [Test::is(0, UNIX), Test::bits(1, 0xf, kind.cast_unsigned())]);
    set(
        libc::SYS_socketpair,
        Answer::When(pairs.map(Vec::from).to_vec()),
    );
    if network != Network::None {
        set(libc::SYS_socket, sockets());
    }
    match memory {
        MemoryLevel::Tree => {
            for call in SHARED {
                set(*call, Answer::Allow);
            }
        }
        // Memory that no process owns is only for trees that are counted as a whole: a mapping is of
        // a file, or of its own. What grows downwards counts as stack, which is limited apart.
        MemoryLevel::Process => set(
            libc::SYS_mmap,
            when(&[
                &[Test::bits(
                    3,
                    (libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN).cast_unsigned(),
                    0,
                )],
                &[Test::bits(
                    3,
                    (libc::MAP_SHARED | libc::MAP_GROWSDOWN).cast_unsigned(),
                    0,
                )],
            ]),
        ),
    }
    compile(MACHINE, &answers)
}

/// Which families of sockets can be made. Never Unix sockets, with which one could reach what the
/// profile shows but others serve; pairs of them are always possible.
fn sockets() -> Answer {
    let mut some = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            some.push(vec![
                Test::is(0, family.cast_unsigned()),
                // The rest of the argument is flags.
                Test::bits(1, 0xf, kind.cast_unsigned()),
            ]);
        }
    }
    // Asking which addresses there are, as resolvers do.
    some.push(vec![
        Test::is(0, libc::AF_NETLINK.cast_unsigned()),
        Test::is(2, 0),
    ]);
    Answer::When(some)
}

fn when(lists: &[&[Test]]) -> Answer {
    Answer::When(lists.iter().map(|tests| tests.to_vec()).collect())
}

/// The machine whose calls are meant, by its name in `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const MACHINE: u32 = 0xc000_00f3;

const UNIX: u32 = libc::AF_UNIX.cast_unsigned();

/// No typing into a terminal in somebody's name. The numbers are small enough on every machine.
const TYPING: &[Test] = &[
    Test::is_not(1, libc::TIOCSTI as u32),
    Test::is_not(1, libc::TIOCLINUX as u32),
];

/// What makes memory that no process owns.
const SHARED: &[libc::c_long] = &[
    libc::SYS_mmap,
    libc::SYS_memfd_create,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
];

/// Flags of `clone` that make a namespace.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWTIME)
    .cast_unsigned();

/// What every command may call, whatever its arguments.
#[rustfmt::skip]
const CALLS: &[libc::c_long] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget,
    libc::SYS_capset, libc::SYS_chdir, libc::SYS_clock_getres, libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep, libc::SYS_close, libc::SYS_close_range, libc::SYS_connect,
    libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64, libc::SYS_fallocate,
    libc::SYS_fchdir, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchmodat2, libc::SYS_fchown,
    libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_fgetxattr,
    libc::SYS_flistxattr, libc::SYS_flock, libc::SYS_fremovexattr, libc::SYS_fsetxattr,
    libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_futex,
    libc::SYS_futex_waitv, libc::SYS_get_robust_list, libc::SYS_getcpu, libc::SYS_getcwd,
    libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getgroups, libc::SYS_getitimer, libc::SYS_getpeername, libc::SYS_getpgid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpriority, libc::SYS_getrandom,
    libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrlimit, libc::SYS_getrusage,
    libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid,
    libc::SYS_gettimeofday, libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_ioprio_get,
    libc::SYS_ioprio_set, libc::SYS_kill, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_lgetxattr,
    libc::SYS_linkat, libc::SYS_listen, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_lremovexattr, libc::SYS_lseek, libc::SYS_lsetxattr, libc::SYS_madvise,
    libc::SYS_membarrier, libc::SYS_mincore, libc::SYS_mkdirat, libc::SYS_mknodat,
    libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_mprotect, libc::SYS_mremap,
    libc::SYS_msync, libc::SYS_munlock, libc::SYS_munlockall, libc::SYS_munmap,
    libc::SYS_nanosleep, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2,
    libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_pipe2, libc::SYS_pkey_alloc,
    libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_ppoll, libc::SYS_prctl,
    libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_prlimit64,
    libc::SYS_pselect6, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read,
    libc::SYS_readahead, libc::SYS_readlinkat, libc::SYS_readv, libc::SYS_recvfrom,
    libc::SYS_recvmmsg, libc::SYS_recvmsg, libc::SYS_removexattr, libc::SYS_renameat,
    libc::SYS_renameat2, libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity, libc::SYS_sched_getattr,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler, libc::SYS_sched_yield, libc::SYS_seccomp, libc::SYS_semctl,
    libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_sendfile,
    libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_set_robust_list,
    libc::SYS_set_tid_address, libc::SYS_setfsgid, libc::SYS_setfsuid, libc::SYS_setgid,
    libc::SYS_setgroups, libc::SYS_setitimer, libc::SYS_setpgid, libc::SYS_setpriority,
    libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setresuid, libc::SYS_setreuid,
    libc::SYS_setrlimit, libc::SYS_setsid, libc::SYS_setsockopt, libc::SYS_setuid,
    libc::SYS_setxattr, libc::SYS_shutdown, libc::SYS_sigaltstack, libc::SYS_signalfd4,
    libc::SYS_splice, libc::SYS_statfs, libc::SYS_statx, libc::SYS_symlinkat, libc::SYS_sync,
    libc::SYS_sync_file_range, libc::SYS_syncfs, libc::SYS_sysinfo, libc::SYS_tee,
    libc::SYS_tgkill, libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime, libc::SYS_timer_settime, libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime, libc::SYS_times, libc::SYS_tkill,
    libc::SYS_truncate, libc::SYS_umask, libc::SYS_uname, libc::SYS_unlinkat, libc::SYS_utimensat,
    libc::SYS_vmsplice, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write, libc::SYS_writev,
];

/// Older forms of them, which newer machines never had.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access, libc::SYS_alarm, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown,
    libc::SYS_creat, libc::SYS_dup2, libc::SYS_epoll_create, libc::SYS_epoll_wait,
    libc::SYS_eventfd, libc::SYS_fork, libc::SYS_futimesat, libc::SYS_get_thread_area,
    libc::SYS_getdents, libc::SYS_getpgrp, libc::SYS_inotify_init, libc::SYS_lchown,
    libc::SYS_link, libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_mknod, libc::SYS_open,
    libc::SYS_pause, libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink, libc::SYS_rename,
    libc::SYS_rmdir, libc::SYS_select, libc::SYS_set_thread_area, libc::SYS_signalfd,
    libc::SYS_stat, libc::SYS_symlink, libc::SYS_time, libc::SYS_unlink, libc::SYS_utime,
    libc::SYS_utimes, libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

#[cfg(test)]
mod tests;
