//! Multiples of a point, and sums of them.

use std::hint::black_box;
use std::sync::OnceLock;

use curve25519_dalek::Scalar;
use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;

use super::point::{Addend, Point};

/// Multiples of a point P: in row i of j·2^(2·width·i)·P, for j from 1 to 2^(width-1).
pub(crate) struct Multiples {
    width: usize,
    rows: Vec<Vec<Addend>>,
}

/// A multiple, to be added or subtracted.
enum Part<'a> {
    Plus(&'a Addend),
    Minus(&'a Addend),
}

/// Bits of a digit of k: 52 KiB for each key.
const KEY_WIDTH: usize = 5;
/// Bits of a digit of s: 256 KiB, once.
const BASE_WIDTH: usize = 8;

/// Of B, when first needed.
static BASE: OnceLock<Option<Multiples>> = OnceLock::new();

impl Multiples {
    /// Those of the point that is spelled so, to be multiplied with k.
    pub(super) fn of_key(bytes: &[u8; 32]) -> Option<Self> {
        Point::from_bytes(bytes).map(|point| Self::of(point, KEY_WIDTH))
    }

    fn of(point: Point, width: usize) -> Self {
        let mut first = point;
        let row = |_| {
            let each = std::iter::successors(Some(first), |last| Some(last.plus_point(&first)));
            let row: Vec<Point> = each.take(1 << (width - 1)).collect();
            first = first.doubled_often(2 * width);
            Addend::of_all(&row)
        };
        let rows = (0..256_usize.div_ceil(2 * width)).map(row).collect();
        Self { width, rows }
    }

    /// What a number is the sum of: multiples for its odd digits, and for its even ones. Rows are as far apart as
    /// two digits, so that there are half as many.
    fn parts(&self, scalar: &Scalar) -> [Vec<Part<'_>>; 2] {
        let digits = digits(scalar, self.width);
        [1, 0].map(|first| {
            let digits = digits.iter().skip(first).step_by(2);
            let mut parts = Vec::with_capacity(self.rows.len());
            parts.extend(self.rows.iter().zip(digits).filter_map(|(row, digit)| {
                let place = usize::from(digit.unsigned_abs()).checked_sub(1)?;
                let multiple = row.get(place)?;
                Some(match digit {
                    1.. => Part::Plus(multiple),
                    _ => Part::Minus(multiple),
                })
            }));
            parts
        })
    }
}

impl Part<'_> {
    fn add_to(&self, sum: &Point) -> Point {
        match self {
            Self::Plus(multiple) => sum.plus(multiple),
            Self::Minus(multiple) => sum.minus(multiple),
        }
    }
}

/// The spelling of k·P + s·B.
pub(crate) fn sum(multiples: &Multiples, k: &Scalar, s: &Scalar) -> Option<[u8; 32]> {
    let base = BASE.get_or_init(|| {
        let point = Point::from_bytes(ED25519_BASEPOINT_COMPRESSED.as_bytes());
        point.map(|point| Multiples::of(point, BASE_WIDTH))
    });
    let base = base.as_ref()?;
    let [odd_of_s, even_of_s] = base.parts(s);
    let [odd_of_k, even_of_k] = multiples.parts(k);
    let all = [&odd_of_s, &odd_of_k, &even_of_s, &even_of_k];
    // Each is looked at before anything is added, so that what is not in the cache is fetched at once and not one by one.
    black_box(all.into_iter().flatten().fold(0, |seen, part| {
        let (Part::Plus(multiple) | Part::Minus(multiple)) = part;
        seen ^ multiple.look()
    }));
    let add = |sum, parts: &[Part<'_>]| parts.iter().fold(sum, |sum, part| part.add_to(&sum));
    let sum = add(Point::IDENTITY, &odd_of_s).doubled_often(BASE_WIDTH - KEY_WIDTH);
    let sum = add(sum, &odd_of_k).doubled_often(KEY_WIDTH);
    Some(add(add(sum, &even_of_s), &even_of_k).to_bytes())
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
    use curve25519_dalek::EdwardsPoint;
    use proptest::prelude::*;

    use super::*;

    fn scalar(byte: u8) -> Scalar {
        Scalar::from_bytes_mod_order([byte; 32])
    }

    fn compare(point: &EdwardsPoint, numbers: impl IntoIterator<Item = (Scalar, Scalar)>) {
        let multiples = Multiples::of_key(&point.compress().to_bytes()).unwrap();
        for (k, s) in numbers {
            let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, point, &s);
            let found = sum(&multiples, &k, &s);
            assert_eq!(found, Some(expected.compress().to_bytes()));
        }
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
            let others = numbers.iter().rev();
            compare(&point, numbers.iter().copied().zip(others.copied()));
        }
    }

    proptest! {
        #[test]
        fn so_it_is_for_any_key(key: [u8; 32], numbers: [([u8; 32], [u8; 32]); 16]) {
            let number = Scalar::from_bytes_mod_order;
            let point = EdwardsPoint::mul_base(&number(key));
            compare(&point, numbers.map(|(k, s)| (number(k), number(s))));
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
}
