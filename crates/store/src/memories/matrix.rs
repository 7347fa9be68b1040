//! The vectors of one place, and which of them are nearest to a point.
//!
//! Up to [`EXACT`] all are compared. Of more, those are compared whose signs are most like the point's:
//! one bit for each number is enough to leave out nearly all of them, and takes a thirtieth of the
//! time.

use std::sync::Arc;

/// The vectors of one place, in the order they were made. A copy of it is cheap, so that who searches
/// need not wait for who adds.
#[derive(Debug, Clone, Default)]
pub(super) struct Matrix {
    width: usize,
    /// All but the last have [`CHUNK`] vectors.
    chunks: Vec<Arc<Chunk>>,
}

/// Some of them.
#[derive(Debug, Clone, Default)]
struct Chunk {
    numbers: Vec<i64>,
    /// Of length 1 each, one after the other.
    values: Vec<f32>,
    /// Their signs, likewise.
    signs: Vec<u64>,
}

/// Vectors that are copied when one is added to a matrix that somebody else has too.
const CHUNK: usize = 1024;

/// So many are compared one by one.
const EXACT: usize = 250_000;

/// Of more, so many.
const LIKELY: usize = 8_192;

impl Matrix {
    /// Adds a vector; one of another width than the first is of no use.
    pub(super) fn push(&mut self, number: i64, vector: &[f32]) {
        if self.chunks.is_empty() {
            self.width = vector.len();
        }
        if vector.len() != self.width {
            return;
        }
        let is_full = |chunk: &Arc<Chunk>| chunk.numbers.len() >= CHUNK;
        if self.chunks.last().is_none_or(is_full) {
            self.chunks.push(Arc::default());
        }
        if let Some(last) = self.chunks.last_mut() {
            let last = Arc::make_mut(last);
            last.numbers.push(number);
            last.values.extend_from_slice(vector);
            last.signs.extend(signs(vector));
        }
    }

    pub(super) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, |last| last.numbers.len());
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * (8 + self.width * 4 + self.width.div_ceil(64) * 8)
    }

    /// All of them, with their numbers.
    fn all(&self) -> impl Iterator<Item = (i64, &[f32])> {
        self.chunks.iter().flat_map(|chunk| {
            let values = chunk.values.chunks_exact(self.width.max(1));
            chunk.numbers.iter().copied().zip(values)
        })
    }

    /// One of them by its place.
    fn row(&self, place: usize) -> Option<(i64, &[f32])> {
        let chunk = self.chunks.get(place / CHUNK)?;
        let (at, width) = (place % CHUNK, self.width);
        let values = chunk.values.get(at * width..(at + 1) * width)?;
        Some((*chunk.numbers.get(at)?, values))
    }

    /// The nearest, with how near each is (the cosine), the best first.
    pub(super) fn nearest(
        &self,
        vector: &[f32],
        at_most: usize,
        is_wanted: impl Fn(i64) -> bool,
    ) -> Vec<(i64, f64)> {
        self.nearest_of(vector, at_most, is_wanted, (EXACT, LIKELY))
    }

    fn nearest_of(
        &self,
        vector: &[f32],
        at_most: usize,
        is_wanted: impl Fn(i64) -> bool,
        (exact, likely): (usize, usize),
    ) -> Vec<(i64, f64)> {
        if vector.len() != self.width || self.width == 0 {
            return Vec::new();
        }
        if self.len() <= exact {
            return compare(self.all(), vector, at_most, is_wanted);
        }
        let rows = self.likely(vector, likely, &is_wanted);
        let rows = rows.into_iter().filter_map(|place| self.row(place));
        compare(rows, vector, at_most, |_| true)
    }

    /// The places of those whose signs differ least from the point's.
    fn likely(
        &self,
        vector: &[f32],
        at_most: usize,
        is_wanted: &impl Fn(i64) -> bool,
    ) -> Vec<usize> {
        let point: Vec<u64> = signs(vector).collect();
        let rows = self.chunks.iter().flat_map(|chunk| {
            let signs = chunk.signs.chunks_exact(point.len().max(1));
            signs.zip(&chunk.numbers)
        });
        let mut by_difference = vec![0_usize; self.width + 1];
        let differences: Vec<usize> = rows
            .map(|(row, number)| {
                let differ = row
                    .iter()
                    .zip(&point)
                    .map(|(one, other)| (one ^ other).count_ones());
                let differ = differ.sum::<u32>() as usize;
                match is_wanted(*number) {
                    true => differ,
                    false => usize::MAX,
                }
            })
            .collect();
        for difference in &differences {
            if let Some(count) = by_difference.get_mut(*difference) {
                *count += 1;
            }
        }
        let mut all = 0;
        let enough = by_difference.iter().position(|count| {
            all += count;
            all >= at_most
        });
        let most = enough.unwrap_or(self.width);
        let rows = differences.into_iter().enumerate();
        rows.filter_map(|(row, difference)| (difference <= most).then_some(row))
            .collect()
    }
}

fn compare<'m>(
    rows: impl Iterator<Item = (i64, &'m [f32])>,
    vector: &[f32],
    at_most: usize,
    is_wanted: impl Fn(i64) -> bool,
) -> Vec<(i64, f64)> {
    // A few more than asked for are kept, and now and then the rest is cut off.
    let mut best: Vec<(i64, f32)> = Vec::with_capacity(at_most * 2 + 1);
    let mut worst = f32::NEG_INFINITY;
    for (number, point) in rows {
        let near = dot(point, vector);
        if near > worst && is_wanted(number) {
            best.push((number, near));
            if best.len() > at_most * 2 {
                cut(&mut best, at_most);
                worst = best.last().map_or(worst, |(_, near)| *near);
            }
        }
    }
    cut(&mut best, at_most);
    let best = best.into_iter();
    best.map(|(number, near)| (number, f64::from(near)))
        .collect()
}

/// The signs of a vector, 64 in a number.
fn signs(vector: &[f32]) -> impl Iterator<Item = u64> {
    vector.chunks(64).map(|part| {
        let bits = part.iter().enumerate();
        bits.fold(0, |signs, (at, value)| {
            signs | u64::from(*value > 0.0) << at
        })
    })
}

fn cut(best: &mut Vec<(i64, f32)>, at_most: usize) {
    best.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    best.truncate(at_most);
}

/// Eight sums at a time, which the compiler makes into one instruction.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let (ones, rest) = one.as_chunks::<8>();
    let (others, other_rest) = other.as_chunks::<8>();
    let mut sums = [0.0_f32; 8];
    for (one, other) in ones.iter().zip(others) {
        for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
            *sum += one * other;
        }
    }
    let tail: f32 = rest
        .iter()
        .zip(other_rest)
        .map(|(one, other)| one * other)
        .sum();
    sums.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::super::vectors::normalized;
    use super::*;

    fn matrix(points: &[[f32; 3]]) -> Matrix {
        let mut matrix = Matrix::default();
        for (number, point) in (1..).zip(points) {
            matrix.push(number, &normalized(point).unwrap());
        }
        matrix
    }

    #[test]
    fn the_nearest_comes_first() {
        let matrix = matrix(&[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]);
        let near = matrix.nearest(&normalized(&[2.0, 0.5, 0.0]).unwrap(), 2, |_| true);
        let numbers: Vec<i64> = near.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2]);
        assert!(near[0].1 > near[1].1 && near[0].1 < 1.0);
        let near = matrix.nearest(&[1.0, 0.0, 0.0], 5, |number| number != 1);
        assert_eq!(near.len(), 2);
        assert_eq!(matrix.nearest(&[1.0, 0.0], 5, |_| true), []);
    }

    #[test]
    fn many_are_cut_to_the_best() {
        let mut matrix = Matrix::default();
        for number in 0..1000_i64 {
            let angle = number as f32 / 1000.0;
            matrix.push(number, &[angle.cos(), angle.sin()]);
        }
        let near = matrix.nearest(&[1.0, 0.0], 3, |_| true);
        assert_eq!(
            near.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            [0, 1, 2]
        );
    }

    /// Across the ends of chunks, and with what others have taken before.
    #[test]
    fn many_chunks_are_one_matrix() {
        let count = i64::try_from(CHUNK).unwrap() * 2 + 10;
        let mut matrix = Matrix::default();
        for number in 0..count {
            let angle = number as f32 / count as f32;
            matrix.push(number, &[angle.cos(), angle.sin()]);
        }
        let taken = matrix.clone();
        matrix.push(count, &[1.0, 0.0]);
        assert_eq!(
            (taken.len(), matrix.len()),
            (CHUNK * 2 + 10, CHUNK * 2 + 11)
        );
        assert_eq!(taken.bytes(), taken.len() * (8 + 8 + 8));
        let nearest = |matrix: &Matrix, point: &[f32], exact: usize| {
            matrix.nearest_of(point, 2, |_| true, (exact, CHUNK * 4))
        };
        for (matrix, first) in [(&taken, [0, 1]), (&matrix, [count, 0])] {
            for exact in [0, usize::MAX] {
                let near = nearest(matrix, &[1.0, 0.0], exact);
                let numbers: Vec<i64> = near.iter().map(|(number, _)| *number).collect();
                assert_eq!(numbers, first);
            }
        }
        let (angle, last) = (1.0_f32, count - 1);
        assert_eq!(nearest(&taken, &[angle.cos(), angle.sin()], 0)[0].0, last);
    }

    /// Numbers around 0, the same each time.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        }

        fn point(&mut self) -> Vec<f32> {
            (0..100).map(|_| self.next()).collect()
        }
    }

    /// Of what is really near, nearly all is found among few that are looked at.
    #[test]
    fn signs_lead_to_the_nearest() {
        let mut random = Random(0x5eed);
        let centres: Vec<Vec<f32>> = (0..50).map(|_| random.point()).collect();
        let mut matrix = Matrix::default();
        let mut around = |centre: &[f32]| -> Vec<f32> {
            let moved = centre.iter().map(|value| value + random.next());
            normalized(&moved.collect::<Vec<_>>()).unwrap()
        };
        for number in 0..10_000_i64 {
            let centre = &centres[usize::try_from(number).unwrap() % 50];
            matrix.push(number, &around(centre));
        }
        let (mut found, mut all) = (0, 0);
        for centre in &centres {
            let point = around(centre);
            let exact = matrix.nearest(&point, 10, |number| number % 3 != 0);
            let likely = matrix.nearest_of(&point, 10, |number| number % 3 != 0, (0, 300));
            assert!(likely.iter().all(|(number, _)| number % 3 != 0));
            all += exact.len();
            found += exact.iter().filter(|near| likely.contains(near)).count();
        }
        assert!(found * 100 >= all * 95, "{found} of {all}");
    }
}
