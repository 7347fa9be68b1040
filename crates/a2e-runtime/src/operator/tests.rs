use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::server::{MAX_CONNECTIONS, MAX_LINE, PATIENCE, may_operate, serve};
use super::*;
use crate::data_dir::{Claim, DataDir};
use crate::tokens::{Revoked, TokenStore};

struct Node {
    _folder: tempfile::TempDir,
    claim: Claim,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

/// A node with nothing but an operator's socket.
fn node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let claim = DataDir::new(folder.path().join("data")).claim().unwrap();
    let tokens = Arc::new(TokenStore::open(&claim, None).unwrap());
    let operations =
        Operations::new().with_tokens(&tokens, &crate::Host::builder().build(), |_| Ok(Vec::new()));
    let server = Server::bind(&claim, operations).unwrap();
    let stop = CancellationToken::new();
    Node {
        _folder: folder,
        running: tokio::spawn(server.run(stop.clone())),
        claim,
        stop,
    }
}

/// What comes back for these bytes.
async fn answer(input: &[u8]) -> String {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (mut reader, mut writer) = tokio::io::split(ours);
    let mut output = String::new();
    let (operations, stop) = (Operations::new(), CancellationToken::new());
    let (served, _, _) = tokio::join!(
        serve(theirs, &operations, &stop),
        async {
            // A peer that is cut off cannot write the rest.
            let _ = writer.write_all(input).await;
            let _ = writer.shutdown().await;
        },
        reader.read_to_string(&mut output),
    );
    served.unwrap();
    output
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let node = node();
    let dir = node.claim.dir();
    let status: Status = ask(dir, "status", &Nothing {}).await.unwrap();
    assert_eq!(status.pid, std::process::id());
    let request = json!({"agent": "ada", "label": "laptop"});
    let created: Created = ask(dir, "token.new", &request).await.unwrap();
    assert!(created.token.starts_with("frith_"));
    assert!(!format!("{created:?}").contains(&created.token));
    let listed: serde_json::Value = ask(dir, "token.list", &Nothing {}).await.unwrap();
    let text = listed.to_string();
    assert!(
        text.contains("laptop") && !text.contains(&created.token),
        "{text}"
    );
    assert!(!text.contains("sha256"), "{text}");
    let request = json!({"target": "ada"});
    let revoked: Revoked = ask(dir, "token.revoke", &request).await.unwrap();
    assert_eq!(revoked.ids, [created.id]);
    let error = ask::<Revoked>(dir, "token.revoke", &request)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, AskError::Refused(text) if text.contains("`ada`")),
        "{error}"
    );
}

#[tokio::test]
async fn only_the_nodes_own_user_and_root_may_ask() {
    let node = node();
    let path = node.claim.dir().operator_socket();
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(may_operate(1000, 1000) && may_operate(0, 1000) && may_operate(0, 0));
    assert!(!may_operate(1001, 1000) && !may_operate(1000, 0));
}

#[tokio::test]
async fn a_node_that_ends_takes_its_socket_away() {
    let node = node();
    let dir = node.claim.dir().clone();
    let idle = UnixStream::connect(dir.operator_socket()).await.unwrap();
    node.stop.cancel();
    node.running.await.unwrap();
    assert!(!dir.operator_socket().exists());
    drop(idle);
    let error = ask::<Status>(&dir, "status", &Nothing {})
        .await
        .unwrap_err();
    let data = dir.path().display();
    let expected = format!("no node is running on {data}; start one with `frith up --data {data}`");
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn what_a_dead_node_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let dir = DataDir::new(folder.path().join("data"));
    let claim = dir.claim().unwrap();
    drop(Server::bind(&claim, Operations::new()).unwrap());
    assert!(dir.operator_socket().exists());
    let error = ask::<Status>(&dir, "status", &Nothing {})
        .await
        .unwrap_err();
    assert!(matches!(error, AskError::NoNode { .. }), "{error}");
    let server = Server::bind(&claim, Operations::new()).unwrap();
    // A live one has the directory, and is named.
    drop(claim);
    let error = dir.claim().unwrap_err().to_string();
    assert!(
        error.contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    drop(server);
    std::fs::remove_file(dir.operator_socket()).unwrap();
    std::fs::write(dir.operator_socket(), "mine").unwrap();
    let claim = dir.claim().unwrap();
    let error = Server::bind(&claim, Operations::new())
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not a socket; move it away"), "{error}");
}

#[tokio::test]
async fn a_node_that_ends_before_it_answers_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = DataDir::new(folder.path());
    let listener = tokio::net::UnixListener::bind(dir.operator_socket()).unwrap();
    let (asked, _) = tokio::join!(ask::<Status>(&dir, "status", &Nothing {}), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 16];
        stream.read_exact(&mut request).await.unwrap();
    });
    let error = asked.unwrap_err().to_string();
    assert!(
        error.contains("cannot speak to the node on") && error.contains("end of file"),
        "{error}"
    );
}

#[tokio::test]
async fn bad_input_is_answered() {
    for (input, error) in [
        ("\n", "at byte 0"),
        ("not json\n", "at byte 0"),
        ("[1]\n", "must be a JSON object"),
        ("{\"op\":1}\n", "must say in `op` what to do"),
        ("{\"op\":\"a\",\"op\":\"b\"}\n", "duplicate"),
        (
            "{\"op\":\"stats\"}\n",
            "no operation `stats`; there are status",
        ),
        ("{\"op\":\"status\",\"x\":1}\n", "unknown field `x`"),
    ] {
        let text = answer(format!("{input}{{\"op\":\"status\"}}").as_bytes()).await;
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [bad, good] = lines.as_slice() else {
            panic!("{text}");
        };
        let said = bad["error"].as_str().unwrap();
        assert!(bad["ok"] == false && said.contains(error), "{said}");
        assert_eq!(good["ok"], true, "the connection goes on");
    }
}

#[tokio::test]
async fn a_line_has_a_limit() {
    let status = r#"{"op":"status"}"#;
    let of = |length: usize| format!("{status}{}\n", " ".repeat(length - status.len()));
    let at_limit = answer(of(MAX_LINE).as_bytes()).await;
    assert!(at_limit.contains("\"ok\":true"), "{at_limit}");
    let past_it = answer((of(MAX_LINE + 1) + status + "\n").as_bytes()).await;
    assert!(past_it.contains("at most 65536 bytes"), "{past_it}");
    assert_eq!(past_it.lines().count(), 1, "the connection ends: {past_it}");
}

#[tokio::test(start_paused = true)]
async fn silence_has_a_limit() {
    let (mut ours, theirs) = tokio::io::duplex(1024);
    ours.write_all(b"{\"op\":\"status\"}\n{\"op\"")
        .await
        .unwrap();
    let start = tokio::time::Instant::now();
    let served = serve(theirs, &Operations::new(), &CancellationToken::new()).await;
    assert_eq!(served.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), PATIENCE);
    // One that does not take its answers has no more patience coming.
    let (mut ours, theirs) = tokio::io::duplex(20);
    let write = ours.write_all(b"{\"op\":\"status\"}\n");
    let (operations, stop) = (Operations::new(), CancellationToken::new());
    let (served, _) = tokio::join!(serve(theirs, &operations, &stop), write);
    assert_eq!(served.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn connections_have_a_limit() {
    let node = node();
    let path = node.claim.dir().operator_socket();
    let mut open = Vec::new();
    for _ in 0..=MAX_CONNECTIONS {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(b"{\"op\":\"status\"}\n").await.unwrap();
        open.push(BufReader::new(stream));
    }
    let mut line = String::new();
    let mut last = open.pop().unwrap();
    for stream in &mut open {
        stream.read_line(&mut line).await.unwrap();
    }
    // All places are taken, so the last is not even accepted until one of them leaves.
    let unread = last.get_ref().try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(unread.kind(), std::io::ErrorKind::WouldBlock);
    open.pop();
    line.clear();
    last.read_line(&mut line).await.unwrap();
    assert!(line.contains("\"ok\":true"), "{line}");
}

#[tokio::test]
async fn operations_can_be_added() {
    #[derive(serde::Deserialize)]
    struct Question {
        number: i64,
    }
    let operations = Operations::new()
        .add("half", async |question: Question| {
            match question.number % 2 {
                0 => Ok(json!({"half": question.number / 2})),
                _ => Err("an odd number has no half".to_owned()),
            }
        })
        .add("list", async |_: Nothing| Ok([1, 2]));
    let ask = async |line: &str| {
        String::from_utf8(
            operations
                .answer(line.as_bytes(), News(mpsc::channel(1).0))
                .await,
        )
    };
    let good = ask(r#"{"op":"half","number":4}"#).await.unwrap();
    assert_eq!(good, "{\"ok\":true,\"half\":2}\n");
    let bad = ask(r#"{"op":"half","number":3}"#).await.unwrap();
    assert_eq!(
        bad,
        "{\"ok\":false,\"error\":\"an odd number has no half\"}\n"
    );
    let missing = ask(r#"{"op":"half"}"#).await.unwrap();
    assert!(missing.contains("missing field `number`"), "{missing}");
    let defect = ask(r#"{"op":"list"}"#).await.unwrap();
    assert!(defect.contains("cannot be written as JSON"), "{defect}");
}

/// What nobody waits for any more ends, if it was said to; everything else is done.
#[tokio::test]
async fn an_operation_may_end_with_the_operator() {
    for ends in [true, false] {
        let (started, mut begun) = mpsc::channel(1);
        let (dropped, go_on) = (CancellationToken::new(), CancellationToken::new());
        let operations = Operations::new().add("wait", {
            let (dropped, go_on) = (dropped.clone(), go_on.clone());
            move |_: Nothing| {
                let (started, go_on) = (started.clone(), go_on.clone());
                let guard = dropped.clone().drop_guard();
                async move {
                    let _ = started.send(()).await;
                    go_on.cancelled().await;
                    drop(guard.disarm());
                    Ok::<_, String>(Nothing {})
                }
            }
        });
        let operations = match ends {
            true => operations.ending_with_operator("wait"),
            false => operations,
        };
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let serving =
            tokio::spawn(
                async move { serve(theirs, &operations, &CancellationToken::new()).await },
            );
        ours.write_all(b"{\"op\":\"wait\"}\n").await.unwrap();
        begun.recv().await.unwrap();
        drop(ours);
        if ends {
            dropped.cancelled().await;
            serving.await.unwrap().unwrap();
        } else {
            go_on.cancel();
            // Done, although nobody takes the answer.
            let _ = serving.await.unwrap();
            assert!(!dropped.is_cancelled());
        }
    }
}
