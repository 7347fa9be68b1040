//! Keys that sign often: multiples of their points are kept, so that less is computed for each signature.
//!
//! To verify is to compute k·A + s·B, most of which is to double a point 250 times. With the multiples of
//! a point at hand that are needed there is next to nothing to double, and one addition for each digit. The sum is
//! the same point. All of this is public, so it need not take the same time each time.

mod division;
mod field;
mod multiples;
mod point;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curve25519_dalek::EdwardsPoint;

use super::VerifyingKey;

use self::multiples::Multiples;
pub(super) use self::multiples::sum;

/// Signatures after which a key signs often: multiples take as long as ten checks.
const OFTEN: u32 = 64;
/// Keys that are known: of peers that are busy at the same time.
const KEYS: usize = 64;

/// The keys that signed last, the last of all first.
static RECENT: Mutex<VecDeque<Recent>> = Mutex::new(VecDeque::new());

struct Recent {
    key: VerifyingKey,
    signatures: u32,
    multiples: Option<Arc<Multiples>>,
}

impl Recent {
    fn is(&self, key: &[u8; 32]) -> bool {
        self.key.0.as_bytes() == key
    }
}

/// The key that is spelled so, if it has signed lately: to decode it again would cost a square root.
pub(super) fn known(key: &[u8; 32]) -> Option<VerifyingKey> {
    let recent = recent();
    let found = recent.iter().find(|it| it.is(key));
    found.map(|it| it.key.clone())
}

/// Those of a key, if it signs often.
pub(super) fn multiples_of(key: &[u8; 32]) -> Option<Arc<Multiples>> {
    let recent = recent();
    let found = recent.iter().find(|it| it.is(key));
    found.and_then(|it| it.multiples.clone())
}

/// A key has made a signature; `minus_a` is the point whose multiples are needed.
pub(super) fn has_signed(key: &VerifyingKey, minus_a: &EdwardsPoint) {
    let spelled = key.0.as_bytes();
    let is_often = {
        let mut recent = recent();
        let place = recent.iter().position(|it| it.is(spelled));
        let mut found = place
            .and_then(|place| recent.remove(place))
            .unwrap_or_else(|| Recent {
                key: key.clone(),
                signatures: 0,
                multiples: None,
            });
        found.signatures = found.signatures.saturating_add(1);
        // Who comes meanwhile need not do the same.
        let is_often = found.signatures == OFTEN;
        recent.truncate(KEYS - 1);
        recent.push_front(found);
        is_often
    };
    if is_often {
        let multiples = Multiples::of_key(minus_a.compress().as_bytes()).map(Arc::new);
        if let Some(found) = recent().iter_mut().find(|it| it.is(spelled)) {
            found.multiples = multiples;
        }
    }
}

fn recent() -> MutexGuard<'static, VecDeque<Recent>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::SigningKey;
    use super::*;

    fn signs(key: &VerifyingKey) {
        has_signed(key, &-key.0.to_edwards());
    }

    #[test]
    fn only_keys_that_sign_often_have_multiples() {
        let key = SigningKey::from_seed(&[0xee; 32]).verifying_key();
        let spelled = key.to_bytes();
        assert!(known(&spelled).is_none());
        for _ in 1..OFTEN {
            signs(&key);
            assert!(multiples_of(&spelled).is_none());
            assert_eq!(known(&spelled), Some(key.clone()));
        }
        signs(&key);
        assert!(multiples_of(&spelled).is_some());
        // Others come, and it is forgotten.
        for other in 0..=KEYS {
            let mut seed = [0xdd; 32];
            seed[0] = other as u8;
            signs(&SigningKey::from_seed(&seed).verifying_key());
        }
        assert!(multiples_of(&spelled).is_none() && known(&spelled).is_none());
        assert!(recent().len() <= KEYS);
    }
}
