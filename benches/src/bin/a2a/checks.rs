//! The checks of replay, rate and sequence, with much and with little behind them.

use std::hash::Hash;
use std::io;
use std::time::Duration;

use a2a_session::{Memory, Window};
use benches::report::Figure;
use benches::{Contestant, Effort, compare};
use canonical::Digest;
use policy::{Buckets, Rate};

/// Nanoseconds that a check may take.
const MOST: f64 = 1000.0;

/// How many things are remembered: few, and as many as a node remembers at most.
const IDS: [usize; 2] = [10, 100_000];
const NONCES: [usize; 2] = [10, 262_144];
const AGENTS: [usize; 2] = [10, 99_999];

pub(crate) fn measure(effort: Effort) -> io::Result<Vec<Figure>> {
    let mut names = Vec::new();
    let mut contestants = Vec::new();
    for counter in [1, 1_000_000] {
        names.push(format!("sequence, after {counter} messages"));
        let mut window = Window::default();
        let mut counter: u64 = counter;
        contestants.push(Contestant::new("sequence", move || {
            // In no order, as over HTTP/2.
            counter += 1;
            window.take(counter ^ 7)
        }));
    }
    for ids in IDS {
        names.push(format!("replay of a request id, {ids} remembered"));
        contestants.push(remembering("request id", ids, |number| {
            u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        }));
    }
    for nonces in NONCES {
        names.push(format!("replay of a handshake, {nonces} remembered"));
        contestants.push(remembering("nonce", nonces, |number| {
            Digest::of(&number.to_be_bytes())
        }));
    }
    for agents in AGENTS {
        names.push(format!("rate, {agents} agents"));
        contestants.push(asking(agents)?);
    }
    let times = compare(&mut contestants, effort);
    let figures = names.iter().zip(times);
    let figures = figures.map(|(name, time)| Figure::new(name, time * 1e9, "ns", Some(MOST)));
    Ok(figures.collect())
}

/// Looks a new thing up and remembers it, while as many old ones are forgotten.
fn remembering<K: Hash + Eq + Clone + 'static>(
    name: &'static str,
    room: usize,
    key: impl Fn(u64) -> K + 'static,
) -> Contestant<'static> {
    let keep = Duration::from_micros(u64::try_from(room).unwrap_or(u64::MAX));
    let mut memory = Memory::new(keep, room.saturating_mul(2));
    let mut number = 0_u64;
    let mut one = move || {
        number += 1;
        let now = Duration::from_micros(number);
        let key = key(number);
        !memory.contains(now, &key) && memory.insert(now, key).is_ok()
    };
    for _ in 0..room {
        one();
    }
    Contestant::new(name, one)
}

/// Takes a token of all newcomers, of an agent and of its session.
fn asking(agents: usize) -> io::Result<Contestant<'static>> {
    // Nobody asks too often, and no bucket is full again before it is asked for the next time.
    let rate = Rate::new(10_000_000, 2_592_000).ok_or_else(|| io::Error::other("no such rate"))?;
    let of = |what: &str| -> Vec<Digest> {
        let names = (0..agents).map(|agent| format!("{what} {agent}"));
        names.map(|name| Digest::of(name.as_bytes())).collect()
    };
    let (keys, sessions, everybody) = (of("agent"), of("session"), Digest::of(b"everybody"));
    let mut buckets = Buckets::new(200_000);
    let mut number = 0_usize;
    let mut one = move || {
        number += 1;
        // Agents come in no order.
        let agent = number.wrapping_mul(40_503) % agents;
        let now = Duration::from_micros(u64::try_from(number).unwrap_or(u64::MAX));
        let (Some(key), Some(session)) = (keys.get(agent), sessions.get(agent)) else {
            return false;
        };
        let wanted = [(&everybody, rate), (session, rate), (key, rate)];
        buckets.take(now, wanted).is_ok()
    };
    for _ in 0..agents {
        one();
    }
    Ok(Contestant::new("rate", one))
}
