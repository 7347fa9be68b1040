//! The file tools, as an agent uses them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use a2e_caps::files::{
    Access, MAX_EDITED, MAX_LINE_BYTES, MAX_READ_BYTES, MAX_READ_LINES, Roots, RootsError,
};
use a2e_wire::ErrorCode;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{call, client, host, on_files, refused};

#[tokio::test]
async fn text_is_read_by_lines() {
    let folder = tempdir().unwrap();
    let lines: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    fs::write(folder.path().join("a.txt"), &lines).unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let client = on_files(folder.path()).await;
    let read = |arguments: Value| call(&client, "read_file", arguments);
    let first = read(json!({"path": "a.txt"})).await;
    assert_eq!(
        (&first["start_line"], &first["lines"]),
        (&json!(1), &json!(MAX_READ_LINES))
    );
    assert_eq!(first["next_offset"], MAX_READ_LINES + 1);
    let middle = read(json!({"path": "a.txt", "offset": 4999, "limit": 1})).await;
    assert_eq!(
        (&middle["content"], &middle["next_offset"]),
        (&json!("4999\n"), &json!(5000))
    );
    let last = read(json!({"path": "a.txt", "offset": 5000, "limit": 1})).await;
    assert_eq!(
        (&last["content"], &last["next_offset"]),
        (&json!("5000\n"), &Value::Null)
    );
    let past = read(json!({"path": "a.txt", "offset": 5001})).await;
    assert_eq!((&past["content"], &past["lines"]), (&json!(""), &json!(0)));
    assert_eq!(read(json!({"path": "empty"})).await["content"], "");
    // An absolute path below the root does as well, and is told as a relative one.
    let absolute = folder.path().canonicalize().unwrap().join("a.txt");
    let same = read(json!({"path": absolute, "limit": 1})).await;
    assert_eq!(
        (&same["content"], &same["path"]),
        (&json!("1\n"), &json!("a.txt"))
    );
}

#[tokio::test]
async fn large_and_small_files_read_alike() {
    let folder = tempdir().unwrap();
    let client = on_files(folder.path()).await;
    // One is read at once, the other on a thread of its own.
    for lines in [100, 20_000] {
        let text: String = (1..=lines).map(|number| format!("{number}\n")).collect();
        fs::write(folder.path().join("a"), &text).unwrap();
        let (mut all, mut next) = (String::new(), json!(1));
        while !next.is_null() {
            let piece = call(&client, "read_file", json!({"path": "a", "offset": next})).await;
            all += piece["content"].as_str().unwrap();
            next = piece["next_offset"].clone();
        }
        assert_eq!(all, text);
    }
}

#[tokio::test]
async fn long_lines_are_cut_and_pages_are_bounded() {
    let folder = tempdir().unwrap();
    let client = on_files(folder.path()).await;
    let write = |text: &str| fs::write(folder.path().join("a"), text).unwrap();
    let read = || call(&client, "read_file", json!({"path": "a"}));
    write(&format!("{}\nnext\n", "x".repeat(MAX_LINE_BYTES)));
    let data = read().await;
    assert!(data.get("cut_lines").is_none(), "{data}");
    assert_eq!(data["lines"], 2);
    write(&format!("{}\nnext\n", "é".repeat(MAX_LINE_BYTES)));
    let data = read().await;
    assert_eq!(data["cut_lines"], 1);
    assert_eq!(
        data["content"],
        format!("{}\nnext\n", "é".repeat(MAX_LINE_BYTES / 2))
    );
    write(&format!("{}\n", "y".repeat(999)).repeat(100));
    let data = read().await;
    let length = data["content"].as_str().unwrap().len();
    assert!(
        (MAX_READ_BYTES - MAX_LINE_BYTES..=MAX_READ_BYTES).contains(&length),
        "{length}"
    );
    assert_eq!(data["next_offset"], data["lines"].as_u64().unwrap() + 1);
}

#[tokio::test]
async fn what_is_no_text_is_read_as_base64() {
    let folder = tempdir().unwrap();
    let bytes: Vec<u8> = (0..40_000_u32)
        .map(|number| u8::try_from(number % 251).unwrap())
        .collect();
    fs::write(folder.path().join("b"), &bytes).unwrap();
    fs::write(folder.path().join("latin"), b"caf\xe9\n").unwrap();
    let client = on_files(folder.path()).await;
    let error = refused(&client, "read_file", json!({"path": "b"})).await;
    assert!(error.message.contains("40000 bytes") && error.message.contains("base64"));
    let (mut all, mut next) = (Vec::new(), json!(0));
    while !next.is_null() {
        let arguments = json!({"path": "b", "encoding": "base64", "offset": next});
        let piece = call(&client, "read_file", arguments).await;
        all.extend(decoded(piece["content"].as_str().unwrap()));
        next = piece["next_offset"].clone();
    }
    assert_eq!(all, bytes);
    let latin = call(&client, "read_file", json!({"path": "latin"})).await;
    assert_eq!(
        (&latin["content"], &latin["not_utf8"]),
        (&json!("caf\u{FFFD}\n"), &json!(true))
    );
}

fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|letter| *letter != b'=');
    let digits = digits.map(|letter| LETTERS.iter().position(|known| *known == letter).unwrap());
    let bits: Vec<usize> = digits
        .flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1))
        .collect();
    let bytes = bits
        .chunks_exact(8)
        .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit));
    bytes.map(|byte| u8::try_from(byte).unwrap()).collect()
}

#[tokio::test]
async fn a_file_is_written_whole_and_keeps_its_mode() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("run.sh");
    let client = on_files(folder.path()).await;
    let written = call(
        &client,
        "write_file",
        json!({"path": "run.sh", "content": "é"}),
    )
    .await;
    assert_eq!(
        written,
        json!({"path": "run.sh", "bytes": 2, "created": true})
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let written = call(
        &client,
        "write_file",
        json!({"path": "run.sh", "content": "b"}),
    )
    .await;
    assert_eq!(written["created"], false);
    assert_eq!(fs::read_to_string(&path).unwrap(), "b");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o750
    );
    let deep = json!({"path": "a/b/c.txt", "content": "c"});
    let error = refused(&client, "write_file", deep.clone()).await;
    assert!(
        error.message.contains("create_parents"),
        "{}",
        error.message
    );
    let mut deep = deep;
    deep["create_parents"] = json!(true);
    call(&client, "write_file", deep).await;
    assert_eq!(
        fs::read_to_string(folder.path().join("a/b/c.txt")).unwrap(),
        "c"
    );
    for bad in ["a", "a/b/..", ".", "run.sh/x"] {
        refused(&client, "write_file", json!({"path": bad, "content": ""})).await;
    }
    // Nothing is left of what did not work.
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2);
}

#[tokio::test]
async fn a_link_stays_a_link_when_its_file_is_written() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("d/real"), "old").unwrap();
    symlink("d/real", folder.path().join("link")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    let client = on_files(folder.path()).await;
    call(
        &client,
        "write_file",
        json!({"path": "link", "content": "new"}),
    )
    .await;
    assert_eq!(
        fs::read_to_string(folder.path().join("d/real")).unwrap(),
        "new"
    );
    assert!(
        fs::symlink_metadata(folder.path().join("link"))
            .unwrap()
            .is_symlink()
    );
    let edit = json!({"path": "link", "old_text": "new", "new_text": "newer"});
    assert_eq!(call(&client, "edit_file", edit).await["replacements"], 1);
    assert_eq!(
        fs::read_to_string(folder.path().join("d/real")).unwrap(),
        "newer"
    );
    refused(
        &client,
        "write_file",
        json!({"path": "dangling", "content": ""}),
    )
    .await;
}

#[tokio::test]
async fn an_edit_says_what_it_did_or_why_not() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("a"), "one\ntwo\nthree\n").unwrap();
    let client = on_files(folder.path()).await;
    let edit = json!({"path": "a", "old_text": "two", "new_text": "2"});
    let edited = call(&client, "edit_file", edit.clone()).await;
    assert_eq!(
        edited,
        json!({"path": "a", "replacements": 1, "line": 2, "bytes": 12})
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("a")).unwrap(),
        "one\n2\nthree\n"
    );
    let error = refused(&client, "edit_file", edit).await;
    assert!(
        error.message.contains("does not have old_text"),
        "{}",
        error.message
    );
    fs::write(folder.path().join("b"), b"\xff").unwrap();
    let edit = json!({"path": "b", "old_text": "x", "new_text": "y"});
    assert!(
        refused(&client, "edit_file", edit)
            .await
            .message
            .contains("UTF-8")
    );
}

#[tokio::test]
async fn files_to_edit_have_a_size() {
    let folder = tempdir().unwrap();
    let client = on_files(folder.path()).await;
    for (size, is_fine) in [(MAX_EDITED, true), (MAX_EDITED + 1, false)] {
        let text = format!("mark{}", "x".repeat(size - 4));
        fs::write(folder.path().join("a"), text).unwrap();
        let edit = json!({"path": "a", "old_text": "mark", "new_text": "MARK"});
        match is_fine {
            true => drop(call(&client, "edit_file", edit).await),
            false => drop(refused(&client, "edit_file", edit).await),
        }
    }
}

/// The size of a result is known before there is any of it, whatever text is put in and how often.
#[tokio::test]
async fn an_edit_that_grows_a_file_past_the_limit_is_refused() {
    const PLACES: usize = 600;
    let folder = tempdir().unwrap();
    let client = on_files(folder.path()).await;
    let file = folder.path().join("a");
    let mut refusals = 0;
    for power in 0..20 {
        let text = "a".repeat(PLACES);
        fs::write(&file, &text).unwrap();
        let new = "b".repeat(1 << power);
        let edit = json!({"path": "a", "old_text": "a", "new_text": new, "replace_all": true});
        let size = PLACES * new.len();
        if size <= MAX_EDITED {
            assert_eq!(call(&client, "edit_file", edit).await["bytes"], size);
            continue;
        }
        let error = refused(&client, "edit_file", edit).await;
        assert!(
            error.message.contains("larger than 16777216 bytes"),
            "{}",
            error.message
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        refusals += 1;
    }
    assert!(refusals >= 4, "{refusals}");
    // At the limit and one byte past it.
    for (more, is_fine) in [(0, true), (1, false)] {
        fs::write(&file, format!("a{}", "x".repeat(MAX_EDITED - 10 + more))).unwrap();
        let edit = json!({"path": "a", "old_text": "a", "new_text": "b".repeat(10)});
        match is_fine {
            true => assert_eq!(call(&client, "edit_file", edit).await["bytes"], MAX_EDITED),
            false => drop(refused(&client, "edit_file", edit).await),
        }
    }
}

/// Two edits of one file at the same time both count.
#[tokio::test(flavor = "multi_thread")]
async fn edits_do_not_undo_each_other() {
    let folder = tempdir().unwrap();
    let text: String = (0..40).map(|number| format!("<{number}>\n")).collect();
    fs::write(folder.path().join("a"), text).unwrap();
    let client = on_files(folder.path()).await;
    let edits: Vec<_> = (0..40)
        .map(|number| {
            let client = client.clone();
            let old = format!("<{number}>");
            let edit = json!({"path": "a", "old_text": old, "new_text": number.to_string()});
            tokio::spawn(async move { call(&client, "edit_file", edit).await })
        })
        .collect();
    for edit in edits {
        edit.await.unwrap();
    }
    let expected: String = (0..40).map(|number| format!("{number}\n")).collect();
    assert_eq!(
        fs::read_to_string(folder.path().join("a")).unwrap(),
        expected
    );
}

#[tokio::test]
async fn a_folder_is_listed_in_order() {
    let folder = tempdir().unwrap();
    fs::create_dir_all(folder.path().join("b/inner")).unwrap();
    fs::write(folder.path().join("c.txt"), "123").unwrap();
    fs::write(folder.path().join("b/inner/x"), "").unwrap();
    symlink("c.txt", folder.path().join("a")).unwrap();
    let client = on_files(folder.path()).await;
    let list = call(&client, "list_dir", json!({})).await;
    let a = json!({"path": "a", "type": "symlink", "target": "c.txt"});
    let b = json!({"path": "b", "type": "directory"});
    let c = json!({"path": "c.txt", "type": "file", "size": 3});
    assert_eq!(
        list,
        json!({"path": ".", "entries": [a, b, c], "truncated": false})
    );
    let deep = call(&client, "list_dir", json!({"path": "b", "depth": 2})).await;
    let paths: Vec<&str> = deep["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["inner", "inner/x"]);
    for (limit, truncated) in [(3, false), (2, true)] {
        let list = call(&client, "list_dir", json!({ "limit": limit })).await;
        assert_eq!(list["entries"].as_array().unwrap().len(), limit);
        assert_eq!(list["truncated"], truncated);
    }
    assert!(
        refused(&client, "list_dir", json!({"path": "c.txt"}))
            .await
            .message
            .contains("no folder")
    );
}

#[tokio::test]
async fn several_roots_have_names() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(one.path().join("a"), "1").unwrap();
    fs::write(two.path().join("a"), "2").unwrap();
    let roots = Roots::named([
        ("code", one.path(), Access::ReadWrite),
        ("docs", two.path(), Access::ReadOnly),
    ]);
    let client = client(&host(a2e_caps::files::tools(roots.unwrap()).unwrap())).await;
    let read = call(&client, "read_file", json!({"path": "docs/a"})).await;
    assert_eq!(
        (&read["content"], &read["path"]),
        (&json!("2"), &json!("docs/a"))
    );
    let found = call(&client, "grep", json!({"pattern": "1", "path": "code"})).await;
    assert_eq!(found["matches"][0]["path"], "code/a");
    for lost in ["a", "", ".", "other/a"] {
        let error = refused(&client, "read_file", json!({"path": lost})).await;
        assert!(error.message.contains("code, docs"), "{}", error.message);
    }
    let error = refused(
        &client,
        "write_file",
        json!({"path": "docs/b", "content": ""}),
    )
    .await;
    assert_eq!(error.code, ErrorCode::ToolDenied);
    call(
        &client,
        "write_file",
        json!({"path": "code/b", "content": ""}),
    )
    .await;
    let up = json!({"path": "code/../docs/a"});
    assert_eq!(
        refused(&client, "read_file", up).await.code,
        ErrorCode::ToolDenied
    );
}

#[tokio::test]
async fn without_a_place_to_write_there_are_no_tools_to_write() {
    let folder = tempdir().unwrap();
    let roots = Roots::one(folder.path(), Access::ReadOnly).unwrap();
    let tools = a2e_caps::files::tools(roots).unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.definition().name()).collect();
    assert_eq!(names, ["read_file", "list_dir", "glob", "grep"]);
    assert!(tools.iter().all(|tool| tool.definition().is_read_only()));
}

#[test]
fn roots_must_be_folders_with_names() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for bad in ["missing", "file"] {
        let root = Roots::one(&folder.path().join(bad), Access::ReadOnly);
        assert!(matches!(root, Err(RootsError::Folder { .. })), "{root:?}");
    }
    for bad in ["", ".", "..", "a/b"] {
        let root = Roots::named([(bad, folder.path(), Access::ReadOnly)]);
        assert!(matches!(root, Err(RootsError::Name(_))), "{root:?}");
    }
    let twice = [("a", folder.path(), Access::ReadOnly); 2];
    assert!(matches!(Roots::named(twice), Err(RootsError::Name(_))));
    assert!(matches!(Roots::named([]), Err(RootsError::None)));
}

#[tokio::test]
async fn mistyped_names_are_put_right() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("main.rs"), "").unwrap();
    let client = on_files(folder.path()).await;
    let error = refused(&client, "read_file", json!({"path": "mian.rs"})).await;
    assert!(
        error.message.contains("did you mean `main.rs`"),
        "{}",
        error.message
    );
    let error = refused(&client, "read_file", json!({"path": "something.else"})).await;
    assert!(error.message.contains("list_dir"), "{}", error.message);
}

#[tokio::test]
async fn the_time_is_told() {
    let client = client(&host(a2e_caps::time::tools().unwrap())).await;
    let now = call(&client, "current_time", json!({})).await;
    assert!(now["unix_seconds"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(now["timezone"], "UTC");
    let error = refused(&client, "current_time", json!({"timezone": "Mars/Olympus"})).await;
    assert!(error.message.contains("Europe/Rome"), "{}", error.message);
}
