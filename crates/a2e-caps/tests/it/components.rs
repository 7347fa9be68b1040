//! Tools that are WebAssembly components, asked by a real client.

mod built;
mod examples;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_caps::components::{Access, Components, Wanted};
use a2e_caps::tool::{Catalogue, Pinning, Source, Tool};
use a2e_caps::tools::{Settings, Tools};
use a2e_runtime::definitions::Definitions;
use a2e_runtime::{Calling, ClientError, Host};
use a2e_wire::ErrorCode;
use sandbox::Profile;
use serde_json::json;
use store::{Limits, Memory, Store};

use crate::support::{call, client, host, refused};

const ECHO: &str = "(call $answer (i32.const 0) (local.get $at) (local.get $size))";

/// The example in the text format, whose `call` does what a test wants, as a file.
fn file(folder: &Path, name: &str, body: &str) -> PathBuf {
    let echo = testkit::workspace().join("examples/tools/echo.wat");
    let echo = fs::read_to_string(echo).unwrap();
    let (head, rest) = echo.split_once(";; begin").unwrap();
    let (_, tail) = rest.split_once(";; end").unwrap();
    let path = folder.join(name).with_extension("wasm");
    fs::write(
        &path,
        wat::parse_str(format!("{head}{body}{tail}")).unwrap(),
    )
    .unwrap();
    path
}

fn wanted(name: &str, path: PathBuf) -> Wanted {
    Wanted {
        name: name.into(),
        path,
        files: Access::None,
    }
}

async fn loaded(wanted: &Wanted, profile: &Profile) -> Arc<dyn Tool> {
    Components::default().load(wanted, profile).await.unwrap()
}

/// A tool whose `call` does what a test wants.
async fn tool(name: &str, body: &str) -> Arc<dyn Tool> {
    let folder = tempfile::tempdir().unwrap();
    let wanted = wanted(name, file(folder.path(), name, body));
    loaded(&wanted, &Profile::default()).await
}

#[tokio::test]
async fn a_component_is_listed_checked_and_called() {
    let body = format!("(call $status (i32.const 0x200) (i32.const 7)) {ECHO}");
    let client = client(&host(vec![tool("echo", &body).await])).await;
    let listed = client.tools().list().await.unwrap();
    let echo = listed.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.description, "Gives back what it is given");
    assert!(echo.streaming && echo.idempotent);
    assert_eq!(echo.tags, ["echo"]);
    assert_eq!(
        call(&client, "echo", json!({"a": [1]})).await,
        json!({"a": [1]})
    );
    let result = client
        .tools()
        .call("echo", &json!({"b": 1}), Calling::default())
        .await
        .unwrap();
    let event = result.events.first().unwrap();
    assert_eq!(event.body.data.raw().as_str(), r#"{"message":"echoing"}"#);
}

#[tokio::test]
async fn what_a_component_does_wrong_is_said() {
    let tools = vec![
        tool(
            "text",
            "(call $answer (i32.const 0) (i32.const 0x200) (i32.const 7))",
        )
        .await,
        tool("traps", "(unreachable)").await,
        tool(
            "says",
            "(call $answer (i32.const 1) (i32.const 0x200) (i32.const 7))",
        )
        .await,
    ];
    let client = client(&host(tools)).await;
    for (name, said) in [
        ("text", "the result is no JSON"),
        ("traps", "the component broke off"),
        ("says", "echoing"),
    ] {
        let error = refused(&client, name, json!({})).await;
        assert_eq!(error.code, ErrorCode::ToolError, "{name}");
        assert!(error.message.contains(said), "{}", error.message);
    }
}

/// On one thread, so that a component that went on would keep everybody else from going on.
#[tokio::test]
async fn a_component_that_loops_is_ended_in_time() {
    let tools = vec![
        tool("loops", "(loop $again (br $again)) (unreachable)").await,
        tool("echo", ECHO).await,
    ];
    let client = client(&host(tools)).await;
    let calling = Calling {
        seconds: 1,
        ..Calling::default()
    };
    let outcome = client.tools().call("loops", &json!({}), calling).await;
    let Err(ClientError::Host(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.code, ErrorCode::Timeout);
    assert_eq!(
        call(&client, "echo", json!({"a": 1})).await,
        json!({"a": 1})
    );
}

/// Whatever it says of itself is the same; what it does is not.
#[tokio::test]
async fn a_changed_component_waits_for_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(Memory::new(Limits::default()));
    let definitions = Definitions::new(&store).unwrap();
    let pinning = Pinning::new(definitions.clone());
    let source = Source::Component("echo".into());
    let components = Components::default();
    let catalogue = Arc::new(Catalogue::default());
    let tools = Tools::new(Arc::clone(&catalogue), Settings::default()).unwrap();
    let client = client(&Host::builder().plugin(tools).build()).await;
    let offer = async |body: &str| {
        let wanted = wanted("echo", file(folder.path(), "echo", body));
        let tool = components.load(&wanted, &Profile::default()).await.unwrap();
        let admitted = pinning.admit(&source, vec![tool]).await.unwrap();
        catalogue.set_admitted(source.clone(), admitted);
    };
    offer(ECHO).await;
    assert_eq!(
        call(&client, "echo", json!({"a": 1})).await,
        json!({"a": 1})
    );
    let two = format!("(drop (i32.const 2)) {ECHO}");
    offer(&two).await;
    let listed = client.tools().list().await.unwrap();
    assert!(listed.iter().all(|tool| tool.name != "echo"));
    let error = refused(&client, "echo", json!({"a": 1})).await;
    assert_eq!(error.code, ErrorCode::ToolDenied);
    let hint = "frith tools pending";
    assert!(error.message.contains(hint), "{}", error.message);
    // As it was approved, it may be called again.
    offer(ECHO).await;
    assert_eq!(
        call(&client, "echo", json!({"a": 2})).await,
        json!({"a": 2})
    );
    offer(&two).await;
    let changed = definitions.changed().await.unwrap().remove(0);
    assert!(
        definitions
            .approve(&changed.pin, changed.offered)
            .await
            .unwrap()
    );
    offer(&two).await;
    assert_eq!(
        call(&client, "echo", json!({"a": 3})).await,
        json!({"a": 3})
    );
}

#[tokio::test]
async fn what_cannot_be_loaded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.wasm");
    let text = folder.path().join("text.wasm");
    fs::write(&text, "no component").unwrap();
    for (path, why) in [
        (missing, "No such file"),
        (text, "is no WebAssembly component"),
    ] {
        let loaded = Components::default()
            .load(&wanted("broken", path.clone()), &Profile::default())
            .await;
        let Err(error) = loaded else {
            panic!("{} was loaded", path.display());
        };
        let error = error.to_string();
        assert!(error.contains("`broken`"), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains(why), "{error}");
    }
}
