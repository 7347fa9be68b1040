//! The examples: tools in Python and JavaScript, which bring their language with them.
//!
//! Compiling one takes a while, so each has one test.

use std::fs;
use std::path::Path;

use a2e_caps::components::Access;
use a2e_runtime::{Calling, Client};
use sandbox::Profile;
use serde_json::{Value, json};

use super::{built, loaded, wanted};
use crate::support::{call, client, host, refused};

async fn says(client: &Client, name: &str, arguments: Value, text: &str) {
    let error = refused(client, name, arguments).await;
    assert!(error.message.contains(text), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_in_javascript() {
    let wanted = wanted("slug", built::javascript("slug"));
    let client = client(&host(vec![loaded(&wanted, &Profile::default()).await])).await;
    let slug = call(&client, "slug", json!({"title": "Über Bäume & Wälder"})).await;
    assert_eq!(slug, json!("ueber-baeume-waelder"));
    says(
        &client,
        "slug",
        json!({"title": "…"}),
        "no letter and no digit",
    )
    .await;
    says(&client, "slug", json!({"title": 1}), "/title").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_in_python_reaches_what_it_is_given_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    fs::write(folder.path().join("note"), "a note").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
    let mut profile = Profile::default();
    profile.writable.push(folder.path().to_owned());
    let path = built::python("run_python");
    let components = a2e_caps::components::Components::default();
    let mut tools = Vec::new();
    for (name, files) in [
        ("none", Access::None),
        ("read", Access::Read),
        ("write", Access::Write),
    ] {
        let mut wanted = wanted(name, path.clone());
        wanted.files = files;
        tools.push(components.load(&wanted, &profile).await.unwrap());
    }
    assert!(!tools[0].definition().is_read_only());
    let client = client(&host(tools)).await;
    computes(&client).await;
    files(&client, folder.path(), outside.path()).await;
    the_rest_is_out_of_reach(&client).await;
}

fn code(text: &str) -> Value {
    json!({ "code": text })
}

async fn computes(client: &Client) {
    let sum = call(
        client,
        "none",
        code("result = sum(n * n for n in range(10))"),
    )
    .await;
    assert_eq!(sum, json!({"result": 285}));
    let asked = code("print('one')\nprint('two')\nevents.progress(50, 'half')");
    let outcome = client.tools().call("none", &asked, Calling::default());
    let told: Vec<String> = outcome
        .await
        .unwrap()
        .events
        .iter()
        .map(|event| event.body.data.raw().as_str().to_owned())
        .collect();
    let told = told.join(" ");
    for text in ["running", "one", "two", "half"] {
        assert!(told.contains(text), "{told}");
    }
    says(client, "none", code("1 / 0"), "ZeroDivisionError").await;
    let greedy = "x = []\nwhile True: x.append('a' * (1 << 24))";
    says(client, "none", code(greedy), "emory").await;
}

async fn files(client: &Client, folder: &Path, outside: &Path) {
    let read = |path: &Path| code(&format!("result = open({:?}).read()", path.display()));
    let write = |path: &Path| code(&format!("open({:?}, 'w').write('new')", path.display()));
    let note = folder.join("note");
    for name in ["read", "write"] {
        let text = call(client, name, read(&note)).await;
        assert_eq!(text, json!({"result": "a note"}));
        let text = call(client, name, read(Path::new("note"))).await;
        assert_eq!(text, json!({"result": "a note"}));
    }
    says(client, "none", read(&note), "Error").await;
    for name in ["none", "read"] {
        says(client, name, write(&note), "Error").await;
        says(client, name, write(&folder.join("new")), "Error").await;
    }
    assert_eq!(fs::read_to_string(&note).unwrap(), "a note");
    call(client, "write", write(&folder.join("new"))).await;
    assert_eq!(fs::read_to_string(folder.join("new")).unwrap(), "new");
    for way in [
        outside.join("secret"),
        folder.join("out/secret"),
        folder
            .join("../")
            .join(outside.file_name().unwrap())
            .join("secret"),
        "/etc/passwd".into(),
    ] {
        for name in ["none", "read", "write"] {
            says(client, name, read(&way), "Error").await;
        }
    }
}

async fn the_rest_is_out_of_reach(client: &Client) {
    let empty = call(
        client,
        "write",
        code("import os\nresult = dict(os.environ)"),
    )
    .await;
    assert_eq!(empty, json!({"result": {}}));
    let connect = "import socket\ns = socket.socket()\ns.connect(('127.0.0.1', 1))";
    let error = refused(client, "write", code(connect)).await.message;
    assert!(
        error.contains("Error") && !error.contains("refused"),
        "{error}"
    );
    let bind = "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()";
    says(client, "write", code(bind), "Error").await;
    says(client, "write", code("import os\nos.fork()"), "Error").await;
    says(
        client,
        "write",
        code("import os\nos.system('true')"),
        "Error",
    )
    .await;
    // However it is told so, it does not get ten thousand descriptors of the host.
    let many = "files = [open(f'f{n}', 'w') for n in range(10000)]\nresult = len(files)";
    says(client, "write", code(many), "").await;
}
