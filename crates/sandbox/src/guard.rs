//! The guards, by name.

use std::fmt;

/// One thing that stands between a command and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The supervisor ends with the host, and the command with the supervisor.
    DeathSignal,
    /// No descriptor of the host reaches the command.
    Descriptors,
    /// An unprivileged host's way to the other namespaces.
    UserNamespace,
    /// The command sees and signals only its own processes, and they all end with it.
    PidNamespace,
    /// The command sees only the files of its profile.
    MountNamespace,
    /// No device but loopback, and no abstract Unix socket of others.
    NetworkNamespace,
    /// No shared memory and queues of others.
    IpcNamespace,
    /// A user id of its own when the host is root.
    Uid,
    /// No capability is left.
    Capabilities,
    /// No program can give more rights.
    NoNewPrivileges,
    /// Which files, and with no network also TCP.
    Landlock,
    /// Which system calls, and which kinds of sockets.
    Seccomp,
    /// How much of what.
    Limits,
    /// How much memory all processes together.
    Cgroup,
}

impl Guard {
    /// Every guard.
    pub const ALL: [Self; 14] = [
        Self::DeathSignal,
        Self::Descriptors,
        Self::UserNamespace,
        Self::PidNamespace,
        Self::MountNamespace,
        Self::NetworkNamespace,
        Self::IpcNamespace,
        Self::Uid,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Limits,
        Self::Cgroup,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.texts().0
    }

    /// The setting that asks for it.
    pub const fn setting(self) -> &'static str {
        self.texts().1
    }

    /// How to get it where it is missing.
    pub const fn remedy(self) -> &'static str {
        self.texts().2
    }

    /// The guard of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guard| guard.name() == name)
    }

    const fn texts(self) -> (&'static str, &'static str, &'static str) {
        const NAMESPACES: &str = "allow unprivileged user namespaces (sysctl user.max_user_namespaces, \
             kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or run \
             frith as root";
        const KERNEL: &str =
            "use a kernel with this feature, and a container that does not forbid it";
        match self {
            Self::DeathSignal => ("parent-death signal", "sandbox", KERNEL),
            Self::Descriptors => ("closed descriptors", "sandbox", "mount /proc"),
            Self::UserNamespace => ("user namespace", "sandbox", NAMESPACES),
            Self::PidNamespace => ("PID namespace", "sandbox", NAMESPACES),
            Self::MountNamespace => ("mount namespace", "sandbox", NAMESPACES),
            Self::NetworkNamespace => ("network namespace", "sandbox", NAMESPACES),
            Self::IpcNamespace => ("IPC namespace", "sandbox", NAMESPACES),
            Self::Uid => (
                "user id per command",
                "sandbox.uids",
                "name a range of user ids that nobody else has",
            ),
            Self::Capabilities => ("capabilities", "sandbox", KERNEL),
            Self::NoNewPrivileges => ("no_new_privs", "sandbox", KERNEL),
            Self::Landlock => (
                "Landlock",
                "sandbox.landlock",
                "use a kernel with a newer Landlock (6.7 has level 4) and with `landlock` in its \
                 `lsm=` list, or ask for a lower level",
            ),
            Self::Seccomp => ("seccomp", "sandbox", KERNEL),
            Self::Limits => (
                "limits",
                "sandbox",
                "raise the hard limits that frith was started with (`ulimit -H -a`)",
            ),
            Self::Cgroup => (
                "memory cgroup",
                "sandbox.memory_of",
                "run frith as root where the memory controller is mounted, or write `memory_of: process`",
            ),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
