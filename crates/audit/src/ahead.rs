//! How far the clock is ahead of the log. A clock that is wrong must not make records old: they are
//! purged by their age.
//!
//! A pause of more than [`PAUSE`] between two records may be a clock that was set wrong, or a node
//! that did not run. It counts as [`PAUSE`] until the log has gone on for [`SETTLED`] after it.

use std::io;
use std::time::Duration;

use crate::folder::{Lines, Segment};
use crate::line::Line;
use crate::recover::began;
use crate::verify::End;
use crate::{Clock, Retention, UnixMillis};

/// What a pause between two records counts at most.
const PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Time after which a longer pause counts as a whole.
const SETTLED: Duration = Retention::MIN;

/// A moment on the two clocks that a [`Clock`] has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    time: UnixMillis,
    uptime: Duration,
}

impl Moment {
    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self {
            time: clock.now(),
            uptime: clock.uptime(),
        }
    }

    /// Milliseconds by which the time has advanced more than the uptime since then.
    fn excess(self, since: Self) -> i64 {
        let uptime = self.uptime.saturating_sub(since.uptime);
        between(since.time, self.time).saturating_sub(millis(uptime))
    }
}

/// Milliseconds by which `now` is ahead of the log in these segments, which this process opened at
/// `opened`.
pub(crate) fn ahead(segments: &[Segment], opened: Moment, now: Moment) -> io::Result<i64> {
    let since = now.time.minus(millis(SETTLED));
    let mut ahead = 0_i64;
    let mut last: Option<UnixMillis> = None;
    let mut line = Vec::new();
    for segment in from(segments, since)? {
        let mut lines = Lines::open(segment)?;
        while let Some((_, end)) = lines.next_line(&mut line)? {
            let Some(time) = time_of(&line).filter(|_| end == End::Newline) else {
                continue;
            };
            let pause = last.map_or(0, |last| between(last, time));
            if pause > millis(PAUSE) && time > since {
                ahead = ahead.saturating_add(pause.saturating_sub(millis(PAUSE)));
            } else {
                // A clock that is set back is so much less ahead.
                ahead = ahead.saturating_add(pause.min(0));
            }
            last = Some(time);
        }
    }
    // Without records time passes too, as far as the uptime says so.
    let pause = last.map_or(0, |last| between(last, now.time));
    let pause = pause.min(now.excess(opened)).saturating_sub(millis(PAUSE));
    Ok(ahead.saturating_add(pause.max(0)).max(0))
}

/// The segments from the last one on that began before a time.
fn from(segments: &[Segment], since: UnixMillis) -> io::Result<&[Segment]> {
    for (index, segment) in segments.iter().enumerate().rev() {
        if began(segment)?.is_some_and(|began| began < since) {
            return Ok(segments.get(index..).unwrap_or_default());
        }
    }
    Ok(segments)
}

fn time_of(line: &[u8]) -> Option<UnixMillis> {
    Line::split(line).ok().map(|line| line.link.timestamp)
}

const fn between(from: UnixMillis, to: UnixMillis) -> i64 {
    to.0.saturating_sub(from.0)
}

fn millis(time: Duration) -> i64 {
    time.as_millis().try_into().unwrap_or(i64::MAX)
}
