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

use self::multiples::Multiples;
pub(super) use self::multiples::sum;

/// Signatures after which a key signs often: multiples take as long as ten checks.
const OFTEN: u32 = 64;
/// Keys that are known: of peers that are busy at the same time.
const KEYS: usize = 64;

/// The keys that signed last, the last of all first.
static RECENT: Mutex<VecDeque<Recent>> = Mutex::new(VecDeque::new());

struct Recent {
    key: [u8; 32],
    signatures: u32,
    multiples: Option<Arc<Multiples>>,
}

/// Those of a key, if it signs often.
pub(super) fn multiples_of(key: &[u8; 32]) -> Option<Arc<Multiples>> {
    let recent = recent();
    let found = recent.iter().find(|it| it.key == *key);
    found.and_then(|it| it.multiples.clone())
}

/// A key has made a signature; `minus_a` is the point whose multiples are needed.
pub(super) fn has_signed(key: &[u8; 32], minus_a: &EdwardsPoint) {
    let is_often = {
        let mut recent = recent();
        let place = recent.iter().position(|it| it.key == *key);
        let mut found = place
            .and_then(|place| recent.remove(place))
            .unwrap_or(Recent {
                key: *key,
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
        if let Some(found) = recent().iter_mut().find(|it| it.key == *key) {
            found.multiples = multiples;
        }
    }
}

fn recent() -> MutexGuard<'static, VecDeque<Recent>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::Scalar;

    use super::*;

    #[test]
    fn only_keys_that_sign_often_have_multiples() {
        let point = EdwardsPoint::mul_base(&Scalar::from_bytes_mod_order([9; 32]));
        let key = [0xee; 32];
        for _ in 1..OFTEN {
            has_signed(&key, &point);
            assert!(multiples_of(&key).is_none());
        }
        has_signed(&key, &point);
        assert!(multiples_of(&key).is_some());
        // Others come, and it is forgotten.
        for other in 0..=KEYS {
            let mut name = [0xdd; 32];
            name[0] = other as u8;
            has_signed(&name, &point);
        }
        assert!(multiples_of(&key).is_none());
        assert!(recent().len() <= KEYS);
    }
}
