//! A filter of system calls as the kernel takes it: a search tree over their numbers.
//!
//! The kernel checks, translates and compiles the whole filter for every command that is started, and
//! runs some of it for every call that it has not seen to be allowed in any case. A list of some 300
//! numbers is almost seven times as long as a tree over the ranges they form.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{BpfProgram, sock_filter};

/// What is done about a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is made.
    Allow,
    /// It fails with this error.
    Fail(u32),
    /// It is made if its arguments pass all tests of one of these lists, or is not permitted.
    When(Vec<Vec<Test>>),
}

/// A test of the lower half of an argument, of which the kernel uses no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) argument: u32,
    /// The bits that are looked at.
    pub(super) mask: u32,
    pub(super) value: u32,
    /// Whether they are to be the value, or to be something else.
    pub(super) equal: bool,
}

impl Test {
    /// An argument is this.
    pub(super) const fn is(argument: u32, value: u32) -> Self {
        Self::bits(argument, u32::MAX, value)
    }

    /// Some bits of an argument are these.
    pub(super) const fn bits(argument: u32, mask: u32, value: u32) -> Self {
        Self {
            argument,
            mask,
            value,
            equal: true,
        }
    }

    /// An argument is anything but this.
    pub(super) const fn is_not(argument: u32, value: u32) -> Self {
        Self {
            equal: false,
            ..Self::is(argument, value)
        }
    }
}

/// What calls that are not named, and arguments that pass no test, are told.
pub(super) const REFUSED: Answer = Answer::Fail(libc::EPERM.cast_unsigned());

/// The filter that answers calls by their numbers. Calls of another architecture than `machine` end
/// the process.
pub(super) fn compile(machine: u32, answers: &BTreeMap<u32, Answer>) -> BpfProgram {
    let mut filter = vec![
        load(ARCHITECTURE),
        jump(EQUAL, machine, 1, 0),
        give(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    filter.extend(tree(&ranges(answers)));
    filter
}

/// From which number on there is which answer.
fn ranges(answers: &BTreeMap<u32, Answer>) -> Vec<(u32, &Answer)> {
    let mut ranges: Vec<(u32, &Answer)> = Vec::new();
    let mut add = |from: u32, answer| {
        if ranges.last().is_none_or(|(_, before)| *before != answer) {
            ranges.push((from, answer));
        }
    };
    let mut next = 0;
    for (number, answer) in answers {
        if *number > next {
            add(next, &REFUSED);
        }
        add(*number, answer);
        next = number.saturating_add(1);
    }
    add(next, &REFUSED);
    ranges
}

/// Finds the range that a number is in by halves.
fn tree(ranges: &[(u32, &Answer)]) -> BpfProgram {
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let Some((middle, answer)) = high.first() else {
        return Vec::new();
    };
    if low.is_empty() {
        return leaf(answer);
    }
    let low = tree(low);
    // A conditional jump reaches as far as one byte.
    let mut code = match u8::try_from(low.len()) {
        Ok(over) => vec![jump(AT_LEAST, *middle, over, 0)],
        Err(_) => {
            let over = u32::try_from(low.len()).unwrap_or(u32::MAX);
            vec![jump(AT_LEAST, *middle, 0, 1), jump(ALWAYS, over, 0, 0)]
        }
    };
    code.extend(low);
    code.extend(tree(high));
    code
}

fn leaf(answer: &Answer) -> BpfProgram {
    match answer {
        Answer::Allow => vec![give(libc::SECCOMP_RET_ALLOW)],
        Answer::Fail(error) => vec![give(libc::SECCOMP_RET_ERRNO | error)],
        Answer::When(lists) => {
            let mut code: BpfProgram = lists.iter().flat_map(|tests| passes(tests)).collect();
            code.extend(leaf(&REFUSED));
            code
        }
    }
}

/// Allows a call that passes all tests, and goes on behind that otherwise.
fn passes(tests: &[Test]) -> BpfProgram {
    let mut code = vec![give(libc::SECCOMP_RET_ALLOW)];
    // From the last to the first: each must know how far the end is.
    for test in tests.iter().rev() {
        let end = u8::try_from(code.len()).unwrap_or(u8::MAX);
        let (same, other) = if test.equal { (0, end) } else { (end, 0) };
        let mut checked = vec![load(argument(test.argument))];
        if test.mask != u32::MAX {
            checked.push(instruction(MASK, test.mask, 0, 0));
        }
        checked.push(jump(EQUAL, test.value, same, other));
        checked.append(&mut code);
        code = checked;
    }
    code
}

/// Where the kernel puts what it knows of a call.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(place: u32) -> u32 {
    const FIRST: u32 = 16;
    // The lower half comes first, or last where numbers begin with their upper half.
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    FIRST + 8 * place + half
}

/// Instructions, in the words of `linux/bpf_common.h`.
const LOAD: u16 = 0x20; // LD | W | ABS
const MASK: u16 = 0x54; // ALU | AND | K
const ALWAYS: u16 = 0x05; // JMP | JA
const EQUAL: u16 = 0x15; // JMP | JEQ | K
const AT_LEAST: u16 = 0x35; // JMP | JGE | K
const GIVE: u16 = 0x06; // RET | K

const fn load(place: u32) -> sock_filter {
    instruction(LOAD, place, 0, 0)
}

const fn jump(code: u16, value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(code, value, yes, no)
}

const fn give(answer: u32) -> sock_filter {
    instruction(GIVE, answer, 0, 0)
}

const fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
pub(super) mod tests;
