//! The order of what was found, by what was learned of it.

/// How soon a place counts less: the first is worth a quarter, the fifth an eighth.
const SLOWNESS: f64 = 4.0;

/// Orders what was found by its place and its weight together: what has done well comes forward, what
/// has not falls back, and of equal weights all stay where they are.
pub(crate) fn by_weight<T>(found: Vec<T>, weight: impl Fn(&T) -> f64) -> Vec<T> {
    let mut scored: Vec<(f64, T)> = Vec::with_capacity(found.len());
    let mut place = SLOWNESS;
    for one in found {
        scored.push((weight(&one) / place, one));
        place += 1.0;
    }
    sorted(scored)
}

/// Orders a list whose order says nothing by weight; of equal weights all stay where they are.
pub(crate) fn by_weight_alone<T>(listed: Vec<T>, weight: impl Fn(&T) -> f64) -> Vec<T> {
    let scored = listed.into_iter().map(|one| (weight(&one), one));
    sorted(scored.collect())
}

fn sorted<T>(mut scored: Vec<(f64, T)>) -> Vec<T> {
    // Stable.
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_good_come_forward_and_the_bad_fall_back() {
        let order = |weights: [f64; 4]| -> String {
            let found = vec![
                ('a', weights[0]),
                ('b', weights[1]),
                ('c', weights[2]),
                ('d', weights[3]),
            ];
            let ranked = by_weight(found, |(_, weight)| *weight);
            ranked.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(order([0.5; 4]), "abcd");
        assert_eq!(order([0.5, 0.5, 1.0, 0.5]), "cabd");
        assert_eq!(order([0.05, 0.5, 0.5, 0.5]), "bcda");
        // A little better is not enough to pass the better fit.
        assert_eq!(order([0.5, 0.55, 0.5, 0.5]), "abcd");
    }
}
