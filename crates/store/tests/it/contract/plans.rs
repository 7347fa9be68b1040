//! Plans: tasks in columns, changed by several at once.

use store::{
    Author, Change, Changed, Error, Limits, MAX_CHANGES_BYTES, MAX_NAME, NewTask, Plan, Plans,
    Task, TaskChange,
};

use crate::subject::{Make, NOW, ada, at, bob, contract, limit};

contract! {
    plans_are_made_listed_and_removed,
    a_task_goes_through_its_columns,
    of_two_who_change_a_task_one_wins,
    dependencies_are_tasks_of_the_plan_and_lead_nowhere_back,
    changes_are_remembered_until_there_are_too_many,
    plans_of_others_are_out_of_reach,
    limits_of_plans_hold,
    limits_of_tasks_hold,
    the_list_of_the_tasks_of_a_plan_has_a_limit,
    of_many_changes_the_newest_are_given,
}

pub(crate) fn plan(id: &str) -> Plan {
    Plan {
        id: id.to_owned(),
        name: format!("plan {id}"),
        description: "what for".to_owned(),
        columns: vec!["todo".to_owned(), "done".to_owned()],
        created: NOW,
    }
}

pub(crate) fn task(id: &str) -> NewTask {
    NewTask {
        id: id.to_owned(),
        title: format!("task {id}"),
        status: "todo".to_owned(),
        description: "more".to_owned(),
        metadata: r#"{"a":1}"#.to_owned(),
        ..NewTask::default()
    }
}

pub(crate) fn by(name: &str, seconds: i64) -> Author {
    Author {
        by: name.to_owned(),
        now: at(seconds),
    }
}

fn add(plans: &dyn Plans, plan: &str, task: NewTask) -> Task {
    done(plans.add(by("ada", 0), plan, task).wait().unwrap())
}

fn go(status: &str) -> TaskChange {
    TaskChange {
        status: Some(status.to_owned()),
        ..TaskChange::default()
    }
}

fn done(changed: Changed) -> Task {
    let Changed::Done(task) = changed else {
        panic!("{changed:?}")
    };
    *task
}

fn plans_are_made_listed_and_removed(make: Make) {
    let store = make(Limits::default());
    let plans = store.for_agent(&ada()).plans();
    assert_eq!(plans.list().wait(), Ok(Vec::new()));
    for id in ["b", "a"] {
        plans.create(plan(id)).wait().unwrap();
    }
    let exists = Error::Exists { what: "plan" };
    assert_eq!(plans.create(plan("a")).wait(), Err(exists));
    add(&*plans, "a", task("1"));
    add(&*plans, "a", task("2"));
    assert_eq!(
        plans.list().wait(),
        Ok(vec![(plan("b"), 0), (plan("a"), 2)])
    );
    assert_eq!(plans.get("a").wait(), Ok(Some(plan("a"))));
    assert_eq!(plans.get("c").wait(), Ok(None));
    assert_eq!(plans.remove("a").wait(), Ok(true));
    assert_eq!(plans.remove("a").wait(), Ok(false));
    assert_eq!(plans.tasks("a").wait(), Ok(Vec::new()));
    assert_eq!(plans.list().wait(), Ok(vec![(plan("b"), 0)]));
    // Nothing of it comes back with its name.
    plans.create(plan("a")).wait().unwrap();
    add(&*plans, "a", task("1"));
    let (_, changes) = plans.task("a", "1").wait().unwrap().unwrap();
    assert_eq!(changes.len(), 1);
}

fn a_task_goes_through_its_columns(make: Make) {
    let store = make(Limits::default());
    let plans = store.for_agent(&ada()).plans();
    plans.create(plan("p")).wait().unwrap();
    let added = add(&*plans, "p", task("1"));
    assert_eq!((added.place, added.version, added.created), (0, 1, at(0)));
    for id in ["2", "3"] {
        add(&*plans, "p", task(id));
    }
    let change =
        |id: &str, change| done(plans.change(by("bob", 5), "p", id, change).wait().unwrap());
    let moved = change("1", go("done"));
    assert_eq!((&*moved.status, moved.place, moved.version), ("done", 0, 2));
    assert_eq!((moved.created, moved.changed), (at(0), at(5)));
    assert_eq!(
        (&*moved.description, &*moved.metadata),
        ("more", r#"{"a":1}"#)
    );
    change("3", go("done"));
    let first = TaskChange {
        place: Some(0),
        assignee: Some("bob".to_owned()),
        ..go("done")
    };
    assert_eq!(change("3", first).assignee, "bob");
    let tasks = plans.tasks("p").wait().unwrap();
    let seen: Vec<(&str, &str, usize, &str)> = tasks
        .iter()
        .map(|it| (&*it.id, &*it.status, it.place, &*it.description))
        .collect();
    let expected = [
        ("1", "done", 1, ""),
        ("2", "todo", 0, ""),
        ("3", "done", 0, ""),
    ];
    assert_eq!(seen, expected);
    let not_found = |what| Err(Error::NotFound { what });
    let change = |plan: &str, id: &str| plans.change(by("b", 0), plan, id, go("x")).wait();
    assert_eq!(change("p", "4"), not_found("task"));
    assert_eq!(change("q", "1"), not_found("plan"));
    assert_eq!(
        plans.add(by("b", 0), "q", task("1")).wait(),
        not_found("plan")
    );
    let exists = Err(Error::Exists { what: "task" });
    assert_eq!(plans.add(by("b", 0), "p", task("1")).wait(), exists);
    assert_eq!(plans.task("p", "4").wait(), Ok(None));
}

fn of_two_who_change_a_task_one_wins(make: Make) {
    let store = make(Limits::default());
    let plans = store.for_agent(&ada()).plans();
    plans.create(plan("p")).wait().unwrap();
    add(&*plans, "p", task("1"));
    // Both have seen the first version, and neither waits for the other.
    let attempts: Vec<_> = ["done", "doing"]
        .into_iter()
        .map(|status| {
            let change = TaskChange {
                seen: Some(1),
                ..go(status)
            };
            plans.change(by(status, 1), "p", "1", change)
        })
        .collect();
    let outcomes: Vec<Changed> = attempts.into_iter().map(|it| it.wait().unwrap()).collect();
    let [Changed::Done(won), Changed::Stale(current)] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert_eq!(won, current);
    assert_eq!((&*won.status, won.version), ("done", 2));
    let (kept, _) = plans.task("p", "1").wait().unwrap().unwrap();
    assert_eq!(kept, **won);
}

fn dependencies_are_tasks_of_the_plan_and_lead_nowhere_back(make: Make) {
    let store = make(Limits::default());
    let plans = store.for_agent(&ada()).plans();
    for id in ["p", "q"] {
        plans.create(plan(id)).wait().unwrap();
    }
    add(&*plans, "q", task("elsewhere"));
    let needs = |deps: &[&str]| -> Vec<String> { deps.iter().map(|it| (*it).into()).collect() };
    let with = |id: &str, deps: &[&str]| NewTask {
        deps: needs(deps),
        ..task(id)
    };
    add(&*plans, "p", task("1"));
    assert_eq!(add(&*plans, "p", with("2", &["1", "1"])).deps, ["1"]);
    add(&*plans, "p", with("3", &["2"]));
    for unknown in ["elsewhere", "4"] {
        let refused = plans
            .add(by("ada", 0), "p", with("5", &["1", unknown]))
            .wait();
        assert_eq!(refused, Ok(Changed::UnknownDependency(unknown.to_owned())));
    }
    let change = |id: &str, deps: &[&str]| {
        let change = TaskChange {
            deps: Some(needs(deps)),
            ..TaskChange::default()
        };
        plans.change(by("ada", 0), "p", id, change).wait().unwrap()
    };
    let cycle = |path: &[&str]| Changed::Cycle(needs(path));
    assert_eq!(change("1", &["3"]), cycle(&["1", "3", "2", "1"]));
    assert_eq!(change("1", &["1"]), cycle(&["1", "1"]));
    assert_eq!(done(change("2", &[])).deps, Vec::<String>::new());
    assert_eq!(done(change("1", &["3"])).deps, ["3"]);
    // What was refused has changed nothing.
    assert_eq!(plans.tasks("p").wait().unwrap().len(), 3);
}

fn changes_are_remembered_until_there_are_too_many(make: Make) {
    let store = make(Limits {
        task_changes: limit(0, 3, 1000),
        ..Limits::default()
    });
    let plans = store.for_agent(&ada()).plans();
    plans.create(plan("p")).wait().unwrap();
    add(&*plans, "p", task("1"));
    let history = || plans.task("p", "1").wait().unwrap().unwrap().1;
    let added = Change {
        at: at(0),
        by: "ada".to_owned(),
        version: 1,
        field: "added".to_owned(),
        before: String::new(),
        after: "todo".to_owned(),
    };
    assert_eq!(history(), [added]);
    let both = TaskChange {
        description: Some("a long text".to_owned()),
        ..go("done")
    };
    plans.change(by("bob", 7), "p", "1", both).wait().unwrap();
    let changed = |field: &str, before: &str, after: &str| Change {
        at: at(7),
        by: "bob".to_owned(),
        version: 2,
        field: field.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    };
    let moved = changed("status", "todo", "done");
    let described = changed("description", "", "");
    assert_eq!(history()[1..], [moved.clone(), described.clone()]);
    // The oldest goes.
    add(&*plans, "p", task("2"));
    assert_eq!(history(), [moved, described]);
    // Nothing new is nothing to remember.
    let same = done(
        plans
            .change(by("bob", 8), "p", "1", go("done"))
            .wait()
            .unwrap(),
    );
    assert_eq!((same.version, history().len()), (2, 2));
}

fn plans_of_others_are_out_of_reach(make: Make) {
    let store = make(Limits::default());
    let (own, other) = (
        store.for_agent(&ada()).plans(),
        store.for_agent(&bob()).plans(),
    );
    own.create(plan("p")).wait().unwrap();
    add(&*own, "p", task("1"));
    let not_found = Err(Error::NotFound { what: "plan" });
    assert_eq!(other.list().wait(), Ok(Vec::new()));
    assert_eq!(other.get("p").wait(), Ok(None));
    assert_eq!(other.tasks("p").wait(), Ok(Vec::new()));
    assert_eq!(other.task("p", "1").wait(), Ok(None));
    assert_eq!(other.add(by("bob", 0), "p", task("2")).wait(), not_found);
    assert_eq!(
        other.change(by("bob", 0), "p", "1", go("done")).wait(),
        not_found
    );
    assert_eq!(other.remove("p").wait(), Ok(false));
    // Even of the same name they are two.
    other.create(plan("p")).wait().unwrap();
    add(&*other, "p", task("1"));
    done(
        other
            .change(by("bob", 0), "p", "1", go("done"))
            .wait()
            .unwrap(),
    );
    other.remove("p").wait().unwrap();
    let (kept, changes) = own.task("p", "1").wait().unwrap().unwrap();
    assert_eq!((&*kept.status, changes.len()), ("todo", 1));
    assert_eq!(store.node().plans().list().wait(), Ok(Vec::new()));
}

fn limits_of_plans_hold(make: Make) {
    let size = plan("a").name.len() + 1 + "what for".len() + "tododone".len();
    let store = make(Limits {
        plans: limit(size, 2, 1000),
        ..Limits::default()
    });
    let plans = store.for_agent(&ada()).plans();
    plans.create(plan("a")).wait().unwrap();
    let longer = Plan {
        name: "plan bb".to_owned(),
        ..plan("b")
    };
    let too_large = plans.create(longer).wait();
    assert!(
        matches!(too_large, Err(Error::TooLarge { .. })),
        "{too_large:?}"
    );
    plans.create(plan("b")).wait().unwrap();
    let full = Err(Error::Full { what: "plan" });
    assert_eq!(plans.create(plan("c")).wait(), full);
    plans.remove("a").wait().unwrap();
    plans.create(plan("c")).wait().unwrap();
    let long = plan(&"x".repeat(MAX_NAME + 1));
    assert!(matches!(
        plans.create(long).wait(),
        Err(Error::TooLarge { .. })
    ));
}

fn limits_of_tasks_hold(make: Make) {
    let store = make(Limits {
        tasks: limit(100, 3, 200),
        tasks_of_plan: 2,
        ..Limits::default()
    });
    let plans = store.for_agent(&ada()).plans();
    for id in ["p", "q"] {
        plans.create(plan(id)).wait().unwrap();
    }
    let full = || Err(Error::Full { what: "task" });
    for id in ["1", "2"] {
        add(&*plans, "p", task(id));
    }
    // One plan, and then all of them.
    assert_eq!(plans.add(by("ada", 0), "p", task("3")).wait(), full());
    add(&*plans, "q", task("1"));
    assert_eq!(plans.add(by("ada", 0), "q", task("2")).wait(), full());
    // Each has 22 bytes: its id, title, status, description and metadata.
    let describe = |length: usize| {
        let change = TaskChange {
            description: Some("x".repeat(length)),
            ..TaskChange::default()
        };
        plans.change(by("ada", 0), "q", "1", change).wait()
    };
    let too_large = describe(83);
    assert!(
        matches!(too_large, Err(Error::TooLarge { .. })),
        "{too_large:?}"
    );
    done(describe(82).unwrap());
    let other = TaskChange {
        description: Some("x".repeat(61)),
        ..TaskChange::default()
    };
    assert_eq!(plans.change(by("ada", 0), "p", "1", other).wait(), full());
    plans.remove("q").wait().unwrap();
    let (kept, _) = plans.task("p", "1").wait().unwrap().unwrap();
    assert_eq!((&*kept.description, kept.version), ("more", 1));
}

fn the_list_of_the_tasks_of_a_plan_has_a_limit(make: Make) {
    let short = NewTask {
        title: "a".to_owned(),
        ..task("1")
    };
    let one = |title: &str| {
        let store = make(Limits::default());
        let plans = store.for_agent(&ada()).plans();
        plans.create(plan("p")).wait().unwrap();
        let title = title.to_owned();
        add(
            &*plans,
            "p",
            NewTask {
                title,
                ..short.clone()
            },
        )
        .listed_size()
    };
    // As JSON: what is escaped counts as often as it is written.
    assert_eq!(
        (one("aa"), one("\""), one("\u{1}")),
        (one("a") + 1, one("a") + 1, one("a") + 5)
    );
    let store = make(Limits {
        task_list: 2 * one("a") + 8,
        ..Limits::default()
    });
    let plans = store.for_agent(&ada()).plans();
    for id in ["p", "q"] {
        plans.create(plan(id)).wait().unwrap();
    }
    let with_id = |id: &str| NewTask {
        id: id.to_owned(),
        ..short.clone()
    };
    for id in ["1", "2"] {
        add(&*plans, "p", with_id(id));
    }
    let full = || {
        Err(Error::Full {
            what: "task, title or dependency in this plan",
        })
    };
    assert_eq!(plans.add(by("ada", 0), "p", with_id("3")).wait(), full());
    let change = |title: &str, deps: &[&str]| {
        let change = TaskChange {
            title: Some(title.to_owned()),
            deps: Some(deps.iter().map(|id| (*id).to_owned()).collect()),
            ..TaskChange::default()
        };
        plans.change(by("ada", 0), "p", "1", change).wait()
    };
    // A dependency has 8 bytes here, and so have eight letters more.
    assert_eq!(change("aa", &["2"]), full());
    done(change("a", &["2"]).unwrap());
    assert_eq!(change("aaaaaaaaaa", &[]), full());
    done(change("aaaaaaaaa", &[]).unwrap());
    // Other plans have room, and what becomes shorter always has.
    add(&*plans, "q", with_id("3"));
    done(change("aaaaaaaa", &[]).unwrap());
}

fn of_many_changes_the_newest_are_given(make: Make) {
    let store = make(Limits::default());
    let plans = store.for_agent(&ada()).plans();
    plans.create(plan("p")).wait().unwrap();
    add(&*plans, "p", task("t"));
    let titles = MAX_CHANGES_BYTES / 512 + 100;
    for number in 0..titles {
        let change = TaskChange {
            title: Some(format!("{number}{}", "x".repeat(250))),
            ..TaskChange::default()
        };
        done(plans.change(by("ada", 1), "p", "t", change).wait().unwrap());
    }
    let (_, changes) = plans.task("p", "t").wait().unwrap().unwrap();
    assert!(
        changes.len() < titles && changes.len() > 100,
        "{}",
        changes.len()
    );
    let bytes: usize = changes
        .iter()
        .map(|it| it.before.len() + it.after.len())
        .sum();
    assert!(bytes <= MAX_CHANGES_BYTES, "{bytes}");
    let last = changes.last().unwrap();
    assert!(
        last.after.starts_with(&(titles - 1).to_string()),
        "{last:?}"
    );
    assert!(changes.is_sorted_by_key(|change| change.version));
}
