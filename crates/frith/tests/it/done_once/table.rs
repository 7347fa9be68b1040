//! The table of docs/done-once.md.

use super::{Class, Ending, Gets};

const CLASSES: [(Class, &str); 5] = [
    (Class::ToolCall, "tool call of an agent"),
    (Class::Intent, "named intent of a peer"),
    (Class::ChainNode, "chain node"),
    (Class::Approval, "approved call"),
    (Class::MemoryWrite, "memory write"),
];

/// What a retry gets, by the way of ending, in the order of the classes.
const TABLE: [(Ending, &str, [Gets; 5]); 15] = {
    use Gets::{ChainFailed, ChainStopped, Executed, Interrupted, Response};
    const RESPONSE: [Gets; 5] = [Response; 5];
    const INTERRUPTED: [Gets; 5] = [Interrupted; 5];
    // A chain has a response of its own.
    const CHAIN_RESPONDS: [Gets; 5] =
        [Interrupted, Interrupted, Response, Interrupted, Interrupted];
    // The next process goes on with a chain.
    const CHAIN_GOES_ON: [Gets; 5] = [
        Interrupted,
        Interrupted,
        ChainFailed,
        Interrupted,
        Interrupted,
    ];
    const NOTHING_WRITTEN: [Gets; 5] = [Response, Response, ChainStopped, Response, Executed];
    const RESTORED: [Gets; 5] = [Response, Interrupted, ChainStopped, Response, Response];
    [
        (Ending::Response, "response", RESPONSE),
        (
            Ending::FullDisk,
            "response, on a full disk",
            NOTHING_WRITTEN,
        ),
        (Ending::Cancel, "cancel", INTERRUPTED),
        (Ending::Deadline, "deadline", CHAIN_RESPONDS),
        (Ending::SessionEnd, "end of the session", INTERRUPTED),
        (Ending::Revocation, "block or revocation", INTERRUPTED),
        (Ending::Panic, "panic", CHAIN_RESPONDS),
        (Ending::Drain, "SIGTERM, within the drain", RESPONSE),
        (Ending::PastDrain, "SIGTERM, past the drain", CHAIN_GOES_ON),
        (Ending::SecondSigterm, "second SIGTERM", CHAIN_GOES_ON),
        (Ending::Kill, "`kill -9`", CHAIN_GOES_ON),
        (
            Ending::ClockBack,
            "`kill -9`, then the clock set back",
            CHAIN_GOES_ON,
        ),
        (
            Ending::ClockAhead,
            "`kill -9`, then the clock set ahead",
            CHAIN_GOES_ON,
        ),
        (Ending::PowerLoss, "power loss", CHAIN_GOES_ON),
        (Ending::RestoredBackup, "restored backup", RESTORED),
    ]
};

/// What a retry gets.
pub(super) fn gets(ending: Ending, class: Class) -> Gets {
    let (_, _, row) = TABLE.iter().find(|row| row.0 == ending).unwrap();
    let column = CLASSES.iter().position(|column| column.0 == class);
    row[column.unwrap()]
}

/// All ways of ending with all classes.
pub(super) fn cells() -> impl Iterator<Item = (Ending, Class)> {
    let row = |ending| CLASSES.map(|(class, _)| (ending, class));
    TABLE.iter().flat_map(move |(ending, ..)| row(*ending))
}

/// What the audit log has of work that ended in this way.
pub(super) fn recorded(ending: Ending, class: Class) -> Option<&'static str> {
    match (ending, class) {
        (Ending::FullDisk, Class::MemoryWrite) => Some("runtime_error"),
        (Ending::Response | Ending::Drain | Ending::RestoredBackup | Ending::FullDisk, _)
        | (Ending::Deadline | Ending::Panic, Class::ChainNode) => Some("success"),
        // A request may take no longer than its session.
        (Ending::Deadline | Ending::SessionEnd, Class::Intent) => Some("TIMEOUT"),
        (Ending::Revocation, Class::Intent) => Some("POLICY_VIOLATION"),
        (Ending::Cancel | Ending::PastDrain, Class::Intent) => Some("CANCELLED"),
        (Ending::Cancel | Ending::Deadline | Ending::SessionEnd | Ending::Revocation, _)
        | (Ending::PastDrain, _) => Some("cancelled"),
        (Ending::Panic, _) => Some("runtime_error"),
        // The process had no time to write it.
        (Ending::SecondSigterm | Ending::Kill | Ending::PowerLoss, _)
        | (Ending::ClockBack | Ending::ClockAhead, _) => None,
    }
}

impl Gets {
    const fn text(self) -> &'static str {
        match self {
            Self::Response => "the response",
            Self::Interrupted => "interrupted",
            Self::ChainFailed | Self::ChainStopped => "the chain's response",
            Self::Executed => "executed",
        }
    }
}

/// The rows of a Markdown table, from the one that begins with this cell on.
fn rows(document: &str, first: &str) -> Vec<Vec<String>> {
    let lines = document.lines().map(str::trim);
    let lines = lines.skip_while(|line| !line.starts_with(&format!("| {first} |")));
    let lines = lines.take_while(|line| line.starts_with('|'));
    let rows = lines.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    });
    rows.collect()
}

/// Neither the document nor the suite changes alone.
#[test]
fn the_document_has_this_table() {
    let path = testkit::workspace().join("docs/done-once.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut rows = rows(&document, "the work ended by").into_iter();
    let names = CLASSES.iter().map(|(_, name)| *name);
    let head: Vec<&str> = ["the work ended by"].into_iter().chain(names).collect();
    assert_eq!(rows.next().unwrap(), head);
    let expected = TABLE.iter().map(|(_, ending, cells)| {
        let cells = cells.iter().map(|cell| cell.text());
        [*ending].into_iter().chain(cells).collect::<Vec<_>>()
    });
    // Below the line under the head.
    assert_eq!(
        rows.skip(1).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
}
