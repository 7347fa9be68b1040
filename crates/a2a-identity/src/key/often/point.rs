//! Points of the curve −x² + y² = 1 + d·x²·y², with the formulas of Hisil, Wong, Carter and Dawson (2008), which
//! hold for every two points.

use super::field::{Field, Loose};

/// A point, as x = X/Z, y = Y/Z and T = X·Y/Z.
#[derive(Clone, Copy)]
pub(super) struct Point {
    x: Field,
    y: Field,
    z: Field,
    t: Field,
}

/// A point that is added to others: y + x, y − x and 2·d·x·y. It lies in two lines of the cache and not, as most
/// would that begin anywhere, in three.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Addend {
    sum: Loose,
    difference: Loose,
    product: Loose,
}

impl Point {
    pub(super) const IDENTITY: Self = Self {
        x: Field::ZERO,
        y: Field::ONE,
        z: Field::ONE,
        t: Field::ZERO,
    };

    /// The point that is spelled so, if it is one (RFC 8032 §5.1.3), whatever its spelling.
    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let y = Field::from_bytes(bytes);
        let y_squared = y.squared();
        // x² = (y² − 1) / (d·y² + 1) = u/v
        let u = y_squared.minus(&Field::ONE).carried();
        let v = y_squared.times(&Field::D).plus(&Field::ONE).carried();
        let v_cubed = v.squared().times(&v);
        let v_seventh = v_cubed.squared().times(&v);
        let power = u.times(&v_seventh).to_power_of_root();
        let root = u.times(&v_cubed).times(&power);
        let square = root.squared().times(&v);
        let x = if square == u {
            root
        } else if square == Field::ZERO.minus(&u).carried() {
            root.times(&Field::ROOT_OF_MINUS_ONE)
        } else {
            return None;
        };
        let x = match is_odd(&x) == (bytes[31] & 0x80 != 0) {
            true => x,
            false => Field::ZERO.minus(&x).carried(),
        };
        Some(Self {
            x,
            y,
            z: Field::ONE,
            t: x.times(&y),
        })
    }

    /// Its one spelling.
    pub(super) fn to_bytes(self) -> [u8; 32] {
        let inverse = self.z.inverted();
        let x = self.x.times(&inverse);
        let mut bytes = self.y.times(&inverse).to_bytes();
        bytes[31] |= u8::from(is_odd(&x)) << 7;
        bytes
    }

    pub(super) const fn plus(&self, other: &Addend) -> Self {
        let [a, b, c, d] = self.terms(&other.difference, &other.sum, &other.product);
        Self::of(&b.minus(&a), &d.minus(&c), &d.plus(&c), &b.plus(&a))
    }

    /// The sum with the point whose x has the other sign: sum and difference change places, and so do d ± c.
    pub(super) const fn minus(&self, other: &Addend) -> Self {
        let [a, b, c, d] = self.terms(&other.sum, &other.difference, &other.product);
        Self::of(&b.minus(&a), &d.plus(&c), &d.minus(&c), &b.plus(&a))
    }

    const fn terms(&self, difference: &Loose, sum: &Loose, product: &Loose) -> [Field; 4] {
        let a = self.y.minus(&self.x).times(difference);
        let b = self.y.plus(&self.x).times(sum);
        let c = self.t.loose().times(product);
        let d = self.z.plus(&self.z).carried();
        [a, b, c, d]
    }

    /// A sum with a point of which no more is known.
    pub(super) const fn plus_point(&self, other: &Self) -> Self {
        let a = self.y.minus(&self.x).times(&other.y.minus(&other.x));
        let b = self.y.plus(&self.x).times(&other.y.plus(&other.x));
        let c = Field::D.plus(&Field::D).times(&self.t.loose());
        let c = c.times(&other.t);
        let d = self.z.plus(&self.z).times(&other.z.loose());
        Self::of(&b.minus(&a), &d.minus(&c), &d.plus(&c), &b.plus(&a))
    }

    pub(super) const fn doubled(&self) -> Self {
        let a = self.x.squared();
        let b = self.y.squared();
        let z_squared = self.z.squared();
        let c = z_squared.plus(&z_squared).carried();
        let h = a.plus(&b);
        let e = h.carried().minus(&self.x.plus(&self.y).squared());
        let g = a.minus(&b);
        let f = c.plus(&g.carried());
        Self::of(&e, &f, &g, &h)
    }

    pub(super) fn doubled_often(&self, times: usize) -> Self {
        (0..times).fold(*self, |point, _| point.doubled())
    }

    const fn of(e: &Loose, f: &Loose, g: &Loose, h: &Loose) -> Self {
        Self {
            x: e.times(f),
            y: g.times(h),
            z: f.times(g),
            t: e.times(h),
        }
    }
}

impl Addend {
    /// Points to be added, with one division for all of them.
    pub(super) fn of_all(points: &[Point]) -> Vec<Self> {
        // The product of all before each, and of all.
        let mut product = Field::ONE;
        let before = points.iter().map(|point| {
            let before = product;
            product = product.times(&point.z);
            before
        });
        let before: Vec<Field> = before.collect();
        let mut rest = product.inverted();
        let both = points.iter().zip(&before).rev();
        let mut addends: Vec<Self> = both
            .map(|(point, before)| {
                let inverse = rest.times(before);
                rest = rest.times(&point.z);
                Self::of(&point.x.times(&inverse), &point.y.times(&inverse))
            })
            .collect();
        addends.reverse();
        addends
    }

    fn of(x: &Field, y: &Field) -> Self {
        let product = x.times(y).times(&Field::D);
        Self {
            sum: y.plus(x),
            difference: y.minus(x),
            product: product.plus(&product),
        }
    }

    /// Something of each of its lines of the cache.
    pub(super) const fn look(&self) -> u64 {
        self.sum.first() ^ self.product.first()
    }
}

fn is_odd(number: &Field) -> bool {
    let [first, ..] = number.to_bytes();
    first & 1 == 1
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
    use curve25519_dalek::traits::Identity as _;
    use curve25519_dalek::{EdwardsPoint, Scalar};

    use super::*;

    /// Points of every kind: of both parts of the group, and sums of them.
    fn points() -> Vec<EdwardsPoint> {
        let base = ED25519_BASEPOINT_POINT;
        let some = [1_u64, 2, 3, 77, u64::MAX].map(|number| base * Scalar::from(number));
        let sums = EIGHT_TORSION.map(|point| some[3] + point);
        let all = some.into_iter().chain(EIGHT_TORSION).chain(sums);
        all.chain([EdwardsPoint::identity(), -base]).collect()
    }

    fn ours(point: &EdwardsPoint) -> Point {
        Point::from_bytes(&point.compress().to_bytes()).unwrap()
    }

    #[test]
    fn points_are_spelled_as_they_came() {
        for point in points() {
            let bytes = point.compress().to_bytes();
            assert_eq!(ours(&point).to_bytes(), bytes);
        }
    }

    #[test]
    fn what_is_no_point_is_none() {
        for first in 0..=u8::MAX {
            let mut bytes = [0x3c; 32];
            bytes[0] = first;
            let known = curve25519_dalek::edwards::CompressedEdwardsY(bytes).decompress();
            let found = Point::from_bytes(&bytes).map(Point::to_bytes);
            assert_eq!(found, known.map(|point| point.compress().to_bytes()));
        }
    }

    #[test]
    fn sums_are_those_of_the_group() {
        for one in points() {
            for other in points() {
                let expected = (one + other).compress().to_bytes();
                let (one, other) = (ours(&one), ours(&other));
                // With a Z that is not 1.
                let scaled = other.plus_point(&one);
                let scaled = scaled.minus(&Addend::of_all(&[one])[0]);
                assert_eq!(one.plus_point(&other).to_bytes(), expected);
                assert_eq!(one.plus_point(&scaled).to_bytes(), expected);
                let addends = Addend::of_all(&[scaled, other, scaled]);
                for addend in addends {
                    let sum = one.plus(&addend);
                    assert_eq!(sum.to_bytes(), expected);
                    assert_eq!(sum.minus(&addend).to_bytes(), one.to_bytes());
                }
            }
            let double = (one + one).compress().to_bytes();
            assert_eq!(ours(&one).doubled().to_bytes(), double);
        }
    }
}
