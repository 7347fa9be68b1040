//! What is known of a log outside its folder. A log that is gone as a whole, or was put back to what it
//! was earlier, is as sound as any: only somebody who remembers misses the rest.

use crate::Head;
use crate::recover::ordinal;

/// Remembers how far a log had come, somewhere else than in its folder. It need not survive a power
/// failure, and need not be right: what it says is not proof, but a reason to say that something is
/// missing.
pub trait Remembered: Send {
    /// What was saved last; `None` if nothing was, or nobody knows.
    fn load(&self) -> Option<Head>;

    /// The log has come so far, and that is signed. It runs on the thread that writes.
    fn save(&self, head: &Head);
}

/// Remembers nothing.
pub(crate) struct Nothing;

impl Remembered for Nothing {
    fn load(&self) -> Option<Head> {
        None
    }

    fn save(&self, _: &Head) {}
}

impl Head {
    /// What is missing of a log that ends here (`None`: there is no log), in one word, if it had come
    /// as far as is remembered.
    #[must_use]
    pub fn lacks(end: Option<&Self>, remembered: &Self) -> Option<&'static str> {
        let Some(end) = end else {
            return Some("missing_log");
        };
        if end.log_id == remembered.log_id {
            let is_other = end.seq == remembered.seq && end.hash != remembered.hash;
            return (end.seq < remembered.seq || is_other).then_some("missing_records");
        }
        // Another log was begun since, and says why.
        (ordinal(&end.log_id) <= ordinal(&remembered.log_id)).then_some("missing_log")
    }
}

#[cfg(test)]
mod tests {
    use canonical::Digest;

    use super::*;

    fn head(log_id: &str, seq: u64, text: &str) -> Head {
        Head {
            log_id: log_id.into(),
            seq,
            hash: Digest::of(text.as_bytes()),
        }
    }

    #[test]
    fn what_was_remembered_is_missed() {
        let remembered = head("log-2-a", 7, "x");
        for (end, missing) in [
            (head("log-2-a", 7, "x"), None),
            (head("log-2-a", 8, "y"), None),
            (head("log-3-b", 1, "y"), None),
            (head("log-2-a", 7, "y"), Some("missing_records")),
            (head("log-2-a", 6, "x"), Some("missing_records")),
            (head("log-2-b", 9, "x"), Some("missing_log")),
            (head("log-1-c", 9, "x"), Some("missing_log")),
        ] {
            assert_eq!(Head::lacks(Some(&end), &remembered), missing, "{end:?}");
        }
        assert_eq!(Head::lacks(None, &remembered), Some("missing_log"));
        assert!(Nothing.load().is_none());
    }
}
