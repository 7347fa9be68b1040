//! Signals by their names.

/// The one that nobody can ignore.
pub(super) const KILL: i32 = 9;

/// The signals of Linux on the machines we run on, in the order of their numbers from 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The number of a signal: `SIGTERM`, `term` or `15`.
pub(super) fn number(name: &str) -> Option<i32> {
    if let Ok(number) = name.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let at = NAMES.iter().position(|known| *known == name)?;
    i32::try_from(at).ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (name, expected) in [
            ("SIGTERM", Some(15)),
            ("sigterm", Some(15)),
            ("TERM", Some(15)),
            ("9", Some(KILL)),
            ("SIGKILL", Some(KILL)),
            ("SIGHUP", Some(1)),
            ("SIGSYS", Some(31)),
            ("64", Some(64)),
            ("0", None),
            ("65", None),
            ("-9", None),
            ("SIG", None),
            ("", None),
            ("SIGNAL", None),
        ] {
            assert_eq!(number(name), expected, "{name}");
        }
    }
}
