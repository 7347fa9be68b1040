//! Numbers modulo p = 2^255 − 19, by the arithmetic that fiat-crypto derives from its proof.
//!
//! Its two types are kept: a sum that was not carried may be multiplied and not added to again, and it is the
//! compiler that sees to that.

use fiat_crypto::curve25519_64 as fiat;

use super::division::one_by;

/// A number.
#[derive(Clone, Copy)]
pub(super) struct Field(fiat::fiat_25519_tight_field_element);

/// A sum or a difference of two, to be multiplied.
#[derive(Clone, Copy)]
pub(super) struct Loose(fiat::fiat_25519_loose_field_element);

impl Field {
    pub(super) const ZERO: Self = Self::of_limbs([0; 5]);
    pub(super) const ONE: Self = Self::of_limbs([1, 0, 0, 0, 0]);
    /// d of the curve, −121665/121666.
    pub(super) const D: Self = Self::of_limbs([
        929_955_233_495_203,
        466_365_720_129_213,
        1_662_059_464_998_953,
        2_033_849_074_728_123,
        1_442_794_654_840_575,
    ]);
    /// A square root of −1.
    pub(super) const ROOT_OF_MINUS_ONE: Self = Self::of_limbs([
        1_718_705_420_411_056,
        234_908_883_556_509,
        2_233_514_472_574_048,
        2_117_202_627_021_982,
        765_476_049_583_133,
    ]);

    /// Of 51 bits each, the lowest first.
    const fn of_limbs(limbs: [u64; 5]) -> Self {
        Self(fiat::fiat_25519_tight_field_element(limbs))
    }

    /// The number in the 255 low bits.
    pub(super) const fn from_bytes(bytes: &[u8; 32]) -> Self {
        let mut bytes = *bytes;
        bytes[31] &= 0x7f;
        let mut number = Self::ZERO;
        fiat::fiat_25519_from_bytes(&mut number.0, &bytes);
        number
    }

    /// Its one spelling.
    pub(super) const fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        fiat::fiat_25519_to_bytes(&mut bytes, &self.0);
        bytes
    }

    pub(super) const fn plus(&self, other: &Self) -> Loose {
        let mut sum = Loose::ZERO;
        fiat::fiat_25519_add(&mut sum.0, &self.0, &other.0);
        sum
    }

    pub(super) const fn minus(&self, other: &Self) -> Loose {
        let mut difference = Loose::ZERO;
        fiat::fiat_25519_sub(&mut difference.0, &self.0, &other.0);
        difference
    }

    pub(super) const fn times(&self, other: &Self) -> Self {
        self.loose().times(&other.loose())
    }

    pub(super) const fn squared(&self) -> Self {
        self.loose().squared()
    }

    pub(super) const fn loose(&self) -> Loose {
        let mut loose = Loose::ZERO;
        fiat::fiat_25519_relax(&mut loose.0, &self.0);
        loose
    }

    /// 1 divided by it; 0 of 0.
    pub(super) fn inverted(&self) -> Self {
        let inverse = one_by(&self.to_bytes()).map(|bytes| Self::from_bytes(&bytes));
        // It is cheap to see, and this is what a signature hangs on.
        let inverse = inverse.filter(|inverse| self.times(inverse) == Self::ONE);
        inverse.unwrap_or_else(|| self.power_of_inverse())
    }

    /// To the power of p − 2 = (2^250 − 1)·2^5 + 11, which is the same.
    pub(super) fn power_of_inverse(self) -> Self {
        let (ones, eleven) = self.to_power_of_ones();
        ones.squared_often(5).times(&eleven)
    }

    /// To the power of (p − 5)/8 = 2^252 − 3.
    pub(super) fn to_power_of_root(self) -> Self {
        let (ones, _) = self.to_power_of_ones();
        ones.squared_often(2).times(&self)
    }

    /// To the powers of 2^250 − 1, which is 250 ones, and of 11.
    fn to_power_of_ones(self) -> (Self, Self) {
        let nine = self.squared_often(3).times(&self);
        let eleven = nine.times(&self.squared());
        let ones_5 = eleven.squared().times(&nine);
        let ones_10 = ones_5.squared_often(5).times(&ones_5);
        let ones_20 = ones_10.squared_often(10).times(&ones_10);
        let ones_40 = ones_20.squared_often(20).times(&ones_20);
        let ones_50 = ones_40.squared_often(10).times(&ones_10);
        let ones_100 = ones_50.squared_often(50).times(&ones_50);
        let ones_200 = ones_100.squared_often(100).times(&ones_100);
        (ones_200.squared_often(50).times(&ones_50), eleven)
    }

    fn squared_often(&self, times: u32) -> Self {
        (0..times).fold(*self, |number, _| number.squared())
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Loose {
    const ZERO: Self = Self(fiat::fiat_25519_loose_field_element([0; 5]));

    pub(super) const fn times(&self, other: &Self) -> Field {
        let mut product = Field::ZERO;
        fiat::fiat_25519_carry_mul(&mut product.0, &self.0, &other.0);
        product
    }

    pub(super) const fn squared(&self) -> Field {
        let mut square = Field::ZERO;
        fiat::fiat_25519_carry_square(&mut square.0, &self.0);
        square
    }

    /// The lowest limb.
    pub(super) const fn first(&self) -> u64 {
        let [first, ..] = self.0.0;
        first
    }

    /// A number again.
    pub(super) const fn carried(&self) -> Field {
        let mut number = Field::ZERO;
        fiat::fiat_25519_carry(&mut number.0, &self.0);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(small: u64) -> Field {
        Field::of_limbs([small, 0, 0, 0, 0])
    }

    #[test]
    fn the_constants_are_what_they_are_said_to_be() {
        let minus_one = Field::ZERO.minus(&Field::ONE).carried();
        assert!(Field::ROOT_OF_MINUS_ONE.squared() == minus_one);
        let minus = Field::ZERO.minus(&number(121_665)).carried();
        assert!(Field::D.times(&number(121_666)) == minus);
    }

    #[test]
    fn powers_are_those_of_their_exponents() {
        let bytes = |last: u8| {
            let mut bytes = [0xa7; 32];
            bytes[31] = last;
            bytes
        };
        // p − 1, p and p + 1 in other spellings, and any.
        let mut large = [0xff; 32];
        for first in [0xec, 0xed, 0xee] {
            large[0] = first;
            let number = Field::from_bytes(&large);
            let expected = match first {
                0xed => Field::ZERO,
                _ => Field::ONE,
            };
            assert!(number.times(&number.inverted()) == expected);
            assert!(number.squared() == expected);
        }
        for last in 0..=0x7f {
            let number = Field::from_bytes(&bytes(last));
            assert_eq!(number.to_bytes(), bytes(last));
            assert!(number.times(&number.inverted()) == Field::ONE);
            // 8·(2^252 − 3) = p − 5 = (p − 1) − 4, and the power of p − 1 is 1.
            let eighth = number.to_power_of_root().squared_often(3);
            assert!(eighth.times(&number.squared_often(2)) == Field::ONE);
        }
    }
}
