//! Bytes of messages that a server keeps: of those that have begun to come, wait, or are worked on.
//!
//! Each message has a limit, but a source may have thousands of them at once. So all of them count, in
//! all and for each source, whatever carries them. What a connection keeps up to
//! [`Limits::buffered_bytes_per_connection`] does not count among that: others who have used up
//! everything cannot keep it from a handshake.

use std::net::IpAddr;

use a2a_session::Source;
use base::{Budget, Charge, Class, Exceeded};
use bytes::Bytes;

use super::limits::Limits;

/// Counts the bytes of one connection's messages. Clones share one count.
#[derive(Debug, Clone)]
pub(super) struct MessageBudget {
    own: Budget<Source>,
    shared: Budget<Source>,
    source: Source,
}

/// Bytes of one message that are in use; dropping it gives them back.
#[derive(Debug)]
pub(super) struct MessageCharge {
    budget: MessageBudget,
    charge: Option<Charge<Source>>,
}

/// What all connections of a server share.
pub(crate) fn shared(limits: &Limits) -> Budget<Source> {
    Budget::new(base::Limits {
        total: limits.buffered_bytes,
        per_holder: limits.buffered_bytes_per_source,
        reserved: 0,
    })
}

impl MessageBudget {
    /// That of a new connection.
    pub(super) fn new(limits: &Limits, shared: &Budget<Source>, source: IpAddr) -> Self {
        let own = limits.buffered_bytes_per_connection;
        Self {
            own: Budget::new(base::Limits {
                total: own,
                per_holder: own,
                reserved: 0,
            }),
            shared: shared.clone(),
            source: source.into(),
        }
    }

    /// A charge of no bytes yet.
    pub(super) fn begin(&self) -> MessageCharge {
        MessageCharge {
            budget: self.clone(),
            charge: None,
        }
    }
}

impl MessageCharge {
    /// Counts this many bytes in place of those counted so far.
    ///
    /// # Errors
    /// Which limit they would exceed; then it stays as it was.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Exceeded> {
        if let Some(charge) = &mut self.charge
            && charge.resize(bytes).is_ok()
        {
            return Ok(());
        }
        let MessageBudget {
            own,
            shared,
            source,
        } = &self.budget;
        let charge = own.charge(*source, Class::Stranger, bytes);
        let charge = charge.or_else(|_| shared.charge(*source, Class::Stranger, bytes))?;
        self.charge = Some(charge);
        Ok(())
    }

    /// How many bytes are counted.
    pub(super) fn bytes(&self) -> usize {
        self.charge.as_ref().map_or(0, Charge::bytes)
    }

    /// The message, counted until its last clone is dropped.
    pub(super) fn attach(self, message: Bytes) -> Bytes {
        Bytes::from_owner(Counted {
            message,
            _charge: self,
        })
    }
}

struct Counted {
    message: Bytes,
    _charge: MessageCharge,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_bytes_of_its_own_and_more_within_its_sources_share() {
        let limits = Limits {
            buffered_bytes: 10,
            buffered_bytes_per_source: 6,
            buffered_bytes_per_connection: 4,
            ..Limits::default()
        };
        let shared = shared(&limits);
        let connect =
            |source: &str| MessageBudget::new(&limits, &shared, source.parse().unwrap()).begin();
        let (mut one, mut same) = (connect("192.0.2.1"), connect("::ffff:192.0.2.1"));
        one.resize(4).unwrap();
        assert_eq!(shared.used(), 0);
        // What is larger counts among all, as a whole.
        one.resize(5).unwrap();
        same.resize(5).unwrap_err();
        same.resize(4).unwrap();
        assert_eq!((shared.used(), one.bytes(), same.bytes()), (5, 5, 4));
        let mut other = connect("192.0.2.2");
        other.resize(5).unwrap();
        assert_eq!(connect("192.0.2.3").resize(5), Err(Exceeded::Total));
        connect("192.0.2.3").resize(4).unwrap();
        drop(one);
        same.resize(6).unwrap_err();
        let message = other.attach(Bytes::from_static(b"12345"));
        let part = message.slice(1..2);
        drop(message);
        assert_eq!(shared.used(), 5, "a part keeps all of it");
        drop((part, same));
        assert_eq!(shared.used(), 0);
    }
}
