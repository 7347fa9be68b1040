//! Any sequence of changes of plans on SQLite gives what it gives in memory, and leaves each column
//! without gaps and the tasks without a way back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::Config;
use store::{Limits, NewTask, Pending, Plans, Store, Task, TaskChange};

use crate::contract::{by, plan, task};
use crate::subject::{self, ada, limit};

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Remove(usize),
    Add(usize, usize, Vec<usize>),
    Change(usize, usize, Wanted),
    Read(usize, usize),
}

#[derive(Debug, Clone)]
struct Wanted {
    status: Option<usize>,
    deps: Option<Vec<usize>>,
    place: Option<usize>,
    seen: Option<i64>,
    length: Option<usize>,
}

const PLANS: [&str; 2] = ["p", "q"];
const TASKS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
const COLUMNS: [&str; 3] = ["todo", "doing", "done"];

fn limits() -> Limits {
    Limits {
        plans: limit(100, 2, 60),
        tasks: limit(60, 8, 250),
        tasks_of_plan: 5,
        task_changes: limit(0, 12, 400),
        ..Limits::default()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let ids = (0..PLANS.len(), 0..TASKS.len());
    let deps = || prop::collection::vec(0..TASKS.len(), 0..3);
    let wanted = (
        prop::option::of(0..COLUMNS.len()),
        prop::option::of(deps()),
        prop::option::of(0..7_usize),
        prop::option::weighted(0.2, 1..5_i64),
        prop::option::of(0..60_usize),
    );
    let wanted = wanted.prop_map(|(status, deps, place, seen, length)| Wanted {
        status,
        deps,
        place,
        seen,
        length,
    });
    prop_oneof![
        2 => (0..PLANS.len()).prop_map(Step::Create),
        1 => (0..PLANS.len()).prop_map(Step::Remove),
        8 => (ids.clone(), deps()).prop_map(|((plan, task), deps)| Step::Add(plan, task, deps)),
        12 => (ids.clone(), wanted).prop_map(|((plan, task), it)| Step::Change(plan, task, it)),
        3 => ids.prop_map(|(plan, task)| Step::Read(plan, task)),
    ]
}

fn names(deps: &[usize]) -> Vec<String> {
    deps.iter().map(|index| TASKS[*index].to_owned()).collect()
}

fn told<T: std::fmt::Debug>(pending: Pending<T>) -> String {
    format!("{:?}", pending.wait())
}

impl Step {
    fn run(&self, store: &Store, number: i64) -> String {
        let plans = store.for_agent(&ada()).plans();
        match self {
            Self::Create(at) => told(plans.create(plan(PLANS[*at]))),
            Self::Remove(at) => told(plans.remove(PLANS[*at])),
            Self::Add(at, id, deps) => {
                let new = NewTask {
                    deps: names(deps),
                    ..task(TASKS[*id])
                };
                told(plans.add(by("ada", number), PLANS[*at], new))
            }
            Self::Change(at, id, wanted) => {
                let change = TaskChange {
                    seen: wanted.seen,
                    status: wanted.status.map(|column| COLUMNS[column].to_owned()),
                    deps: wanted.deps.as_deref().map(names),
                    place: wanted.place,
                    description: wanted.length.map(|length| "x".repeat(length)),
                    ..TaskChange::default()
                };
                told(plans.change(by("bob", number), PLANS[*at], TASKS[*id], change))
            }
            Self::Read(at, id) => told(plans.task(PLANS[*at], TASKS[*id])) + &told(plans.list()),
        }
    }
}

/// Places count from 0 in each column, and dependencies come before what depends on them.
fn is_well(plans: &dyn Plans) -> bool {
    PLANS.iter().all(|plan| {
        let tasks = plans.tasks(plan).wait().unwrap();
        let mut columns: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for task in &tasks {
            columns.entry(&task.status).or_default().push(task.place);
        }
        let in_order = columns.values_mut().all(|places| {
            places.sort_unstable();
            places.iter().copied().eq(0..places.len())
        });
        let mut left: Vec<&Task> = tasks.iter().collect();
        // Whatever depends on nothing that is left can go; with a way back something stays.
        loop {
            let before = left.len();
            let ids: Vec<String> = left.iter().map(|task| task.id.clone()).collect();
            left.retain(|task| task.deps.iter().any(|dep| ids.contains(dep)));
            if left.len() == before {
                return in_order && left.is_empty();
            }
        }
    })
}

proptest! {
    #![proptest_config(Config { cases: 96, failure_persistence: None, ..Config::default() })]

    #[test]
    fn plans_on_sqlite_are_as_in_memory(steps in prop::collection::vec(step(), 1..100)) {
        let memory = subject::memory(limits());
        let (sqlite, path) = subject::sqlite_at(limits());
        for (number, step) in (0_i64..).zip(&steps) {
            let (one, other) = (step.run(&sqlite, number), step.run(&memory, number));
            prop_assert_eq!(one, other, "step {}: {:?}", number, step);
            prop_assert!(is_well(&*sqlite.for_agent(&ada()).plans()), "step {}", number);
        }
        let report = store::check(&path).unwrap();
        prop_assert_eq!(report.problems, Vec::<String>::new());
    }
}
