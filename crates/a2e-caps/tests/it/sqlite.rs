//! The toolkit `sqlite`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2e_caps::toolkits::{MAX_VALUE, Sqlite, SqliteLimits, enter_if_asked};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::toolkits::{agent, call, configure, host, refused, roots};
use crate::vault::store;
use crate::wire::Agent;

/// What this program does when it is started for a query.
#[test]
fn query_process() {
    enter_if_asked();
}

fn toolkit(folder: &Path, limits: SqliteLimits) -> Sqlite {
    enter_if_asked();
    Sqlite::new(roots(folder), limits).started_with(&["--exact", "sqlite::query_process"])
}

/// A workspace with `x.db`, and an agent that has it.
async fn on_database(access: &str, limits: SqliteLimits) -> (TempDir, Agent) {
    let folder = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(folder.path().join("x.db")).unwrap();
    let setup = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'two')";
    database.execute_batch(setup).unwrap();
    let toolkit = toolkit(folder.path(), limits);
    let host = host(vec![Arc::new(toolkit)], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let response = configure(
        &mut ada,
        "sqlite",
        json!({"file": "x.db", "access": access}),
    )
    .await;
    assert_eq!(response["status"], "ok", "{response}");
    (folder, ada)
}

async fn query(ada: &mut Agent, sql: &str) -> Value {
    call(ada, "sqlite_query", json!({ "sql": sql })).await["data"].clone()
}

#[tokio::test]
async fn queries_give_columns_and_rows() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let found = query(&mut ada, "SELECT a, b FROM t ORDER BY a DESC").await;
    assert_eq!(
        found,
        json!({"columns": ["a", "b"], "rows": [[2, "two"], [1, "one"]]})
    );
    let values = query(
        &mut ada,
        "SELECT NULL, 1.5, x'00ff', 9223372036854775807, 1e999",
    )
    .await;
    let expected = json!([[null, 1.5, {"base64": "AP8="}, i64::MAX, null]]);
    assert_eq!(values["rows"], expected);
    let asked = json!({"sql": "SELECT ?, ?, ?, ?, b FROM t WHERE a = ?",
        "parameters": [null, true, 2.5, "x' OR 1", 1]});
    let found = call(&mut ada, "sqlite_query", asked).await;
    assert_eq!(
        found["data"]["rows"],
        json!([[null, 1, 2.5, "x' OR 1", "one"]])
    );
    let columns = query(&mut ada, "PRAGMA table_info(t)").await;
    assert_eq!(columns["rows"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_query_changes_nothing() {
    for access in ["read_only", "read_write"] {
        let (folder, mut ada) = on_database(access, SqliteLimits::default()).await;
        let before = fs::read(folder.path().join("x.db")).unwrap();
        for sql in [
            "INSERT INTO t VALUES (3, 'three')",
            "DELETE FROM t RETURNING a",
            "CREATE TABLE u (a)",
            "CREATE TEMP TABLE u (a)",
            "PRAGMA user_version = 7",
            "PRAGMA query_only = OFF",
            "PRAGMA journal_mode = WAL",
            "ATTACH 'y.db' AS y",
            "VACUUM INTO 'y.db'",
            "SELECT load_extension('x')",
            "SELECT 1; DROP TABLE t",
        ] {
            refused(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
        }
        assert_eq!(fs::read(folder.path().join("x.db")).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn execute_is_there_for_databases_that_may_be_changed() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let asked = json!({"sql": "DELETE FROM t"});
    let error = refused(&mut ada, "sqlite_execute", asked).await;
    assert_eq!(error["code"], "unknown_tool");

    let (folder, mut ada) = on_database("read_write", SqliteLimits::default()).await;
    let asked = json!({"sql": "INSERT INTO t VALUES (?, 'x'), (4, 'y') RETURNING a",
        "parameters": [3]});
    let done = call(&mut ada, "sqlite_execute", asked).await;
    assert_eq!(
        done["data"],
        json!({"columns": ["a"], "rows": [[3], [4]], "changed_rows": 2})
    );
    assert_eq!(
        query(&mut ada, "SELECT count(*) FROM t").await["rows"],
        json!([[4]])
    );
    for sql in [
        format!("ATTACH '{}' AS y", folder.path().join("y.db").display()),
        format!("VACUUM INTO '{}'", folder.path().join("y.db").display()),
        "PRAGMA journal_mode = OFF".into(),
        "PRAGMA writable_schema = ON".into(),
    ] {
        refused(&mut ada, "sqlite_execute", json!({ "sql": sql })).await;
    }
    assert!(!folder.path().join("y.db").exists());
}

/// What returns more than may be given is done all the same.
#[tokio::test]
async fn execute_is_done_to_its_end() {
    let limits = SqliteLimits {
        rows: 1,
        ..SqliteLimits::default()
    };
    let (_folder, mut ada) = on_database("read_write", limits).await;
    let asked = json!({"sql": "UPDATE t SET b = 'z' RETURNING a"});
    let done = call(&mut ada, "sqlite_execute", asked).await;
    assert_eq!(
        (&done["truncated"], &done["data"]["changed_rows"]),
        (&json!(true), &json!(2))
    );
    let count = query(&mut ada, "SELECT count(*) FROM t WHERE b = 'z'").await;
    assert_eq!(count["rows"], json!([[2]]));
}

#[tokio::test]
async fn rows_and_bytes_are_limited() {
    let limits = SqliteLimits {
        rows: 3,
        bytes: 24,
        ..SqliteLimits::default()
    };
    let (_folder, mut ada) = on_database("read_only", limits).await;
    for (sql, rows, is_cut) in [
        ("VALUES (1), (2), (3)", 3, false),
        ("VALUES (1), (2), (3), (4)", 3, true),
        ("VALUES ('123456789012'), ('123456789012')", 2, false),
        ("VALUES ('123456789012'), ('1234567890123')", 1, true),
    ] {
        let found = call(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
        assert_eq!(
            found["data"]["rows"].as_array().unwrap().len(),
            rows,
            "{sql}"
        );
        assert_eq!(found["truncated"], is_cut, "{sql}");
    }
}

/// Values without bytes of their own have some in the answer.
#[tokio::test]
async fn empty_values_count_towards_the_bytes() {
    let limits = SqliteLimits {
        bytes: 800,
        ..SqliteLimits::default()
    };
    let (_folder, mut ada) = on_database("read_only", limits).await;
    for value in ["NULL", "x''", "''"] {
        let columns = [value; 10].join(", ");
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) \
             SELECT {columns} FROM n"
        );
        let found = call(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
        let rows = found["data"]["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &found["truncated"]), (10, &json!(true)));
    }
}

#[tokio::test]
async fn text_that_is_no_utf_8_is_given_as_bytes() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let sql = "SELECT CAST(x'47fc' AS TEXT), 'Gü', 'a' || char(0) || 'b'";
    let found = query(&mut ada, sql).await;
    assert_eq!(
        found["rows"],
        json!([[{"base64": "R/w="}, "Gü", "a\u{0}b"]])
    );
}

/// A parameter is stored as it is, or not at all.
#[tokio::test]
async fn integers_beyond_those_of_sqlite_are_refused() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    for (number, is_taken) in [
        (json!(i64::MAX), true),
        (json!(i64::MIN), true),
        (json!(9_223_372_036_854_775_808_u64), false),
        (json!(u64::MAX), false),
    ] {
        let asked = json!({"sql": "SELECT ?", "parameters": [number]});
        if is_taken {
            let found = call(&mut ada, "sqlite_query", asked).await;
            assert_eq!(found["data"]["rows"], json!([[number]]));
        } else {
            let error = refused(&mut ada, "sqlite_query", asked).await;
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("pass it as text"), "{error}");
        }
    }
}

/// Each statement has a connection of its own, so a transaction would end with its `BEGIN`, and what
/// follows could not be rolled back.
#[tokio::test]
async fn transactions_of_several_statements_are_refused() {
    let (_folder, mut ada) = on_database("read_write", SqliteLimits::default()).await;
    for sql in [
        "BEGIN",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "COMMIT",
        "ROLLBACK",
    ] {
        for tool in ["sqlite_query", "sqlite_execute"] {
            let error = refused(&mut ada, tool, json!({ "sql": sql })).await;
            assert_eq!(error["detail"]["reason"], "statement", "{error}");
        }
    }
}

/// SQLite takes these for something else than the name of a file.
#[tokio::test]
async fn a_database_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let other = rusqlite::Connection::open(folder.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE other (a)").unwrap();
    let toolkit = toolkit(folder.path(), SqliteLimits::default());
    let host = host(vec![Arc::new(toolkit)], &store()).await;
    let mut ada = agent(&host, "ada").await;
    for file in [":memory:", "file:other.db", "file:other.db?mode=ro", "a\nb"] {
        fs::write(folder.path().join(file), "").unwrap();
        let config = json!({"file": file, "access": "read_write"});
        let response = configure(&mut ada, "sqlite", config).await;
        assert_eq!(response["status"], "ok", "{response}");
        let asked = json!({"sql": "CREATE TABLE mine (a)"});
        call(&mut ada, "sqlite_execute", asked).await;
        let tables = query(&mut ada, "SELECT name FROM sqlite_schema").await;
        assert_eq!(tables["rows"], json!([["mine"]]), "{file}");
    }
}

#[tokio::test]
async fn values_are_limited() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let length = |size: usize| format!("SELECT length(zeroblob({size}) || '')");
    query(&mut ada, &length(MAX_VALUE)).await;
    let sql = length(MAX_VALUE + 1);
    let error = refused(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
    assert!(
        error["message"].as_str().unwrap().contains("bytes"),
        "{error}"
    );
}

/// What sorts more than fits into its memory fails, and does not take what there is.
#[tokio::test]
async fn memory_is_limited() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let sql = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200)
        SELECT hex(randomblob(500000)) AS v FROM c ORDER BY v LIMIT 1 OFFSET 150";
    refused(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
}

#[tokio::test]
async fn time_is_limited() {
    let limits = SqliteLimits {
        time: Duration::ZERO,
        ..SqliteLimits::default()
    };
    let (_folder, mut ada) = on_database("read_only", limits).await;
    let sql =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c";
    let error = refused(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
    assert!(
        error["message"].as_str().unwrap().contains("longer"),
        "{error}"
    );
}

#[tokio::test]
async fn databases_lie_in_the_workspace() {
    let (outside, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = outside.path().join("x.db");
    fs::write(&there, "").unwrap();
    std::os::unix::fs::symlink(&there, folder.path().join("link.db")).unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(
        folder.path().join("text.db"),
        "no database, but long enough for a header",
    )
    .unwrap();
    let toolkit = toolkit(folder.path(), SqliteLimits::default());
    let host = host(vec![Arc::new(toolkit)], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let there = there.to_str().unwrap();
    for file in [
        there,
        "link.db",
        "folder",
        "missing.db",
        "../x.db",
        "file:x.db?mode=rw",
    ] {
        let response = configure(&mut ada, "sqlite", json!({ "file": file })).await;
        assert_eq!(response["status"], "error", "{file}");
        assert!(
            response["message"].as_str().unwrap().contains("`file`"),
            "{response}"
        );
    }
    let response = configure(&mut ada, "sqlite", json!({"file": "text.db"})).await;
    assert_eq!(response["status"], "ok");
    let error = refused(&mut ada, "sqlite_query", json!({"sql": "SELECT 1 FROM t"})).await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("no SQLite database"),
        "{error}"
    );
}

/// Others may have it open, with what they wrote still in their journal.
#[tokio::test]
async fn a_database_in_use_is_read_as_it_is() {
    let (folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let other = rusqlite::Connection::open(folder.path().join("x.db")).unwrap();
    let setup = "PRAGMA journal_mode = WAL; INSERT INTO t VALUES (3, 'three')";
    other.execute_batch(setup).unwrap();
    let count = query(&mut ada, "SELECT count(*) FROM t").await;
    assert_eq!(count["rows"], json!([[3]]));
}

/// The file is looked for again each time: what leads elsewhere by then is not followed.
#[tokio::test]
async fn a_file_that_has_become_a_link_is_not_opened() {
    let (folder, mut ada) = on_database("read_write", SqliteLimits::default()).await;
    let outside = tempfile::tempdir().unwrap();
    let there = outside.path().join("y.db");
    fs::rename(folder.path().join("x.db"), &there).unwrap();
    std::os::unix::fs::symlink(&there, folder.path().join("x.db")).unwrap();
    for tool in ["sqlite_query", "sqlite_execute"] {
        let error = refused(&mut ada, tool, json!({"sql": "DELETE FROM t"})).await;
        assert_eq!(error["detail"]["reason"], "outside_roots");
    }
}

/// A FIFO beside a database would keep a thread for as long as nothing writes to it.
#[tokio::test]
async fn a_database_beside_which_a_fifo_lies_is_not_opened() {
    for access in ["read_only", "read_write"] {
        let (folder, mut ada) = on_database(access, SqliteLimits::default()).await;
        for suffix in ["-journal", "-wal", "-shm"] {
            let fifo = folder.path().join(format!("x.db{suffix}"));
            rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
            // Many more than may run at once: each of them ends.
            for _ in 0..20 {
                let error = refused(&mut ada, "sqlite_query", json!({"sql": "SELECT 1"})).await;
                assert_eq!(error["detail"]["reason"], "not_regular", "{error}");
                assert!(
                    error["message"].as_str().unwrap().contains(suffix),
                    "{error}"
                );
            }
            fs::remove_file(fifo).unwrap();
            let rows = query(&mut ada, "SELECT a FROM t ORDER BY a").await;
            assert_eq!(rows["rows"], json!([[1], [2]]));
        }
    }
}

/// They count for the agent that has them, and for no other.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_so_many_queries() {
    let folder = tempfile::tempdir().unwrap();
    rusqlite::Connection::open(folder.path().join("x.db"))
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    let limits = SqliteLimits {
        per_agent: 1,
        ..SqliteLimits::default()
    };
    let toolkit = toolkit(folder.path(), limits);
    let host = host(vec![Arc::new(toolkit)], &store()).await;
    let (mut ada, mut bob) = (agent(&host, "ada").await, agent(&host, "bob").await);
    for agent in [&mut ada, &mut bob] {
        let response = configure(agent, "sqlite", json!({"file": "x.db"})).await;
        assert_eq!(response["status"], "ok", "{response}");
    }
    let asked = |sql: &str| json!({"type": "tool/call/req", "tool_name": "sqlite_query", "arguments": {"sql": sql}});
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    ada.say(asked(endless)).await;
    let busy = ada.ask(asked("SELECT 1")).await;
    assert_eq!(busy["detail"]["reason"], "agent_limit", "{busy}");
    assert_eq!(busy["retryable"], true, "{busy}");
    assert!(
        busy.to_string()
            .contains("global_limits.max_queries_per_agent"),
        "{busy}"
    );
    assert_eq!(query(&mut bob, "SELECT 1").await["rows"], json!([[1]]));
}

/// What nothing waits for any more ends, and leaves the database as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_a_session_that_has_ended_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(folder.path().join("x.db")).unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    drop(database);
    let limits = SqliteLimits {
        per_agent: 1,
        time: Duration::from_secs(60),
        ..SqliteLimits::default()
    };
    let toolkit = toolkit(folder.path(), limits);
    let host = host(vec![Arc::new(toolkit)], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let config = json!({"file": "x.db", "access": "read_write"});
    assert_eq!(configure(&mut ada, "sqlite", config).await["status"], "ok");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   INSERT INTO t SELECT i FROM n";
    ada.say(json!({"type": "tool/call/req", "tool_name": "sqlite_execute", "arguments": {"sql": endless}}))
        .await;
    let journal = folder.path().join("x.db-journal");
    while !journal.exists() {
        tokio::task::yield_now().await;
    }
    ada.say(json!({"type": "shutdown", "reason": "done"})).await;
    drop(ada);
    let mut again = agent(&host, "ada").await;
    again.ids = "S";
    let count = loop {
        let count = json!({"type": "tool/call/req", "tool_name": "sqlite_query",
            "arguments": {"sql": "SELECT count(*) FROM t"}});
        let counted = again.ask(count).await;
        // The first counts until it has ended.
        if counted["detail"]["reason"] != "agent_limit" {
            break counted;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(count["data"]["data"]["rows"], json!([[0]]), "{count}");
}

/// What a statement has in memory at once is bounded in all, not only for each value.
#[tokio::test]
async fn a_statement_that_needs_too_much_memory_is_refused() {
    let (_folder, mut ada) = on_database("read_only", SqliteLimits::default()).await;
    let columns: Vec<String> = (0..400)
        .map(|number| format!("hex(zeroblob({}))", MAX_VALUE / 2 - 1 - number))
        .collect();
    let sql = format!("SELECT {}", columns.join(", "));
    let error = refused(&mut ada, "sqlite_query", json!({ "sql": sql })).await;
    assert!(
        error["message"].as_str().unwrap().contains("more memory"),
        "{error}"
    );
    let rows = query(&mut ada, "SELECT a FROM t ORDER BY a").await;
    assert_eq!(rows["rows"], json!([[1], [2]]));
}
