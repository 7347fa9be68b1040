//! Contestants that take turns.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use crate::Effort;
use crate::client::{Client, Slice};

/// How many calls are kept in flight, one number after the other.
pub const IN_FLIGHT: [usize; 3] = [1, 16, 64];

/// Something that makes calls.
pub trait Load {
    /// Keeps so many calls in flight for about a slice of time, and waits for the last reply.
    ///
    /// # Errors
    /// If a call fails.
    fn drive(&mut self, in_flight: usize, slice: Duration) -> io::Result<Slice>;
}

impl Load for Client {
    fn drive(&mut self, in_flight: usize, slice: Duration) -> io::Result<Slice> {
        self.tell(in_flight, slice)
    }
}

/// Contestants by their names. Those whose names are neighbours run one after the other.
#[expect(
    missing_debug_implementations,
    reason = "what makes calls has connections, which show nothing"
)]
pub struct Turns<N>(Vec<(Score<N>, Box<dyn Load>)>);

/// What a contestant did.
#[derive(Debug)]
pub struct Score<N> {
    /// Who it is.
    pub name: N,
    /// For each number in flight.
    pub slices: [Vec<Slice>; IN_FLIGHT.len()],
}

impl<N> Default for Turns<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<N: Ord + Copy + Debug> Turns<N> {
    /// One more.
    pub fn add(&mut self, name: N, load: impl Load + 'static) {
        let score = Score {
            name,
            slices: Default::default(),
        };
        self.0.push((score, Box::new(load)));
    }

    /// Runs all of it: a round that does not count, then those that do.
    ///
    /// # Errors
    /// If a call fails, with whose it is.
    pub fn run(&mut self, effort: Effort) -> io::Result<()> {
        self.0.sort_by_key(|(score, _)| score.name);
        for round in 0..=effort.rounds {
            self.round(effort.slice, round > 0)?;
        }
        Ok(())
    }

    /// Runs each contestant once with each number in flight.
    fn round(&mut self, slice: Duration, counts: bool) -> io::Result<()> {
        for (index, in_flight) in IN_FLIGHT.into_iter().enumerate() {
            for (score, load) in &mut self.0 {
                let done = load.drive(in_flight, slice).map_err(|error| {
                    let name = score.name;
                    io::Error::other(format!("{name:?}, {in_flight} in flight: {error}"))
                })?;
                let slices = score.slices.get_mut(index);
                if let Some(slices) = slices.filter(|_| counts) {
                    slices.push(done);
                }
            }
        }
        Ok(())
    }

    /// Ends all of it, and adds what was done to what was done before.
    pub fn add_to(self, scores: &mut Vec<Score<N>>) {
        for (score, _) in self.0 {
            match scores.iter_mut().find(|known| known.name == score.name) {
                Some(known) => {
                    for (slices, more) in known.slices.iter_mut().zip(score.slices) {
                        slices.extend(more);
                    }
                }
                None => scores.push(score),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Log = Rc<RefCell<Vec<&'static str>>>;

    struct Fake(&'static str, f64, Log);

    impl Load for Fake {
        fn drive(&mut self, in_flight: usize, _: Duration) -> io::Result<Slice> {
            self.2.borrow_mut().push(self.0);
            self.1 += 1.0;
            Ok(Slice {
                rate: self.1 * in_flight as f64,
                latency: None,
            })
        }
    }

    #[test]
    fn neighbours_take_turns_and_heats_are_pooled_without_their_first_round() -> io::Result<()> {
        let effort = Effort {
            rounds: 2,
            slice: Duration::ZERO,
        };
        let mut scores = Vec::new();
        for _ in 0..2 {
            let log = Log::default();
            let mut turns = Turns::default();
            for name in ["c", "a", "b"] {
                turns.add(name, Fake(name, 0.0, Rc::clone(&log)));
            }
            turns.run(effort)?;
            let ran = log.borrow();
            assert_eq!(ran.len(), 27);
            assert!(ran.chunks(3).all(|turn| turn == ["a", "b", "c"]));
            turns.add_to(&mut scores);
        }
        assert_eq!(scores.len(), 3);
        for score in &scores {
            let rates = score.slices.each_ref().map(|slices| {
                let rates = slices.iter().map(|slice| slice.rate);
                rates.collect::<Vec<f64>>()
            });
            // The first of three rounds is left out: calls 4 and 7 with one in flight, 5 and 8 with 16, 6 and 9 with 64.
            let expected = [[4.0, 7.0], [80.0, 128.0], [384.0, 576.0]];
            assert_eq!(rates, expected.map(|heat| [heat, heat].concat()));
        }
        Ok(())
    }
}
