//! Network namespaces, which are lent to sandboxes one after the other.
//!
//! To make one and to take it down again costs the kernel more than anything else in a sandbox. One
//! in which no device was ever switched on and of which no socket is left is as good as a new one,
//! so the keeper, who makes them, gives it to the next. Any other is dropped.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::Pid;

/// The namespace of the thread that asks.
const HERE: &str = "/proc/thread-self/ns/net";
/// Addresses of devices that are switched on, one file for each version of the protocol.
const ADDRESSES: [&str; 2] = [
    "/proc/thread-self/net/fib_trie",
    "/proc/thread-self/net/if_inet6",
];
/// How many sockets there are, of any kind.
const SOCKETS: &str = "/proc/thread-self/net/sockstat";
/// As many are kept for later: each takes some of the kernel's memory.
const MOST: usize = 8;

/// The namespaces of one keeper.
pub(super) struct Networks {
    /// The keeper's own.
    home: File,
    idle: Vec<OwnedFd>,
    lent: Vec<(Pid, OwnedFd)>,
}

impl Networks {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            home: File::open(HERE)?,
            idle: Vec::new(),
            lent: Vec::new(),
        })
    }

    /// One that nobody uses, if this process may make them.
    ///
    /// # Errors
    /// If it could not come back from making one.
    pub(super) fn take(&mut self) -> io::Result<Option<OwnedFd>> {
        if let Some(network) = self.idle.pop() {
            return Ok(Some(network));
        }
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            return Ok(None);
        }
        let made = File::open(HERE);
        self.go_home()?;
        Ok(Some(made?.into()))
    }

    /// This process has it until it ends.
    pub(super) fn lend(&mut self, to: Pid, network: Option<OwnedFd>) {
        self.lent.extend(network.map(|network| (to, network)));
    }

    /// This process has ended; whether all that was in its sandbox has is known.
    ///
    /// # Errors
    /// If it could not come back from looking at what it had.
    pub(super) fn ended(&mut self, borrower: Pid, is_empty: bool) -> io::Result<()> {
        let Some(place) = self.lent.iter().position(|(pid, _)| *pid == borrower) else {
            return Ok(());
        };
        let (_, network) = self.lent.swap_remove(place);
        if is_empty && self.idle.len() < MOST && self.is_as_new(&network)? {
            self.idle.push(network);
        }
        Ok(())
    }

    fn is_as_new(&self, network: &OwnedFd) -> io::Result<bool> {
        if setns(network, CloneFlags::CLONE_NEWNET).is_err() {
            return Ok(false);
        }
        let as_new = looks_new();
        self.go_home()?;
        Ok(as_new)
    }

    fn go_home(&self) -> io::Result<()> {
        Ok(setns(&self.home, CloneFlags::CLONE_NEWNET)?)
    }
}

/// Whether nothing has happened yet in the namespace of this thread. What cannot be read says no.
fn looks_new() -> bool {
    let is_empty = |file: &&str| fs::read(file).is_ok_and(|text| text.is_empty());
    let sockets = fs::read_to_string(SOCKETS).unwrap_or_default();
    sockets.starts_with("sockets: used 0\n") && ADDRESSES.iter().all(is_empty)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use rustix::fs::fstat;
    use rustix::process::geteuid;

    use super::super::loopback;
    use super::*;

    const BORROWER: i32 = 7;

    /// Lends a network, does something in it, and says whether the next borrower has the same.
    fn is_lent_again<T>(act: impl FnOnce() -> T) -> bool {
        let mut networks = Networks::new().unwrap();
        let network = networks.take().unwrap().unwrap();
        // Held, so that its number is not another's.
        let copy = network.try_clone().unwrap();
        setns(&network, CloneFlags::CLONE_NEWNET).unwrap();
        let left = act();
        networks.go_home().unwrap();
        let pid = Pid::from_raw(BORROWER).unwrap();
        networks.lend(pid, Some(network));
        networks.ended(pid, true).unwrap();
        drop(left);
        let next = networks.take().unwrap().unwrap();
        assert_ne!(next.as_raw_fd(), copy.as_raw_fd());
        fstat(&next).unwrap().st_ino == fstat(&copy).unwrap().st_ino
    }

    #[test]
    fn only_what_is_as_new_is_lent_again() {
        if !geteuid().is_root() {
            return; // only root makes networks without a user namespace
        }
        assert!(is_lent_again(|| ()));
        assert!(is_lent_again(|| {
            drop(UdpSocket::bind("0.0.0.0:0").unwrap());
        }));
        let name = SocketAddr::from_abstract_name("left").unwrap();
        assert!(!is_lent_again(|| UdpSocket::bind("0.0.0.0:0").unwrap()));
        assert!(!is_lent_again(|| UnixListener::bind_addr(&name).unwrap()));
        assert!(!is_lent_again(|| loopback::up().unwrap()));
    }

    #[test]
    fn what_may_not_be_empty_is_dropped() {
        if !geteuid().is_root() {
            return; // only root makes networks without a user namespace
        }
        let mut networks = Networks::new().unwrap();
        let pid = Pid::from_raw(BORROWER).unwrap();
        let network = networks.take().unwrap();
        networks.lend(pid, network);
        networks.ended(pid, false).unwrap();
        assert!(networks.idle.is_empty() && networks.lent.is_empty());
    }

    #[test]
    fn who_has_none_gives_none_back() {
        let mut networks = Networks::new().unwrap();
        let pid = Pid::from_raw(BORROWER).unwrap();
        networks.lend(pid, None);
        networks.ended(pid, true).unwrap();
        assert!(networks.idle.is_empty() && networks.lent.is_empty());
    }
}
