//! seccomp: which system calls there are for a command.
//!
//! The list says what is allowed, so a call that a newer kernel adds is not. What is left out:
//! namespaces and mounts, tracing and looking into others, kernel keys and modules, BPF, io_uring
//! (which makes sockets without a call), file handles, clocks, accounting, and 32-bit calls.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::Network;
use crate::settings::MemoryLevel;

/// Restricts this thread and all that comes of it.
pub(super) fn restrict(network: Network, memory: MemoryLevel) -> Result<(), Error> {
    apply_filter(&allowed(network, memory)?)?;
    apply_filter(&unknown()?)
}

type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Everything but the list is refused.
fn allowed(network: Network, memory: MemoryLevel) -> Result<BpfProgram, Error> {
    let mut rules: Rules = CALLS
        .iter()
        .chain(OLDER)
        .map(|call| (*call, Vec::new()))
        .collect();
    // Processes, but no namespaces.
    let namespaces = u64::from(NAMESPACES.cast_unsigned());
    let clone = condition(0, SeccompCmpOp::MaskedEq(namespaces), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![clone])?]);
    // Its answer is below.
    rules.insert(libc::SYS_clone3, Vec::new());
    // No typing into a terminal in somebody's name.
    let typing =
        [libc::TIOCSTI, libc::TIOCLINUX].map(|request| condition(1, SeccompCmpOp::Ne, request));
    let typing = typing.into_iter().collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(typing)?]);
    rules.insert(libc::SYS_personality, any(0, &[0, 0xffff_ffff])?);
    let pair = u64::from(libc::AF_UNIX.cast_unsigned());
    rules.insert(libc::SYS_socketpair, any(0, &[pair])?);
    sockets(network, &mut rules)?;
    shared_memory(memory, &mut rules)?;
    compile(rules, SeccompAction::Errno(EPERM), SeccompAction::Allow)
}

/// Which families of sockets can be made. Never Unix sockets, with which one could reach what the
/// profile shows but others serve; pairs of them are always possible.
fn sockets(network: Network, rules: &mut Rules) -> Result<(), Error> {
    if network == Network::None {
        return Ok(());
    }
    let [ip, ip6, netlink] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        .map(|family| u64::from(family.cast_unsigned()));
    let mut some = Vec::new();
    for family in [ip, ip6] {
        let plain = [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(|kind| {
            let kind = u64::from(kind.cast_unsigned());
            // The rest of the argument is flags.
            SeccompRule::new(vec![
                condition(0, SeccompCmpOp::Eq, family)?,
                condition(1, SeccompCmpOp::MaskedEq(0xf), kind)?,
            ])
        });
        some.extend(plain.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    // Asking which addresses there are, as resolvers do.
    some.push(SeccompRule::new(vec![
        condition(0, SeccompCmpOp::Eq, netlink)?,
        condition(2, SeccompCmpOp::Eq, 0)?,
    ])?);
    rules.insert(libc::SYS_socket, some);
    Ok(())
}

/// Memory that no process owns is only for trees that are counted as a whole.
fn shared_memory(memory: MemoryLevel, rules: &mut Rules) -> Result<(), Error> {
    match memory {
        MemoryLevel::Tree => {
            for call in [
                libc::SYS_mmap,
                libc::SYS_memfd_create,
                libc::SYS_shmget,
                libc::SYS_shmat,
                libc::SYS_shmctl,
                libc::SYS_shmdt,
            ] {
                rules.insert(call, Vec::new());
            }
        }
        MemoryLevel::Process => {
            let anonymous = u64::from(libc::MAP_ANONYMOUS.cast_unsigned());
            let shared = u64::from(libc::MAP_SHARED.cast_unsigned());
            // Of a file, or of its own.
            rules.insert(
                libc::SYS_mmap,
                vec![
                    SeccompRule::new(vec![condition(3, SeccompCmpOp::MaskedEq(anonymous), 0)?])?,
                    SeccompRule::new(vec![condition(3, SeccompCmpOp::MaskedEq(shared), 0)?])?,
                ],
            );
        }
    }
    Ok(())
}

/// Calls that programs take for missing rather than forbidden. The flags of `clone3` cannot be seen
/// from here; without it programs use `clone`.
fn unknown() -> Result<BpfProgram, Error> {
    let rules = Rules::from([(libc::SYS_clone3, Vec::new())]);
    compile(rules, SeccompAction::Allow, SeccompAction::Errno(ENOSYS))
}

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    action: SeccompAction,
) -> Result<BpfProgram, Error> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, otherwise, action, machine)?.try_into()?)
}

/// An argument that is one of these.
fn any(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, Error> {
    let rules = values.iter().map(|value| {
        let condition = condition(argument, SeccompCmpOp::Eq, *value)?;
        Ok(SeccompRule::new(vec![condition])?)
    });
    rules.collect()
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

const EPERM: u32 = libc::EPERM.cast_unsigned();
const ENOSYS: u32 = libc::ENOSYS.cast_unsigned();

/// Flags of `clone` that make a namespace.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWTIME;

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
