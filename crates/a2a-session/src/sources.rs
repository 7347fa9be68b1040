//! Where messages come from, and how often: what can be said of a peer before it has said anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use a2a_identity::Did;
use a2a_wire::ErrorCode;
use base::Class;
use canonical::Digest;
use policy::{Buckets, Rate, Refused};

use crate::Now;
use crate::failure::Failure;

/// Where a connection comes from: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u64, bool);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits()), false),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64;
                Self(u64::try_from(network).unwrap_or_default(), true)
            }
        }
    }
}

impl Source {
    /// The IPv4 address, or the first of the network.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        match self {
            Self(network, true) => Ipv6Addr::from_bits(u128::from(*network) << 64).into(),
            Self(address, false) => {
                let address = u32::try_from(*address).unwrap_or_default();
                Ipv4Addr::from_bits(address).into()
            }
        }
    }
}

/// Who it is counted for what a peer keeps at this node: a known agent by its DID; a stranger by its
/// source, because DIDs are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A stranger: all agents from one source are counted together.
    Source(Source),
    /// A known agent, by the digest of its canonical DID.
    Agent(Digest),
}

impl Holder {
    /// Who it is counted for what this agent keeps.
    #[must_use]
    pub const fn of(source: Source, agent: Digest, class: Class) -> Self {
        match class {
            Class::Stranger => Self::Source(source),
            Class::Known => Self::Agent(agent),
        }
    }

    /// Who it is counted for what is kept of this agent wherever it comes from.
    #[must_use]
    pub fn of_did(did: &Did) -> Self {
        Self::Agent(Digest::of(did.to_string().as_bytes()))
    }

    /// Whether it may use what is kept in reserve.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Source(_) => Class::Stranger,
            Self::Agent(_) => Class::Known,
        }
    }
}

/// How often each source comes.
#[derive(Debug)]
pub struct Sources(Buckets<Source>);

impl Sources {
    /// Nobody has come yet; at most so many sources are counted at once.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Buckets::new(most))
    }

    /// Counts a source that comes.
    ///
    /// # Errors
    /// If it comes more often than this rate.
    pub fn take(
        &mut self,
        now: Now,
        source: Source,
        rate: Rate,
        cause: &'static str,
    ) -> Result<(), Failure> {
        let taken = self.0.take(now.monotonic, [(&source, rate)]);
        taken.map_err(|refused| {
            let wait = match refused {
                Refused::Exceeded(limited) => limited.exceeded.retry_after,
                Refused::NoRoom { retry_after } => retry_after,
            };
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let failure = Failure::new(ErrorCode::ServiceUnavailable, cause);
            failure.with_number("retry_after_ms", millis.max(1))
        })
    }
}

/// For exploring states, in which nobody comes too often.
#[cfg(test)]
impl Clone for Sources {
    fn clone(&self) -> Self {
        Self::new(1024)
    }
}
