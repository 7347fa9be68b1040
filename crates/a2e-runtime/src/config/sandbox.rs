//! The section `sandbox`: what programs may do that agents have run.

use std::path::PathBuf;
use std::time::Duration;

use super::read::{Field, Section};
use super::sections::{Reader, set};

/// How programs are confined that agents have run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    /// Not at all: `sandbox: none`, in so many words.
    None,
    /// By every guard there is.
    Guarded(Guarded),
}

/// What programs may do, and what is asked of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// What they may do, if nothing else is said.
    pub profile: Profile,
    /// The lowest level of Landlock that will do.
    pub landlock: u8,
    /// Whether memory is counted for a whole tree of processes; needs a cgroup.
    pub tree_memory: bool,
}

/// What programs may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What they may read beside the system's programs and the workspace.
    pub readable: Vec<PathBuf>,
    /// What they may change beside the workspace.
    pub writable: Vec<PathBuf>,
    /// What they can reach.
    pub network: Network,
    /// Bytes of memory.
    pub memory: u64,
    /// Seconds on a processor, for each process.
    pub cpu_seconds: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Bytes of the largest file.
    pub file_bytes: u64,
    /// Bytes of temporary files.
    pub tmp_bytes: u64,
    /// Bytes of output.
    pub output_bytes: u64,
    /// Time from start to end.
    pub wall_time: Duration,
}

/// What programs can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    None,
    /// A loopback device of their own.
    Loopback,
    /// Whatever the node reaches.
    All,
}

const KIB: i64 = 1024;
const MIB: i64 = 1024 * KIB;
const GIB: i64 = 1024 * MIB;

impl Default for Sandbox {
    fn default() -> Self {
        Self::Guarded(Guarded::default())
    }
}

impl Default for Guarded {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            landlock: 4,
            tree_memory: false,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            readable: Vec::new(),
            writable: Vec::new(),
            network: Network::None,
            memory: 1 << 30,
            cpu_seconds: 300,
            processes: 64,
            open_files: 256,
            file_bytes: 256 << 20,
            tmp_bytes: 256 << 20,
            output_bytes: 16 << 20,
            wall_time: Duration::from_secs(300),
        }
    }
}

impl Reader<'_> {
    /// `sandbox: none`, or a section.
    pub(super) fn sandbox(&self, field: &Field<'_>) -> Option<Sandbox> {
        if field.is_text() {
            return field.choice(&[("none", ())]).map(|()| Sandbox::None);
        }
        let mut guarded = Guarded::default();
        let mut section = field.section()?;
        self.profile(&mut section, &mut guarded.profile);
        set(&mut guarded.landlock, section.field("landlock"), |it| {
            it.integer(1..=7)?.try_into().ok()
        });
        set(&mut guarded.tree_memory, section.field("memory_of"), |it| {
            it.choice(&[("process", false), ("tree", true)])
        });
        section.finish();
        Some(Sandbox::Guarded(guarded))
    }

    fn profile(&self, section: &mut Section<'_>, profile: &mut Profile) {
        for (name, slot) in [
            ("readable", &mut profile.readable),
            ("writable", &mut profile.writable),
        ] {
            set(slot, section.field(name), |it| {
                Some(it.list()?.filter_map(|it| self.path(&it)).collect())
            });
        }
        set(&mut profile.network, section.field("network"), |it| {
            it.choice(&[
                ("none", Network::None),
                ("loopback", Network::Loopback),
                ("all", Network::All),
            ])
        });
        for (name, allowed, slot) in [
            ("memory", 8 * MIB..=KIB * GIB, &mut profile.memory),
            ("cpu_seconds", 1..=86_400, &mut profile.cpu_seconds),
            ("processes", 1..=100_000, &mut profile.processes),
            ("open_files", 16..=1_000_000, &mut profile.open_files),
            ("file_bytes", 0..=KIB * GIB, &mut profile.file_bytes),
            ("tmp_bytes", 64 * KIB..=KIB * GIB, &mut profile.tmp_bytes),
            ("output_bytes", KIB..=GIB, &mut profile.output_bytes),
        ] {
            set(slot, section.field(name), |it| {
                it.integer(allowed)?.try_into().ok()
            });
        }
        set(
            &mut profile.wall_time,
            section.field("wall_seconds"),
            |it| it.seconds(1..=86_400),
        );
    }
}
