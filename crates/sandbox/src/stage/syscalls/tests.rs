use super::super::filter::tests::{Call, run};
use super::*;

const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

fn told(filter: &BpfProgram, call: libc::c_long, arguments: [i32; 4]) -> u32 {
    let [a, b, c, d] = arguments.map(i32::cast_unsigned);
    let call = Call {
        machine: MACHINE,
        number: u32::try_from(call).unwrap(),
        arguments: [a, b, c, d, 0, 0],
    };
    run(filter, call).0
}

#[test]
fn only_what_is_listed_can_be_called() {
    let filter = filter(Network::None, MemoryLevel::Process);
    let by_arguments = [
        libc::SYS_clone,
        libc::SYS_ioctl,
        libc::SYS_mmap,
        libc::SYS_personality,
        libc::SYS_socketpair,
    ];
    for number in 0..600 {
        let expected = match number {
            libc::SYS_clone3 => libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
            _ if by_arguments.contains(&number) => continue,
            _ if CALLS.contains(&number) || OLDER.contains(&number) => ALLOWED,
            _ => REFUSED,
        };
        assert_eq!(told(&filter, number, [0; 4]), expected, "{number}");
    }
    // The calls of x32 have a bit of their own.
    assert_eq!(told(&filter, 0x4000_0000 | libc::SYS_read, [0; 4]), REFUSED);
}

const OWN: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const NOBODYS: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
const STREAM: i32 = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
const AUDIT: i32 = libc::NETLINK_AUDIT;

/// Calls that their arguments decide about: with no network and memory counted by process, and with a
/// network and memory counted by tree.
#[rustfmt::skip]
const DECIDED: &[(libc::c_long, [i32; 4], u32, u32)] = &[
    (libc::SYS_mmap, [0, 0, 0, OWN], ALLOWED, ALLOWED),
    (libc::SYS_mmap, [0, 0, 0, NOBODYS], REFUSED, ALLOWED),
    (libc::SYS_mmap, [0, 0, 0, libc::MAP_SHARED], ALLOWED, ALLOWED),
    (libc::SYS_mmap, [0, 0, 0, OWN | libc::MAP_GROWSDOWN], REFUSED, ALLOWED),
    (libc::SYS_memfd_create, [0; 4], REFUSED, ALLOWED),
    (libc::SYS_clone, [libc::SIGCHLD, 0, 0, 0], ALLOWED, ALLOWED),
    (libc::SYS_clone, [libc::CLONE_NEWUSER, 0, 0, 0], REFUSED, REFUSED),
    (libc::SYS_ioctl, [0; 4], ALLOWED, ALLOWED),
    (libc::SYS_ioctl, [0, libc::TIOCSTI as i32, 0, 0], REFUSED, REFUSED),
    (libc::SYS_ioctl, [0, libc::TIOCLINUX as i32, 0, 0], REFUSED, REFUSED),
    (libc::SYS_personality, [0; 4], ALLOWED, ALLOWED),
    (libc::SYS_personality, [-1, 0, 0, 0], ALLOWED, ALLOWED),
    (libc::SYS_personality, [8, 0, 0, 0], REFUSED, REFUSED),
    (libc::SYS_socketpair, [libc::AF_UNIX, STREAM, 0, 0], ALLOWED, ALLOWED),
    (libc::SYS_socketpair, [libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, 0], ALLOWED, ALLOWED),
    (libc::SYS_socketpair, [libc::AF_UNIX, libc::SOCK_DGRAM, 0, 0], REFUSED, REFUSED),
    (libc::SYS_socketpair, [libc::AF_INET, 0, 0, 0], REFUSED, REFUSED),
    (libc::SYS_socket, [libc::AF_INET, STREAM, 0, 0], REFUSED, ALLOWED),
    (libc::SYS_socket, [libc::AF_INET6, libc::SOCK_DGRAM, 0, 0], REFUSED, ALLOWED),
    (libc::SYS_socket, [libc::AF_INET, libc::SOCK_RAW, 0, 0], REFUSED, REFUSED),
    (libc::SYS_socket, [libc::AF_UNIX, STREAM, 0, 0], REFUSED, REFUSED),
    (libc::SYS_socket, [libc::AF_NETLINK, 0, 0, 0], REFUSED, ALLOWED),
    (libc::SYS_socket, [libc::AF_NETLINK, 0, AUDIT, 0], REFUSED, REFUSED),
];

#[test]
fn arguments_decide_about_some() {
    let none = filter(Network::None, MemoryLevel::Process);
    let some = filter(Network::Loopback, MemoryLevel::Tree);
    for (call, arguments, of_none, of_some) in DECIDED {
        let case = format!("{call} {arguments:?}");
        assert_eq!(told(&none, *call, *arguments), *of_none, "{case}");
        assert_eq!(told(&some, *call, *arguments), *of_some, "{case}");
    }
}

/// Its length is paid for at every start of a command, and its depth at some of its calls.
#[test]
fn the_filter_is_short_and_flat() {
    let filter = filter(Network::All, MemoryLevel::Process);
    assert!(filter.len() < 240, "{}", filter.len());
    for number in 0..600 {
        let call = Call {
            machine: MACHINE,
            number,
            arguments: [0; 6],
        };
        let steps = run(&filter, call).1;
        assert!(steps < 32, "{number}: {steps}");
    }
}
