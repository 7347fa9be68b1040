use super::*;
use proptest::prelude::*;

const MACHINE: u32 = 0xc000_003e;

/// A call as the kernel shows it to a filter.
#[derive(Debug, Clone, Copy)]
pub(in crate::stage) struct Call {
    pub(in crate::stage) machine: u32,
    pub(in crate::stage) number: u32,
    pub(in crate::stage) arguments: [u32; 6],
}

/// What a filter says to a call, and in how many steps.
pub(in crate::stage) fn run(filter: &[sock_filter], call: Call) -> (u32, usize) {
    let mut value = 0;
    let mut place = 0;
    for step in 1.. {
        let at = filter.get(place).expect("a jump leads out of the filter");
        place += 1;
        let yes = match at.code {
            LOAD => {
                value = match at.k {
                    NUMBER => call.number,
                    ARCHITECTURE => call.machine,
                    other => {
                        let place = (0..6).position(|place| argument(place) == other);
                        *call.arguments.get(place.expect("no such place")).unwrap()
                    }
                };
                continue;
            }
            MASK => {
                value &= at.k;
                continue;
            }
            ALWAYS => {
                place += at.k as usize;
                continue;
            }
            GIVE => return (at.k, step),
            EQUAL => value == at.k,
            AT_LEAST => value >= at.k,
            other => panic!("no such instruction: {other:#x}"),
        };
        place += usize::from(if yes { at.jt } else { at.jf });
    }
    unreachable!("a filter ends")
}

/// What a call is to be told.
fn expected(answers: &BTreeMap<u32, Answer>, number: u32, arguments: [u32; 6]) -> u32 {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    match answers.get(&number) {
        None => refused,
        Some(Answer::Allow) => libc::SECCOMP_RET_ALLOW,
        Some(Answer::Fail(error)) => libc::SECCOMP_RET_ERRNO | error,
        Some(Answer::When(lists)) => {
            let passes = |test: &Test| {
                let argument = arguments.get(test.argument as usize).unwrap();
                (argument & test.mask == test.value) == test.equal
            };
            match lists.iter().any(|tests| tests.iter().all(passes)) {
                true => libc::SECCOMP_RET_ALLOW,
                false => refused,
            }
        }
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    let test = (0..6_u32, 0..4_u32, 0..4_u32, any::<bool>());
    let test = test.prop_map(|(argument, mask, value, equal)| Test {
        argument,
        mask: if mask == 0 { u32::MAX } else { mask },
        value,
        equal,
    });
    let tests = prop::collection::vec(prop::collection::vec(test, 1..4), 1..5);
    prop_oneof![
        4 => Just(Answer::Allow),
        1 => (1..100_u32).prop_map(Answer::Fail),
        1 => tests.prop_map(Answer::When),
    ]
}

proptest! {
    #[test]
    fn every_call_has_the_answer_of_its_number(
        answers in prop::collection::btree_map(0..450_u32, answer(), 0..400),
        arguments in prop::array::uniform6(0..5_u32),
    ) {
        let filter = compile(MACHINE, &answers);
        for number in (0..460).chain([u32::MAX, 0x4000_0000]) {
            let call = Call { machine: MACHINE, number, arguments };
            prop_assert_eq!(run(&filter, call).0, expected(&answers, number, arguments));
        }
    }
}

#[test]
fn calls_of_another_machine_end_the_process() {
    let filter = compile(MACHINE, &BTreeMap::from([(0, Answer::Allow)]));
    let call = Call {
        machine: MACHINE + 1,
        number: 0,
        arguments: [0; 6],
    };
    assert_eq!(run(&filter, call).0, libc::SECCOMP_RET_KILL_PROCESS);
}
