//! How a record stands in a file that is written over and over.
//!
//! Whatever is added is a frame: which life of the file it belongs to, where it stands, how long it is,
//! a sum over its bytes, and the bytes. A record ends before the first frame that is of an earlier
//! life, or whose writing was cut off.

/// What stands before the bytes of a frame.
const HEAD: usize = 32;

/// Adds a frame of this life of a file, to stand at `at`.
pub(super) fn push(frame: &mut Vec<u8>, life: u64, at: u64, bytes: &[u8]) {
    let length = bytes.len() as u64;
    frame.reserve(HEAD.saturating_add(bytes.len()));
    for number in [life, at, length, sum(life, at, bytes)] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    frame.extend_from_slice(bytes);
}

/// What a file has on record.
pub(super) struct Frames<'f> {
    file: &'f [u8],
    life: u64,
    at: usize,
}

impl<'f> Frames<'f> {
    /// The frames of a file, if it begins with one.
    pub(super) fn of(file: &'f [u8]) -> Option<Self> {
        let life = number(file, 0)?;
        let mut frames = Self { file, life, at: 0 };
        frames.next()?;
        frames.at = 0;
        Some(frames)
    }

    pub(super) const fn life(&self) -> u64 {
        self.life
    }

    /// Where the next frame begins.
    pub(super) const fn at(&self) -> u64 {
        self.at as u64
    }
}

impl<'f> Iterator for Frames<'f> {
    type Item = &'f [u8];

    fn next(&mut self) -> Option<&'f [u8]> {
        let head = self.file.get(self.at..)?;
        let [life, at, length, expected] = [0, 8, 16, 24].map(|place| number(head, place));
        let end = HEAD.checked_add(usize::try_from(length?).ok()?)?;
        let bytes = head.get(HEAD..end)?;
        let is_ours = life? == self.life && at? == self.at();
        if !is_ours || sum(self.life, self.at(), bytes) != expected? {
            return None;
        }
        self.at = self.at.checked_add(end)?;
        Some(bytes)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Tells bytes that were all written from others, among them such of which some were not: no
/// protection from who can write the file.
fn sum(life: u64, at: u64, bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    // Four at a time, so that none waits for the one before it.
    let (fours, singles) = words.as_chunks::<4>();
    let mut lanes = [life, at, life ^ FACTOR, bytes.len() as u64];
    for four in fours {
        for (lane, word) in lanes.iter_mut().zip(four) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let singles = singles.iter().chain([&last]);
    let rest = singles.map(|word| u64::from_le_bytes(*word));
    lanes.into_iter().chain(rest).fold(FACTOR, mix)
}

/// Odd, and as irregular as the golden ratio, which it is.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(life: u64, records: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        for record in records {
            let at = file.len() as u64;
            push(&mut file, life, at, record);
        }
        file
    }

    fn read(file: &[u8]) -> Vec<&[u8]> {
        Frames::of(file).into_iter().flatten().collect()
    }

    #[test]
    fn what_was_added_is_read() {
        let long = vec![b'x'; 1000];
        let records: [&[u8]; 4] = [b"", b"one", &long, b"12345678"];
        let file = file(7, &records);
        assert_eq!(read(&file), records);
        let mut frames = Frames::of(&file).unwrap();
        assert_eq!((frames.life(), frames.at()), (7, 0));
        frames.by_ref().for_each(drop);
        assert_eq!(frames.at(), file.len() as u64);
    }

    #[test]
    fn what_is_of_an_earlier_life_is_none_of_it() {
        let earlier = file(7, &[b"aaaa", b"bbbb", b"cccc"]);
        let now = file(8, &[b"AAAA", b"BBBB"]);
        let mut both = earlier;
        both.splice(..now.len(), now.iter().copied());
        assert_eq!(read(&both), [b"AAAA", b"BBBB"]);
    }

    /// Wherever the writing of a frame is cut off, with a frame of the same length behind the cut or
    /// with nothing: what was written before is there, and nothing else.
    #[test]
    fn a_frame_whose_writing_was_cut_off_is_none() {
        let earlier = file(7, &[[b'o'; 23].as_slice(); 3]);
        let now = file(8, &[[b'n'; 23].as_slice(); 3]);
        let second = now.len() / 3;
        for cut in second..second * 2 {
            let mut torn = earlier.clone();
            torn.splice(..cut, now.iter().copied().take(cut));
            assert_eq!(read(&torn).len(), 1, "cut at {cut}");
            torn.truncate(cut);
            assert_eq!(read(&torn).len(), 1, "cut at {cut}, with nothing behind");
        }
    }

    #[test]
    fn every_byte_counts() {
        let good = file(7, &[b"twelve bytes and some more of them, to be sure!"]);
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            assert!(read(&bad).is_empty(), "byte {place}");
        }
        assert!(Frames::of(b"").is_none());
        assert!(Frames::of(&[0xff; 100]).is_none());
    }
}
