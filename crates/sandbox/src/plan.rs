//! What the stages are told to do, as the host sends it to them.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup::Group;
use crate::codec::{Reader, Writer};
use crate::settings::MemoryLevel;
use crate::{Limits, Network};

/// What a supervisor needs to know before it is known what is to run: enough to go into namespaces
/// and to begin a file tree there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// The ids to keep in a user namespace; none if the host is root and needs none.
    pub(crate) mapped: Option<(u32, u32)>,
    /// Whether there is a network namespace.
    pub(crate) own_network: bool,
    pub(crate) memory: MemoryLevel,
    /// The group to be in, if memory is counted for the whole tree.
    pub(crate) cgroup: Option<PathBuf>,
}

/// All else that a supervisor needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What to put around the command; nothing for `sandbox: none`.
    pub(crate) confinement: Option<Confinement>,
    /// What to run; nothing to only try the guards.
    pub(crate) program: Option<OsString>,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// Whether the input is a terminal, and the output the same.
    pub(crate) terminal: bool,
    pub(crate) wall_time: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confinement {
    pub(crate) identity: Identity,
    pub(crate) network: Network,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) limits: Limits,
    pub(crate) memory: MemoryLevel,
    /// The lowest level of Landlock that will do.
    pub(crate) landlock: u8,
}

/// Whose rights the command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Those of the host, in a user namespace.
    Mapped { uid: u32, gid: u32 },
    /// Those of a user without any, in a group; the host is root.
    Dropped { uid: u32, gid: u32 },
}

/// One thing in the file tree of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    /// What is at this path here. No part of the path is a symbolic link.
    Bind {
        path: PathBuf,
        kind: Kind,
        writable: bool,
    },
    /// A symbolic link.
    Link { at: PathBuf, to: PathBuf },
    /// Nothing, whatever is there.
    Hide { path: PathBuf, kind: Kind },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
}

impl Ground {
    /// There is none for `sandbox: none`.
    pub(crate) fn encode(ground: Option<&Self>) -> Vec<u8> {
        let mut to = Writer::default();
        to.flag(ground.is_some());
        if let Some(ground) = ground {
            to.flag(ground.mapped.is_some());
            let (uid, gid) = ground.mapped.unwrap_or_default();
            to.number(uid.into());
            to.number(gid.into());
            to.flag(ground.own_network);
            to.flag(ground.memory == MemoryLevel::Tree);
            to.flag(ground.cgroup.is_some());
            if let Some(group) = &ground.cgroup {
                to.text(group.as_os_str());
            }
        }
        to.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Option<Self>> {
        let mut from = Reader(bytes);
        if !from.flag()? {
            return Ok(None);
        }
        let mapped = from.flag()?;
        let ids = (from.small()?, from.small()?);
        Ok(Some(Self {
            mapped: mapped.then_some(ids),
            own_network: from.flag()?,
            memory: memory(from.flag()?),
            cgroup: match from.flag()? {
                true => Some(from.text()?.into()),
                false => None,
            },
        }))
    }
}

impl Plan {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.flag(self.confinement.is_some());
        if let Some(confinement) = &self.confinement {
            confinement.encode(&mut to);
        }
        to.flag(self.program.is_some());
        to.text(&self.program.clone().unwrap_or_default());
        to.count(self.args.len());
        self.args.iter().for_each(|arg| to.text(arg));
        to.count(self.env.len());
        for (name, value) in &self.env {
            to.text(name);
            to.text(value);
        }
        to.text(self.cwd.as_os_str());
        to.flag(self.terminal);
        to.number(self.wall_time.as_secs());
        to.number(self.wall_time.subsec_nanos().into());
        to.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut from = Reader(bytes);
        let from = &mut from;
        let confinement = match from.flag()? {
            true => Some(Confinement::decode(from)?),
            false => None,
        };
        let named = from.flag()?;
        let program = from.text()?;
        Ok(Self {
            confinement,
            program: named.then_some(program),
            args: from.list(Reader::text)?,
            env: from.list(|from| Ok((from.text()?, from.text()?)))?,
            cwd: from.text()?.into(),
            terminal: from.flag()?,
            wall_time: Duration::new(from.number()?, from.small()?),
        })
    }
}

impl Confinement {
    /// What can be done before the rest of it is known.
    pub(crate) fn ground(&self, group: Option<&Group>) -> Ground {
        Ground {
            mapped: match self.identity {
                Identity::Mapped { uid, gid } => Some((uid, gid)),
                Identity::Dropped { .. } => None,
            },
            own_network: self.network != Network::All,
            memory: self.memory,
            cgroup: group.map(|group| group.path.clone()),
        }
    }

    fn encode(&self, to: &mut Writer) {
        match self.identity {
            Identity::Mapped { uid, gid } => {
                to.flag(true);
                to.number(uid.into());
                to.number(gid.into());
            }
            Identity::Dropped { uid, gid } => {
                to.flag(false);
                to.number(uid.into());
                to.number(gid.into());
            }
        }
        to.number(match self.network {
            Network::None => 0,
            Network::Loopback => 1,
            Network::All => 2,
        });
        to.count(self.mounts.len());
        self.mounts.iter().for_each(|mount| mount.encode(to));
        let limits = &self.limits;
        for limit in [
            limits.memory,
            limits.cpu_seconds,
            limits.processes,
            limits.open_files,
            limits.file_bytes,
            limits.tmp_bytes,
        ] {
            to.number(limit);
        }
        to.flag(self.memory == MemoryLevel::Tree);
        to.number(self.landlock.into());
    }

    fn decode(from: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self {
            identity: match from.flag()? {
                true => Identity::Mapped {
                    uid: from.small()?,
                    gid: from.small()?,
                },
                false => Identity::Dropped {
                    uid: from.small()?,
                    gid: from.small()?,
                },
            },
            network: match from.number()? {
                0 => Network::None,
                1 => Network::Loopback,
                _ => Network::All,
            },
            mounts: from.list(Mount::decode)?,
            limits: Limits {
                memory: from.number()?,
                cpu_seconds: from.number()?,
                processes: from.number()?,
                open_files: from.number()?,
                file_bytes: from.number()?,
                tmp_bytes: from.number()?,
                // The host counts these two.
                output_bytes: u64::MAX,
                wall_time: Duration::MAX,
            },
            memory: memory(from.flag()?),
            landlock: from.small()?,
        })
    }
}

impl Mount {
    fn encode(&self, to: &mut Writer) {
        let kind = |kind: &Kind| *kind == Kind::Folder;
        match self {
            Self::Bind {
                path,
                kind: of,
                writable,
            } => {
                to.number(0);
                to.text(path.as_os_str());
                to.flag(kind(of));
                to.flag(*writable);
            }
            Self::Link { at, to: target } => {
                to.number(1);
                to.text(at.as_os_str());
                to.text(target.as_os_str());
            }
            Self::Hide { path, kind: of } => {
                to.number(2);
                to.text(path.as_os_str());
                to.flag(kind(of));
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> io::Result<Self> {
        let tag = from.number()?;
        let path = PathBuf::from(from.text()?);
        if tag == 1 {
            let to = from.text()?.into();
            return Ok(Self::Link { at: path, to });
        }
        let kind = match from.flag()? {
            true => Kind::Folder,
            false => Kind::File,
        };
        Ok(match tag {
            0 => Self::Bind {
                path,
                kind,
                writable: from.flag()?,
            },
            _ => Self::Hide { path, kind },
        })
    }
}

const fn memory(tree: bool) -> MemoryLevel {
    match tree {
        true => MemoryLevel::Tree,
        false => MemoryLevel::Process,
    }
}

#[cfg(test)]
mod tests;
