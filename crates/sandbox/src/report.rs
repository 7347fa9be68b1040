//! What the stages say to the host, and the host to them.

use std::io;

use crate::Guard;
use crate::codec::{Reader, Writer};
use crate::exit::Status;

/// What a stage says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started,
    /// It will not run.
    Failed { what: Fault, why: String },
    /// The command has ended; the rest of its tree is about to.
    Ended(Status),
    /// It ran for too long and is about to be killed.
    TimedOut,
    /// Nothing of the tree is left; what is to go yet is empty namespaces and the supervisor.
    Over,
}

/// What kept a command from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Guard(Guard),
    Program,
    Folder,
}

/// What the host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// A signal for the command and its group.
    Signal(i32),
    /// The end of the whole tree.
    Kill,
}

impl Report {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Started => to.number(0),
            Self::Failed { what, why } => {
                to.number(1);
                to.text(what.name().as_ref());
                to.text(why.as_ref());
            }
            Self::Ended(Status::Code(code)) => {
                to.number(2);
                to.number(u64::from(code.cast_unsigned()));
            }
            Self::Ended(Status::Signal(signal)) => {
                to.number(3);
                to.number(u64::from(signal.cast_unsigned()));
            }
            Self::TimedOut => to.number(4),
            Self::Over => to.number(5),
        }
        to.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut from = Reader(bytes);
        Ok(match from.number()? {
            0 => Self::Started,
            1 => Self::Failed {
                what: Fault::named(&from.text()?.to_string_lossy())?,
                why: from.text()?.to_string_lossy().into_owned(),
            },
            2 => Self::Ended(Status::Code(from.small::<u32>()?.cast_signed())),
            3 => Self::Ended(Status::Signal(from.small::<u32>()?.cast_signed())),
            4 => Self::TimedOut,
            5 => Self::Over,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::Guard(guard) => guard.name(),
            Self::Program => "program",
            Self::Folder => "folder",
        }
    }

    fn named(name: &str) -> io::Result<Self> {
        match name {
            "program" => Ok(Self::Program),
            "folder" => Ok(Self::Folder),
            _ => Guard::named(name)
                .map(Self::Guard)
                .ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Request {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Signal(signal) => {
                to.number(0);
                to.number(u64::from(signal.cast_unsigned()));
            }
            Self::Kill => to.number(1),
        }
        to.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut from = Reader(bytes);
        match from.number()? {
            0 => Ok(Self::Signal(from.small::<u32>()?.cast_signed())),
            _ => Ok(Self::Kill),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let faults = Guard::ALL.map(Fault::Guard).into_iter();
        let failed = faults
            .chain([Fault::Program, Fault::Folder])
            .map(|what| Report::Failed {
                what,
                why: "no".into(),
            });
        for report in failed.chain([
            Report::Started,
            Report::Ended(Status::Code(-1)),
            Report::Ended(Status::Signal(9)),
            Report::TimedOut,
            Report::Over,
        ]) {
            assert_eq!(Report::decode(&report.encode()).unwrap(), report);
        }
        for request in [Request::Signal(15), Request::Kill] {
            assert_eq!(Request::decode(&request.encode()).unwrap(), request);
        }
        assert!(Report::decode(&[]).is_err());
    }
}
