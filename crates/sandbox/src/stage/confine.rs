//! What the first process gives up before it starts the command, which inherits the lack of it.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Signal, Uid, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, umask,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::syscalls::Filters;
use super::{Failure, loopback, missing};
use crate::plan::{Confinement, Identity, Kind, Mount};
use crate::settings::{LANDLOCK, MemoryLevel};
use crate::{Guard, Limits, Network};

/// Gives up what no command has, and gets the rest ready.
pub(super) fn prepare(memory: MemoryLevel) -> Result<Filters, Failure> {
    rustix::system::sethostname(b"sandbox").map_err(missing(Guard::IpcNamespace))?;
    bounding_set().map_err(missing(Guard::Capabilities))?;
    Ok(Filters::compile(memory))
}

pub(super) fn give_up(confinement: &Confinement, filters: &Filters) -> Result<(), Failure> {
    if confinement.network == Network::Loopback {
        loopback::up().map_err(missing(Guard::NetworkNamespace))?;
    }
    if let Identity::Dropped { uid, gid } = confinement.identity {
        become_user(uid, gid).map_err(missing(Guard::Uid))?;
        // Its group is that of the commands it shares folders with.
        umask(Mode::from_raw_mode(0o002));
    }
    clear_ambient_capability_set()
        .and_then(|()| {
            let none = CapabilitySet::empty();
            set_capabilities(
                None,
                CapabilitySets {
                    effective: none,
                    permitted: none,
                    inheritable: none,
                },
            )
        })
        .map_err(missing(Guard::Capabilities))?;
    // The change of user has undone it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(missing(Guard::DeathSignal))?;
    // The command may not look into this process, which has the same user.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(missing(Guard::Descriptors))?;
    set_no_new_privs(true).map_err(missing(Guard::NoNewPrivileges))?;
    limits(confinement).map_err(missing(Guard::Limits))?;
    files(confinement).map_err(missing(Guard::Landlock))?;
    filters
        .restrict(confinement.network)
        .map_err(missing(Guard::Seccomp))
}

fn bounding_set() -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // One that this kernel does not know.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

fn become_user(uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

fn limits(confinement: &Confinement) -> rustix::io::Result<()> {
    let Limits {
        memory,
        cpu_seconds,
        processes,
        open_files,
        file_bytes,
        ..
    } = confinement.limits;
    // The first process counts, and in a user namespace the supervisor too.
    let ours = match confinement.identity {
        Identity::Mapped { .. } => 2,
        Identity::Dropped { .. } => 1,
    };
    // First the signal that says why, then the one that cannot be ignored.
    limit(Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1))?;
    // A limit of one byte also keeps the kernel from starting a program that takes the dump.
    limit(Resource::Core, 1, 1)?;
    if confinement.memory == MemoryLevel::Process {
        limit(Resource::Data, memory, memory)?;
        // The first stack is no data to the kernel.
        limit(Resource::Stack, STACK, MOST_STACK)?;
        let space = address_space(memory);
        limit(Resource::As, space, space)?;
    }
    for (resource, most) in [
        (Resource::Nproc, processes.saturating_add(ours)),
        (Resource::Nofile, open_files),
        (Resource::Fsize, file_bytes),
    ] {
        limit(resource, most, most)?;
    }
    Ok(())
}

/// What a stack has, in bytes, as everywhere: the stacks of threads are made as large.
const STACK: u64 = 8 * 1024 * 1024;

/// What a stack may be made to have.
const MOST_STACK: u64 = 64 * 1024 * 1024;

/// What can be mapped: so many times what can be used, and so much in every case, since engines
/// reserve far more than they use (node has 10 GiB for each memory of WebAssembly).
const RESERVED: u64 = 64;
const LEAST_SPACE: u64 = 64 << 30;

/// How much address space there is. The tables of a mapping that is only read, one part in 512 of
/// it, are no data to the kernel: there is so little that they are an eighth of the memory, or 128 MiB.
const fn address_space(memory: u64) -> u64 {
    match memory.saturating_mul(RESERVED) {
        space if space < LEAST_SPACE => LEAST_SPACE,
        space => space,
    }
}

/// Sets a limit, or a lower one if that is all there may be.
fn limit(resource: Resource, soft: u64, hard: u64) -> rustix::io::Result<()> {
    let known = |limit: u64| (limit != u64::MAX).then_some(limit);
    let ceiling = getrlimit(resource).maximum;
    let lowest = |limit: Option<u64>| match (limit, ceiling) {
        (Some(limit), Some(ceiling)) => Some(limit.min(ceiling)),
        (limit, ceiling) => limit.or(ceiling),
    };
    setrlimit(
        resource,
        Rlimit {
            current: lowest(known(soft)),
            maximum: lowest(known(hard)),
        },
    )
}

/// Landlock: all that is in the tree may be read, and what the profile says written. It needs no
/// list of what may be read, since nothing else is in the tree.
fn files(confinement: &Confinement) -> Result<(), Box<dyn std::error::Error>> {
    let least = abi(confinement.landlock);
    let best = abi(LANDLOCK);
    let mut rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules = rules.handle_access(AccessFs::from_all(least))?;
    let tcp = AccessNet::from_all(least);
    if confinement.network == Network::None && !tcp.is_empty() {
        rules = rules.handle_access(tcp)?;
    }
    let rules = rules
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(best))?
        .scope(Scope::from_all(best))?;
    let mut rules = rules.create()?;
    let devices = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::IoctlDev;
    let fixed: [(&str, BitFlags<AccessFs>); 3] = [
        ("/", AccessFs::from_read(best)),
        ("/dev", devices),
        ("/tmp", AccessFs::from_all(best)),
    ];
    for (path, access) in fixed {
        rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?;
    }
    for mount in &confinement.mounts {
        if let Mount::Bind {
            path,
            kind,
            writable: true,
        } = mount
        {
            let access = match kind {
                Kind::Folder => AccessFs::from_all(best),
                Kind::File => AccessFs::from_file(best),
            };
            rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?;
        }
    }
    rules.restrict_self()?;
    Ok(())
}

const fn abi(level: u8) -> ABI {
    match level {
        0 | 1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        7 => ABI::V7,
        8 => ABI::V8,
        _ => ABI::V9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_space_goes_with_memory() {
        assert_eq!(address_space(0), 64 << 30);
        assert_eq!(address_space(1 << 30), 64 << 30);
        assert_eq!(address_space(4 << 30), 256 << 30);
        // No limit is none.
        assert_eq!(address_space(u64::MAX), u64::MAX);
    }
}
