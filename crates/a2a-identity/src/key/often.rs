//! Keys that sign often: multiples of their points are kept, so that less is computed for each signature.
//!
//! To verify is to compute k·A + s·B, most of which is to double a point 250 times. With the multiples of
//! a point at hand that are needed there is nothing to double, and one addition for each digit. The sum is
//! the same point. All of this is public, so it need not take the same time each time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::traits::Identity;
use curve25519_dalek::{EdwardsPoint, Scalar};

/// Bits of a digit of k: 65 KiB for each key.
const KEY_WIDTH: usize = 5;
/// Bits of a digit of s: 320 KiB, once.
const BASE_WIDTH: usize = 8;
/// Signatures after which a key signs often: multiples take as long as three signatures.
const OFTEN: u32 = 16;
/// Keys that are known: of peers that are busy at the same time.
const KEYS: usize = 64;

/// The keys that signed last, the last of all first.
static RECENT: Mutex<VecDeque<Recent>> = Mutex::new(VecDeque::new());
/// Of B, when first needed.
static BASE: OnceLock<Multiples> = OnceLock::new();

struct Recent {
    key: [u8; 32],
    signatures: u32,
    multiples: Option<Arc<Multiples>>,
}

/// Multiples of a point P: in row i of j·2^(2·width·i)·P, for j from 1 to 2^(width-1).
pub(super) struct Multiples {
    width: usize,
    rows: Vec<Vec<EdwardsPoint>>,
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
        let multiples = Arc::new(Multiples::of(minus_a, KEY_WIDTH));
        if let Some(found) = recent().iter_mut().find(|it| it.key == *key) {
            found.multiples = Some(multiples);
        }
    }
}

/// k·P + s·B.
pub(super) fn sum(multiples: &Multiples, k: &Scalar, s: &Scalar) -> EdwardsPoint {
    let base = BASE.get_or_init(|| Multiples::of(&ED25519_BASEPOINT_POINT, BASE_WIDTH));
    multiples.times(k) + base.times(s)
}

fn recent() -> MutexGuard<'static, VecDeque<Recent>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Multiples {
    fn of(point: &EdwardsPoint, width: usize) -> Self {
        let mut first = *point;
        let row = |_| {
            let each = std::iter::successors(Some(first), |last| Some(last + first));
            let row: Vec<EdwardsPoint> = each.take(1 << (width - 1)).collect();
            first = doubled(first, 2 * width);
            row
        };
        let rows = (0..256_usize.div_ceil(2 * width)).map(row).collect();
        Self { width, rows }
    }

    fn times(&self, scalar: &Scalar) -> EdwardsPoint {
        let digits = digits(scalar, self.width);
        let add = |sum, (row, digit): (&Vec<EdwardsPoint>, &i16)| {
            let multiple = |times: u16| row.get(usize::from(times) - 1);
            match digit {
                0 => sum,
                1.. => multiple(digit.unsigned_abs()).map_or(sum, |it| sum + it),
                _ => multiple(digit.unsigned_abs()).map_or(sum, |it| sum - it),
            }
        };
        // Rows are as far apart as two digits, so that there are half as many.
        let odd = self.rows.iter().zip(digits.iter().skip(1).step_by(2));
        let sum = odd.fold(EdwardsPoint::identity(), add);
        let even = self.rows.iter().zip(digits.iter().step_by(2));
        even.fold(doubled(sum, self.width), add)
    }
}

fn doubled(point: EdwardsPoint, times: usize) -> EdwardsPoint {
    (0..times).fold(point, |point, _| point + point)
}

/// The digits of a number below 2^253, the lowest first, each from -2^(width-1) to 2^(width-1).
fn digits(scalar: &Scalar, width: usize) -> Vec<i16> {
    let bytes = scalar.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let whole = 1_i16 << width;
    let mut carry = 0;
    let digit = |index| {
        let bit = index * width;
        let bits = u16::from_le_bytes([byte(bit / 8), byte(bit / 8 + 1)]) >> (bit % 8);
        let digit = (bits & ((1 << width) - 1)) as i16 + carry;
        carry = i16::from(digit > whole / 2);
        digit - carry * whole
    };
    (0..256_usize.div_ceil(width)).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(byte: u8) -> Scalar {
        Scalar::from_bytes_mod_order([byte; 32])
    }

    #[test]
    fn a_sum_of_multiples_is_the_sum() {
        let points = [
            EdwardsPoint::mul_base(&scalar(7)),
            // With a part of small order.
            EdwardsPoint::mul_base(&scalar(7)) + curve25519_dalek::constants::EIGHT_TORSION[1],
        ];
        let largest = -Scalar::ONE;
        let all = (0..=u8::MAX).map(scalar);
        let numbers: Vec<Scalar> = all.chain([largest, Scalar::ONE]).collect();
        for point in points {
            let multiples = Multiples::of(&point, KEY_WIDTH);
            for (k, s) in numbers.iter().zip(numbers.iter().rev()) {
                let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(k, &point, s);
                assert_eq!(sum(&multiples, k, s), expected);
            }
        }
    }

    #[test]
    fn digits_are_the_number() {
        for width in [KEY_WIDTH, BASE_WIDTH] {
            for number in [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, scalar(0xa5)] {
                let digits = digits(&number, width);
                let base = Scalar::from(1_u64 << width);
                let value = digits.iter().rev().fold(Scalar::ZERO, |sum, digit| {
                    let most = 1 << (width - 1);
                    assert!((-most..=most).contains(digit));
                    let size = Scalar::from(u64::from(digit.unsigned_abs()));
                    sum * base + if *digit < 0 { -size } else { size }
                });
                assert_eq!(value, number);
            }
        }
    }

    #[test]
    fn only_keys_that_sign_often_have_multiples() {
        let point = EdwardsPoint::mul_base(&scalar(9));
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
