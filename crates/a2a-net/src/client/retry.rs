//! Whether to try again, and when (profile §12). Nothing here waits, and nothing is random.

use std::time::Duration;

use a2a_wire::{ErrorCode, Retry};

use crate::transport::CarryError;

/// Tries after the first.
const RETRIES: u32 = 5;
/// The longest wait; who asks for a longer one is not waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// What a call has tried so far.
#[derive(Debug, Default)]
pub(super) struct Retries {
    waits: u32,
    internal_errors: u8,
    renewed: bool,
}

/// What went wrong, as far as that matters here.
#[derive(Debug, Clone)]
pub(super) enum Fault<'a> {
    /// A message could not be carried.
    Carry(&'a CarryError),
    /// The peer says so.
    Told {
        code: &'a ErrorCode,
        /// Whether the peer has signed that.
        signed: bool,
        /// The status of the transport, for codes that nobody knows.
        status: u16,
        /// When it may be tried again.
        wait: Option<Duration>,
    },
    /// A proxy on the way says so.
    Proxy {
        /// What its status means.
        code: &'a ErrorCode,
        /// When it may be tried again.
        wait: Option<Duration>,
    },
    /// The session was over before anything was sent.
    Over,
    /// We would ask more often than was agreed.
    Limited(Duration),
    /// There is no answer that could be believed, or recorded. It is not tried again.
    Unheard,
    /// Trying again changes nothing.
    Final,
}

/// How far a call had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// No request was sent.
    Nothing,
    /// A request that the server does once, however often it is sent.
    Named,
    /// A request with an `intent_id`, to a server of the base specification: it may know it again.
    Correlated,
    /// A request that may be done twice if it is sent twice.
    Unnamed,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    GiveUp,
    After(Duration),
}

/// What a fault allows.
enum Class {
    Never,
    Wait(Option<Duration>),
    OneNewHandshake,
    Internal(u8),
}

impl Retries {
    /// What to do about a fault. `spread` is a random number from 0 up to 1.
    pub(super) fn decide(&mut self, fault: &Fault<'_>, sent: Sent, spread: f64) -> Decision {
        match class(fault, sent) {
            Class::Never => Decision::GiveUp,
            Class::Wait(asked) => self.wait(asked, spread),
            Class::OneNewHandshake if self.renewed => Decision::GiveUp,
            Class::OneNewHandshake => {
                self.renewed = true;
                Decision::After(Duration::ZERO)
            }
            Class::Internal(most) if self.internal_errors >= most => Decision::GiveUp,
            Class::Internal(_) => {
                self.internal_errors = self.internal_errors.saturating_add(1);
                self.wait(None, spread)
            }
        }
    }

    /// 1, 2, 4, 8, 16 s and up to a quarter more, or longer if the peer says so.
    fn wait(&mut self, asked: Option<Duration>, spread: f64) -> Decision {
        if self.waits >= RETRIES {
            return Decision::GiveUp;
        }
        let seconds = 1_u32.checked_shl(self.waits).unwrap_or(u32::MAX);
        let own = Duration::from_secs(u64::from(seconds)).min(LONGEST);
        let own = own.mul_f64(0.25_f64.mul_add(spread, 1.0));
        self.waits = self.waits.saturating_add(1);
        match asked {
            Some(asked) if asked > LONGEST => Decision::GiveUp,
            Some(asked) => Decision::After(own.max(asked)),
            None => Decision::After(own),
        }
    }
}

/// Whether a try that failed like this may have had the work done.
pub(super) fn may_have_run(fault: &Fault<'_>, sent: Sent) -> bool {
    if sent == Sent::Nothing {
        return false;
    }
    match fault {
        Fault::Carry(CarryError::Broken | CarryError::Foreign(_)) | Fault::Unheard => true,
        Fault::Carry(CarryError::Connect(_) | CarryError::Tls(_) | CarryError::NotSpoken(_))
        | Fault::Over
        | Fault::Limited(_)
        | Fault::Final => false,
        // The server has signed that it did not do it; anybody else cannot know.
        Fault::Told {
            code: ErrorCode::ServiceUnavailable,
            signed,
            ..
        } => !signed,
        Fault::Proxy { code, .. } => **code != ErrorCode::RateLimitExceeded,
        Fault::Told { code, .. } => matches!(
            code,
            ErrorCode::Timeout
                | ErrorCode::InternalError
                | ErrorCode::Cancelled
                | ErrorCode::Other(_)
        ),
    }
}

fn class(fault: &Fault<'_>, sent: Sent) -> Class {
    match fault {
        Fault::Carry(error) => match (error, sent) {
            (CarryError::Connect(_), _) | (CarryError::Broken, Sent::Nothing | Sent::Named) => {
                Class::Wait(None)
            }
            (CarryError::Broken, Sent::Correlated | Sent::Unnamed)
            | (CarryError::Tls(_) | CarryError::NotSpoken(_) | CarryError::Foreign(_), _) => {
                Class::Never
            }
        },
        Fault::Proxy { wait, .. } => match (may_have_run(fault, sent), sent) {
            // A server of the base specification may do it again, although it has an `intent_id`.
            (true, Sent::Correlated) | (_, Sent::Unnamed) => Class::Never,
            (true, Sent::Nothing | Sent::Named) | (false, _) => Class::Wait(*wait),
        },
        Fault::Over => Class::OneNewHandshake,
        Fault::Limited(wait) => Class::Wait(Some(*wait)),
        Fault::Unheard | Fault::Final => Class::Never,
        // Nobody knows whether it was done.
        Fault::Told { signed: false, .. } if sent == Sent::Unnamed => Class::Never,
        Fault::Told {
            code, status, wait, ..
        } => told(code, *status, *wait, sent),
    }
}

fn told(code: &ErrorCode, status: u16, wait: Option<Duration>, sent: Sent) -> Class {
    // What has no code of ours goes by the status.
    let unknown = match status {
        429 | 500..=599 => Retry::Yes,
        _ => Retry::No,
    };
    match code.retry().unwrap_or(unknown) {
        Retry::No | Retry::WithNewIds | Retry::OnceWithCommonVersion => Class::Never,
        Retry::AfterReset | Retry::NewHandshake | Retry::Yes => Class::Wait(wait),
        Retry::OneNewHandshake => Class::OneNewHandshake,
        Retry::WithIntentId | Retry::WithIntentIdAtMost(_) if sent == Sent::Unnamed => Class::Never,
        Retry::WithIntentId => Class::Wait(wait),
        Retry::WithIntentIdAtMost(most) => Class::Internal(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn told_by(code: &ErrorCode, wait: Option<Duration>) -> Fault<'_> {
        Fault::Told {
            code,
            signed: true,
            status: 0,
            wait,
        }
    }

    fn waits(fault: &Fault<'_>, sent: Sent, spread: f64) -> Vec<f64> {
        let mut retries = Retries::default();
        let mut waits = Vec::new();
        while let Decision::After(wait) = retries.decide(fault, sent, spread) {
            waits.push(wait.as_secs_f64());
        }
        waits
    }

    /// Threat 118: 503, for ever.
    /// Proves A-8-11, A-8-13, A-8-14.
    #[test]
    fn threat_118_backoff() {
        let unavailable = ErrorCode::ServiceUnavailable;
        let fault = told_by(&unavailable, None);
        assert_eq!(waits(&fault, Sent::Named, 0.0), [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(
            waits(&fault, Sent::Named, 1.0),
            [1.25, 2.5, 5.0, 10.0, 20.0]
        );
    }

    /// §5: "Client may retry with exponential backoff".
    /// Proves A-5-40, A-8-8, A-8-16.
    #[test]
    fn handshakes_that_failed_or_timed_out_are_begun_again() {
        for code in [ErrorCode::HandshakeTimeout, ErrorCode::HandshakeFailed] {
            let fault = told_by(&code, None);
            assert_eq!(
                waits(&fault, Sent::Nothing, 0.0),
                [1.0, 2.0, 4.0, 8.0, 16.0]
            );
        }
    }

    /// §8: TIMEOUT is retried; so is what a proxy on the way answers, unless the work may be done twice.
    /// Proves A-8-10, A-8-12, A-8-16.
    #[test]
    fn timeouts_and_proxies_are_retried_where_nothing_is_done_twice() {
        let all = [1.0, 2.0, 4.0, 8.0, 16.0];
        let timeout = ErrorCode::Timeout;
        assert_eq!(waits(&told_by(&timeout, None), Sent::Correlated, 0.0), all);
        let internal = ErrorCode::InternalError;
        let twice = waits(&told_by(&internal, None), Sent::Correlated, 0.0);
        assert_eq!(twice, [1.0, 2.0]);
        for (status, code) in [
            (429, ErrorCode::RateLimitExceeded),
            (502, ErrorCode::ServiceUnavailable),
            (503, ErrorCode::ServiceUnavailable),
            (504, ErrorCode::Timeout),
        ] {
            let told = crate::client::error::Told::by_proxy(b"", status, None).unwrap();
            assert_eq!((&told.failure.code, told.signed), (&code, false));
            let error = crate::client::error::CallError::Refused(told);
            let fault = error.fault(a2a_wire::UnixSeconds(0));
            assert_eq!(waits(&fault, Sent::Nothing, 0.0), all, "{status}");
            assert_eq!(waits(&fault, Sent::Named, 0.0), all, "{status}");
            assert!(waits(&fault, Sent::Unnamed, 0.0).is_empty(), "{status}");
            // What may have reached a server that need not know `intent_id` again is not repeated.
            let repeated = waits(&fault, Sent::Correlated, 0.0);
            match status {
                429 => assert_eq!(repeated, all),
                _ => assert!(repeated.is_empty(), "{status}"),
            }
        }
        // What a server of the base specification says itself is as its table has it, signed or not.
        let unavailable = ErrorCode::ServiceUnavailable;
        let hint = Fault::Told {
            code: &unavailable,
            signed: false,
            status: 503,
            wait: None,
        };
        assert_eq!(waits(&hint, Sent::Correlated, 0.0), all);
        // A connection that broke says nothing, and the server may do it twice.
        let broken = Fault::Carry(&CarryError::Broken);
        assert!(waits(&broken, Sent::Correlated, 0.0).is_empty());
    }

    /// A client does not repeat what it has refused itself.
    #[test]
    fn our_own_refusals_are_not_retried() {
        use a2a_session::Failure;
        for code in [ErrorCode::PolicyViolation, ErrorCode::HandshakeFailed] {
            let failure = Failure::new(code, "the policy is not acceptable");
            let error = crate::client::error::CallError::Handshake(failure);
            let fault = error.fault(a2a_wire::UnixSeconds(0));
            assert!(waits(&fault, Sent::Nothing, 0.0).is_empty());
        }
    }

    /// Threat 118: 429 with a reset in an hour, and sooner.
    /// Proves A-8-4, A-8-15.
    #[test]
    fn threat_118_longer_waits_are_the_callers() {
        let limited = ErrorCode::RateLimitExceeded;
        let hour = told_by(&limited, Some(Duration::from_secs(3600)));
        assert!(waits(&hour, Sent::Named, 0.0).is_empty());
        let minute = told_by(&limited, Some(Duration::from_secs(60)));
        assert_eq!(waits(&minute, Sent::Named, 0.5), [60.0; 5]);
        let more = told_by(&limited, Some(Duration::from_millis(60_001)));
        assert!(waits(&more, Sent::Named, 0.5).is_empty());
    }

    /// Threat 118: SESSION_EXPIRED, for ever.
    /// Proves A-8-9.
    #[test]
    fn threat_118_one_new_handshake() {
        let expired = ErrorCode::SessionExpired;
        let fault = told_by(&expired, None);
        assert_eq!(waits(&fault, Sent::Named, 0.0), [0.0]);
        assert_eq!(waits(&Fault::Over, Sent::Nothing, 0.0), [0.0]);
    }

    #[test]
    fn what_may_have_been_done_is_not_sent_again_without_a_name() {
        let timeout = ErrorCode::Timeout;
        assert!(waits(&told_by(&timeout, None), Sent::Unnamed, 0.0).is_empty());
        assert_eq!(waits(&told_by(&timeout, None), Sent::Named, 0.0).len(), 5);
        let internal = ErrorCode::InternalError;
        assert!(waits(&told_by(&internal, None), Sent::Unnamed, 0.0).is_empty());
        assert_eq!(
            waits(&told_by(&internal, None), Sent::Named, 0.0),
            [1.0, 2.0]
        );
        let broken = CarryError::Broken;
        assert!(waits(&Fault::Carry(&broken), Sent::Unnamed, 0.0).is_empty());
        assert_eq!(waits(&Fault::Carry(&broken), Sent::Nothing, 0.0).len(), 5);
        // What nobody signed proves nothing.
        let unavailable = ErrorCode::ServiceUnavailable;
        let hint = Fault::Told {
            code: &unavailable,
            signed: false,
            status: 503,
            wait: None,
        };
        assert!(waits(&hint, Sent::Unnamed, 0.0).is_empty());
        assert_eq!(waits(&hint, Sent::Named, 0.0).len(), 5);
    }

    #[test]
    fn what_was_sent_may_have_run_unless_it_was_refused() {
        let told = |code, signed| Fault::Told {
            code,
            signed,
            status: 0,
            wait: None,
        };
        for code in ErrorCode::ALL {
            let is_unclear = [
                ErrorCode::Timeout,
                ErrorCode::InternalError,
                ErrorCode::Cancelled,
            ]
            .contains(code);
            let fault = told(code, true);
            assert_eq!(may_have_run(&fault, Sent::Named), is_unclear, "{code}");
            assert!(!may_have_run(&fault, Sent::Nothing), "{code}");
        }
        let unavailable = ErrorCode::ServiceUnavailable;
        assert!(may_have_run(&told(&unavailable, false), Sent::Named));
        for (error, is_unclear) in [
            (CarryError::Broken, true),
            (CarryError::Foreign("x".to_owned()), true),
            (CarryError::Connect("x".to_owned()), false),
            (CarryError::Tls("x".to_owned()), false),
        ] {
            let fault = Fault::Carry(&error);
            assert_eq!(may_have_run(&fault, Sent::Named), is_unclear, "{error}");
        }
        assert!(may_have_run(&Fault::Unheard, Sent::Unnamed));
        assert!(!may_have_run(&Fault::Over, Sent::Named));
    }

    /// Proves A-8-1 to A-8-3, A-8-5 to A-8-7, A-8-17.
    #[test]
    fn most_errors_are_final() {
        for code in [
            ErrorCode::UnverifiedAgent,
            ErrorCode::InvalidManifest,
            ErrorCode::PolicyViolation,
            ErrorCode::UnsupportedCapability,
            ErrorCode::InvalidIntent,
            ErrorCode::InvalidMessage,
            ErrorCode::ReplayDetected,
            ErrorCode::PayloadTooLarge,
            ErrorCode::Cancelled,
            ErrorCode::ProtocolVersionUnsupported,
        ] {
            let fault = told_by(&code, None);
            assert!(waits(&fault, Sent::Named, 0.0).is_empty(), "{code}");
        }
        let tls = CarryError::Tls("a.example".to_owned());
        assert!(waits(&Fault::Carry(&tls), Sent::Nothing, 0.0).is_empty());
    }

    /// Profile §12: unknown codes go by the class of the status.
    #[test]
    fn unknown_codes_go_by_their_status() {
        let other = ErrorCode::Other("BROKEN_PIPE".to_owned());
        let with = |status| Fault::Told {
            code: &other,
            signed: true,
            status,
            wait: None,
        };
        assert_eq!(waits(&with(502), Sent::Named, 0.0).len(), 5);
        assert_eq!(waits(&with(429), Sent::Named, 0.0).len(), 5);
        assert!(waits(&with(404), Sent::Named, 0.0).is_empty());
        assert!(waits(&with(200), Sent::Named, 0.0).is_empty());
    }
}
