//! Numbers and texts as bytes, for what the host and the stages tell each other. Both ends are the
//! same program, so there are no versions.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub(crate) fn text(&mut self, text: &OsStr) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    /// How many of something follow.
    pub(crate) fn count(&mut self, count: usize) {
        self.number(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> io::Result<T> {
        T::try_from(self.number()?).map_err(|_| cut())
    }

    pub(crate) fn flag(&mut self) -> io::Result<bool> {
        let (flag, rest) = self.0.split_first().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*flag != 0)
    }

    pub(crate) fn text(&mut self) -> io::Result<OsString> {
        let length = self.small()?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(OsString::from_vec(text.to_vec()))
    }

    /// As many of something as were announced.
    pub(crate) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let count: usize = self.small()?;
        (0..count).map(|_| one(self)).collect()
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is not whole")
}
