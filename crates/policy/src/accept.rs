//! Whether a client takes the policy that a server sent (profile §11.2).

use crate::{IntentName, Policy, Rate, Retention};

/// What a client demands of a server's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demands {
    /// The longest that the server may keep payload data.
    pub max_retention: Retention,
    /// Whether messages must be encrypted.
    pub encryption: Encryption,
    /// The shortest session, in seconds.
    pub min_session_timeout: u32,
    /// The smallest `max_payload_size`.
    pub min_payload_size: u64,
    /// The lowest rate, compared as limit/period.
    pub min_rate: Option<Rate>,
    /// The intents that it needs.
    pub intents: Vec<IntentName>,
}

/// Whether a client insists on encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// The policy must require it.
    Needed,
    /// Either way.
    Optional,
}

/// The first field of a policy that a client does not accept: `POLICY_VIOLATION`,
/// `policy_unacceptable`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unacceptable {
    /// `data_retention` is longer, or not stated and so without an end.
    #[error("`data_retention` is {offered}, and no more than {most} is accepted")]
    Retention {
        /// What the server keeps to.
        offered: Retention,
        /// The most that is accepted.
        most: Retention,
    },
    /// `require_encryption` is not true.
    #[error("`require_encryption` is not true")]
    Encryption,
    /// `session_timeout` is shorter.
    #[error("`session_timeout` is {offered} s, less than {least} s")]
    SessionTimeout {
        /// What the server gives.
        offered: u32,
        /// The least that is accepted.
        least: u32,
    },
    /// `max_payload_size` is smaller.
    #[error("`max_payload_size` is {offered}, less than {least}")]
    PayloadSize {
        /// What the server takes.
        offered: u64,
        /// The least that is accepted.
        least: u64,
    },
    /// `rate_limit` is lower.
    #[error("`rate_limit` is {} in {} s, less than {} in {} s", offered.limit(), offered.period(), least.limit(), least.period())]
    Rate {
        /// What the server allows.
        offered: Rate,
        /// The least that is accepted.
        least: Rate,
    },
    /// An intent that is needed is not allowed.
    #[error("the intent `{0}` is not allowed")]
    Intent(IntentName),
}

impl Default for Demands {
    /// Nothing is demanded.
    fn default() -> Self {
        Self {
            max_retention: Retention::Permanent,
            encryption: Encryption::Optional,
            min_session_timeout: 0,
            min_payload_size: 0,
            min_rate: None,
            intents: Vec::new(),
        }
    }
}

impl Demands {
    /// Whether a policy is accepted. What it does not state is promised by nobody, so a missing
    /// `data_retention` counts as `permanent` and a missing `require_encryption` as false; what it
    /// does not limit is not limited.
    ///
    /// # Errors
    /// The first field that is not accepted.
    pub fn accept(&self, policy: &Policy) -> Result<(), Unacceptable> {
        let offered = policy.data_retention().unwrap_or(Retention::Permanent);
        let most = self.max_retention;
        if offered > most {
            return Err(Unacceptable::Retention { offered, most });
        }
        if self.encryption == Encryption::Needed && policy.require_encryption() != Some(true) {
            return Err(Unacceptable::Encryption);
        }
        let least = self.min_session_timeout;
        if let Some(offered) = policy.session_timeout().filter(|offered| *offered < least) {
            return Err(Unacceptable::SessionTimeout { offered, least });
        }
        let least = self.min_payload_size;
        if let Some(offered) = policy.max_payload_size().filter(|offered| *offered < least) {
            return Err(Unacceptable::PayloadSize { offered, least });
        }
        if let (Some(offered), Some(least)) = (policy.rate(), self.min_rate)
            && !least.is_at_most(offered)
        {
            return Err(Unacceptable::Rate { offered, least });
        }
        let refused = |name: &&IntentName| policy.check_intent(name, None).is_err();
        match self.intents.iter().find(refused) {
            Some(name) => Err(Unacceptable::Intent(name.clone())),
            None => Ok(()),
        }
    }
}
