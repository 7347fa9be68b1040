//! The tests of the cells. Every day runs each way of ending with a tool call and with an intent, and each
//! class of work; `cargo xtask full` runs all.

use super::{Class, Ending, panics, table, walk};

/// Tests of cells, and the list of these.
macro_rules! cells {
    (EVERY_DAY: $($name:ident $ending:ident $class:ident;)*) => {
        const EVERY_DAY: &[(Ending, Class)] = &[$((Ending::$ending, Class::$class)),*];
        $(
            #[test]
            fn $name() {
                walk(Ending::$ending, Class::$class);
            }
        )*
    };
    (IN_FULL: $($name:ident $ending:ident $class:ident;)*) => {
        const IN_FULL: &[(Ending, Class)] = &[$((Ending::$ending, Class::$class)),*];
        $(
            #[test]
            #[ignore = "takes a minute with the others: `cargo xtask full` runs it"]
            fn $name() {
                walk(Ending::$ending, Class::$class);
            }
        )*
    };
}

cells! {
    EVERY_DAY:
    tool_call_that_was_answered Response ToolCall;
    intent_that_was_answered Response Intent;
    tool_call_that_ended_on_a_full_disk FullDisk ToolCall;
    intent_that_ended_on_a_full_disk FullDisk Intent;
    tool_call_that_was_cancelled Cancel ToolCall;
    intent_that_was_cancelled Cancel Intent;
    tool_call_that_was_late Deadline ToolCall;
    intent_that_was_late Deadline Intent;
    tool_call_that_lost_its_session SessionEnd ToolCall;
    tool_call_that_was_revoked Revocation ToolCall;
    intent_that_was_revoked Revocation Intent;
    tool_call_that_ended_within_the_drain Drain ToolCall;
    intent_that_ended_within_the_drain Drain Intent;
    tool_call_that_outlasted_the_drain PastDrain ToolCall;
    intent_that_outlasted_the_drain PastDrain Intent;
    tool_call_that_was_stopped_at_once SecondSigterm ToolCall;
    intent_that_was_stopped_at_once SecondSigterm Intent;
    tool_call_that_was_killed Kill ToolCall;
    intent_that_was_killed Kill Intent;
    chain_that_was_killed Kill ChainNode;
    approved_call_that_was_killed Kill Approval;
    memory_write_that_was_killed Kill MemoryWrite;
    tool_call_that_was_killed_before_the_clock_went_back ClockBack ToolCall;
    intent_that_was_killed_before_the_clock_went_back ClockBack Intent;
    tool_call_that_was_killed_before_the_clock_went_ahead ClockAhead ToolCall;
    intent_that_was_killed_before_the_clock_went_ahead ClockAhead Intent;
    tool_call_that_lost_power PowerLoss ToolCall;
    intent_that_lost_power PowerLoss Intent;
    tool_call_that_was_open_in_a_backup RestoredBackup ToolCall;
    intent_that_was_open_in_a_backup RestoredBackup Intent;
}

cells! {
    IN_FULL:
    intent_that_lost_its_session SessionEnd Intent;
    chain_that_was_answered Response ChainNode;
    approved_call_that_was_answered Response Approval;
    memory_write_that_was_answered Response MemoryWrite;
    chain_that_ended_on_a_full_disk FullDisk ChainNode;
    approved_call_that_ended_on_a_full_disk FullDisk Approval;
    memory_write_that_ended_on_a_full_disk FullDisk MemoryWrite;
    chain_that_was_cancelled Cancel ChainNode;
    approved_call_that_was_cancelled Cancel Approval;
    memory_write_that_was_cancelled Cancel MemoryWrite;
    chain_that_was_late Deadline ChainNode;
    approved_call_that_was_late Deadline Approval;
    memory_write_that_was_late Deadline MemoryWrite;
    chain_that_lost_its_session SessionEnd ChainNode;
    approved_call_that_lost_its_session SessionEnd Approval;
    memory_write_that_lost_its_session SessionEnd MemoryWrite;
    chain_that_was_revoked Revocation ChainNode;
    approved_call_that_was_revoked Revocation Approval;
    memory_write_that_was_revoked Revocation MemoryWrite;
    chain_that_ended_within_the_drain Drain ChainNode;
    approved_call_that_ended_within_the_drain Drain Approval;
    memory_write_that_ended_within_the_drain Drain MemoryWrite;
    chain_that_outlasted_the_drain PastDrain ChainNode;
    approved_call_that_outlasted_the_drain PastDrain Approval;
    memory_write_that_outlasted_the_drain PastDrain MemoryWrite;
    chain_that_was_stopped_at_once SecondSigterm ChainNode;
    approved_call_that_was_stopped_at_once SecondSigterm Approval;
    memory_write_that_was_stopped_at_once SecondSigterm MemoryWrite;
    chain_that_was_killed_before_the_clock_went_back ClockBack ChainNode;
    approved_call_that_was_killed_before_the_clock_went_back ClockBack Approval;
    memory_write_that_was_killed_before_the_clock_went_back ClockBack MemoryWrite;
    chain_that_was_killed_before_the_clock_went_ahead ClockAhead ChainNode;
    approved_call_that_was_killed_before_the_clock_went_ahead ClockAhead Approval;
    memory_write_that_was_killed_before_the_clock_went_ahead ClockAhead MemoryWrite;
    chain_that_lost_power PowerLoss ChainNode;
    approved_call_that_lost_power PowerLoss Approval;
    memory_write_that_lost_power PowerLoss MemoryWrite;
    chain_that_was_open_in_a_backup RestoredBackup ChainNode;
    approved_call_that_was_open_in_a_backup RestoredBackup Approval;
    memory_write_that_was_open_in_a_backup RestoredBackup MemoryWrite;
}

#[test]
fn every_cell_has_one_test() {
    let tests = [EVERY_DAY, IN_FULL, panics::CELLS].concat();
    for cell in table::cells() {
        let count = tests.iter().filter(|test| **test == cell).count();
        assert_eq!(count, 1, "{cell:?}");
    }
}
