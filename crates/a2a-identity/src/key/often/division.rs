//! Division modulo p = 2^255 − 19 by the steps of Bernstein and Yang (2019), 62 of them at a time, of which one word of
//! each number tells enough.
//!
//! It takes a third of the time of the power p − 2. How long depends on the number, so it is for numbers that everybody
//! may know.

/// Limbs of 62 bits, the lowest first. All but the last are from 0 to 2^62 − 1; the last has the sign.
type Number = [i64; 5];

/// p, with a first limb that owes something to the last.
const P: Number = [-19, 0, 0, 0, 1 << 7];
const LIMB: u32 = 62;
const LOW: i64 = (1 << LIMB) - 1;
const ONE_BY_P: i64 = one_by_p();
/// 741 steps divide by any number below 2^256.
const BATCHES: usize = 12;

/// What a batch of steps makes of two numbers f and g: (u·f + v·g)/2^62 and (q·f + r·g)/2^62.
struct Batch {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// 1 divided by a number below p; 0 of 0.
pub(super) fn one_by(number: &[u8; 32]) -> Option<[u8; 32]> {
    let (mut f, mut g) = (P, from_bytes(number));
    // f is d times the number, and g is e times the number.
    let (mut d, mut e): (Number, Number) = ([0; 5], [1, 0, 0, 0, 0]);
    let mut eta = -1;
    for _ in 0..BATCHES {
        let batch = Batch::of(&mut eta, f[0], g[0]);
        (f, g) = batch.of_both(&f, &g);
        (d, e) = batch.of_both_modulo_p(&d, &e);
        if g == [0; 5] {
            // f is 1 or −1, or p if the number is 0.
            return Some(to_bytes(&below_p(d, f[4] < 0)));
        }
    }
    None
}

impl Batch {
    /// 62 steps. All zeros that g ends in are taken at once; then as much of f is added as makes it end in more, but
    /// no more than the two may have before they change places.
    fn of(eta: &mut i64, f: i64, g: i64) -> Self {
        let (mut f, mut g) = (f, g);
        let (mut u, mut v, mut q, mut r) = (1_i64, 0_i64, 0_i64, 1_i64);
        let mut left = LIMB;
        loop {
            let zeros = (g | -1 << left).trailing_zeros();
            g >>= zeros;
            (u, v) = (u << zeros, v << zeros);
            *eta -= i64::from(zeros);
            left -= zeros;
            if left == 0 {
                return Self { u, v, q, r };
            }
            if *eta < 0 {
                *eta = -*eta;
                (f, g) = (g, f.wrapping_neg());
                (u, q) = (q, -u);
                (v, r) = (r, -v);
            }
            // f is odd, so that f·(f² − 2) is −1/f modulo 2^6.
            let most = (*eta + 1).min(i64::from(left)).min(6);
            let inverse = f.wrapping_mul(f.wrapping_mul(f).wrapping_sub(2));
            let times = g.wrapping_mul(inverse) & ((1 << most) - 1);
            g = g.wrapping_add(f.wrapping_mul(times));
            q += u * times;
            r += v * times;
        }
    }

    /// Whole numbers, by the choice of the steps.
    fn of_both(&self, f: &Number, g: &Number) -> (Number, Number) {
        let of_one = |one, other| divided(sums((one, f), (other, g)));
        (of_one(self.u, self.v), of_one(self.q, self.r))
    }

    /// For numbers from −2·p to p, which the new ones are too: as much of p is added as makes them whole.
    fn of_both_modulo_p(&self, d: &Number, e: &Number) -> (Number, Number) {
        let of_one = |one: i64, other: i64| {
            let mut sums = sums((one, d), (other, e));
            let negative = |factor, number: &Number| if number[4] < 0 { factor } else { 0 };
            let times = negative(one, d) + negative(other, e);
            let rest = ONE_BY_P.wrapping_mul(sums[0] as i64).wrapping_add(times) & LOW;
            let times = times - rest;
            sums[0] += wide(P[0], times);
            sums[4] += wide(P[4], times);
            divided(sums)
        };
        (of_one(self.u, self.v), of_one(self.q, self.r))
    }
}

const fn wide(one: i64, other: i64) -> i128 {
    one as i128 * other as i128
}

/// u·f + v·g, limb by limb.
fn sums((u, f): (i64, &Number), (v, g): (i64, &Number)) -> [i128; 5] {
    let [f0, f1, f2, f3, f4] = f.map(|limb| wide(u, limb));
    let [g0, g1, g2, g3, g4] = g.map(|limb| wide(v, limb));
    [f0 + g0, f1 + g1, f2 + g2, f3 + g3, f4 + g4]
}

/// A number that ends in 62 zeros, without them.
fn divided([first, second, third, fourth, fifth]: [i128; 5]) -> Number {
    let low = |sum| sum as i64 & LOW;
    let second = second + (first >> LIMB);
    let third = third + (second >> LIMB);
    let fourth = fourth + (third >> LIMB);
    let fifth = fifth + (fourth >> LIMB);
    let last = (fifth >> LIMB) as i64;
    [low(second), low(third), low(fourth), low(fifth), last]
}

/// Of a number from −2·p to p, or of what it is the negative of, the one that is from 0 to p.
fn below_p(number: Number, is_negated: bool) -> Number {
    let sign = if is_negated { -1 } else { 1 };
    let number = not_negative(number).map(|limb| limb * sign);
    not_negative(carried(number))
}

/// The number, or if it is negative, p more than that.
fn not_negative(number: Number) -> Number {
    let [first, second, third, fourth, fifth] = number;
    match fifth < 0 {
        true => carried([first + P[0], second, third, fourth, fifth + P[4]]),
        false => number,
    }
}

fn carried([first, second, third, fourth, fifth]: Number) -> Number {
    let second = second + (first >> LIMB);
    let third = third + (second >> LIMB);
    let fourth = fourth + (third >> LIMB);
    let fifth = fifth + (fourth >> LIMB);
    let low = |limb| limb & LOW;
    [low(first), low(second), low(third), low(fourth), fifth]
}

fn from_bytes(bytes: &[u8; 32]) -> Number {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |place| words.get(place).copied().map_or(0, u64::from_le_bytes);
    let [first, second, third, fourth] = [0, 1, 2, 3].map(word);
    let low = |limb| limb as i64 & LOW;
    [
        low(first),
        low(first >> 62 | second << 2),
        low(second >> 60 | third << 4),
        low(third >> 58 | fourth << 6),
        low(fourth >> 56),
    ]
}

fn to_bytes(number: &Number) -> [u8; 32] {
    let [first, second, third, fourth, fifth] = number.map(|limb| limb as u64);
    let words = [
        first | second << 62,
        second >> 2 | third << 60,
        third >> 4 | fourth << 58,
        fourth >> 6 | fifth << 56,
    ];
    let mut bytes = [0; 32];
    let (places, _) = bytes.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

/// 1/p modulo 2^62. Each step of Newton's doubles the bits that are right, of which there are three at first.
const fn one_by_p() -> i64 {
    let mut inverse = P[0];
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_i64.wrapping_sub(P[0].wrapping_mul(inverse)));
        step += 1;
    }
    inverse & LOW
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::field::Field;
    use super::*;

    /// The largest y of a point, p − 1.
    const LAST: [u8; 32] = {
        let mut bytes = [0xff; 32];
        bytes[0] = 0xec;
        bytes[31] = 0x7f;
        bytes
    };

    fn check(bytes: [u8; 32]) {
        let number = Field::from_bytes(&bytes);
        let found = one_by(&number.to_bytes());
        assert_eq!(
            found,
            Some(number.power_of_inverse().to_bytes()),
            "{bytes:?}"
        );
    }

    #[test]
    fn it_is_the_power_of_p_minus_2() {
        assert_eq!(one_by(&[0; 32]), Some([0; 32]));
        assert_eq!(one_by(&LAST), Some(LAST));
        for bit in 0..255 {
            let mut bytes = [0; 32];
            bytes[bit / 8] = 1 << (bit % 8);
            check(bytes);
            // With ones below it, or above it.
            let mut ones = [0; 32];
            ones[..bit / 8].fill(0xff);
            check(ones);
            check(ones.map(|byte| !byte));
            let mut less = LAST;
            less[bit / 8] ^= 1 << (bit % 8);
            check(less);
        }
    }

    proptest! {
        #[test]
        fn so_it_is_of_any_number(numbers: [[u8; 32]; 16]) {
            numbers.into_iter().for_each(check);
        }
    }
}
