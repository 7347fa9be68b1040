//! Operations of OpenAPI documents as tools, against a server of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_caps::http::{Client, Settings, Web};
use a2e_caps::openapi;
use a2e_runtime::Secret;
use a2e_runtime::config::{Filling, OpenApi};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Server, answer};
use crate::support::{call, client, host, refused};

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/openapi/library.yaml");
const CALLS: &str = include_str!("openapi/calls.json");
const SECRETS: [(&str, &str); 5] = [
    ("token", "t0ken-value"),
    ("password", "ada:hunter222"),
    ("header_key", "header-key"),
    ("query_key", "qu/ery-key"),
    ("cookie_key", "cookie-key"),
];

/// A call of one operation, and what the server must see of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    tool: String,
    arguments: Value,
    line: String,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    absent: Vec<String>,
    body: Option<Value>,
    text: Option<String>,
}

pub(crate) fn api(document: impl Into<PathBuf>) -> OpenApi {
    OpenApi {
        document: document.into(),
        prefix: String::new(),
        server: None,
        auth: Vec::new(),
        headers: Vec::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        deferred: false,
        timeout: None,
        max_bytes: None,
    }
}

fn library(server: &str) -> OpenApi {
    let auth = SECRETS.map(|(name, secret)| (name.to_owned(), Secret::new(secret)));
    OpenApi {
        server: Some(server.to_owned()),
        auth: auth.into(),
        ..api(LIBRARY)
    }
}

pub(crate) fn public() -> Web {
    Web::new(Client::new(Settings::default()), &[]).unwrap()
}

fn web(server: &Server) -> Web {
    let named = [format!("127.0.0.1:{}", server.port)];
    Web::new(Client::new(Settings::default()), &named).unwrap()
}

pub(crate) fn written(folder: &Path, document: &Value) -> PathBuf {
    let file = folder.join("api.json");
    std::fs::write(&file, document.to_string()).unwrap();
    file
}

/// All 50 operations of a document, each with what arrives.
#[tokio::test]
async fn fifty_operations_arrive_as_the_document_says() {
    let head = "200 OK\r\nContent-Type: application/json";
    let server = Server::start(answer(head, r#"{"done":true}"#)).await;
    let tools = openapi::load(&library(&server.url("/v1/")), &web(&server))
        .unwrap()
        .tools;
    let calls: Vec<Expected> = serde_json::from_str(CALLS).unwrap();
    assert_eq!((tools.len(), calls.len()), (50, 50));
    let client = client(&host(tools)).await;
    for expected in calls {
        let tool = &expected.tool;
        let done = call(&client, tool, expected.arguments).await;
        let has_body = !expected.line.starts_with("HEAD");
        let data = if has_body {
            json!({"done": true})
        } else {
            json!({"status": 200})
        };
        assert_eq!(done, data, "{tool}");
        let asked = server.asked().pop().unwrap();
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        let line = format!("{} HTTP/1.1", expected.line);
        assert_eq!(head.lines().next(), Some(line.as_str()), "{tool}");
        let headers: Vec<String> = head.lines().skip(1).map(lower_name).collect();
        for header in &expected.headers {
            assert!(headers.contains(header), "{tool}: {header} in {headers:?}");
        }
        for name in &expected.absent {
            assert!(
                !headers.iter().any(|it| it.starts_with(name)),
                "{tool}: {headers:?}"
            );
        }
        match (expected.body, expected.text) {
            (Some(json), _) => {
                assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json, "{tool}");
            }
            (None, text) => assert_eq!(body, text.unwrap_or_default(), "{tool}"),
        }
    }
    assert_eq!(server.asked().len(), 50);
}

fn lower_name(header: &str) -> String {
    let (name, value) = header.split_once(": ").unwrap();
    format!("{}: {value}", name.to_lowercase())
}

#[tokio::test]
async fn definitions_say_what_the_document_says() {
    let tools = openapi::load(&library("https://h.example/v1"), &public())
        .unwrap()
        .tools;
    let find = |name: &str| {
        let mut tools = tools.iter();
        Arc::clone(tools.find(|it| it.definition().name() == name).unwrap())
    };
    let list = find("listBooks");
    let wire = list.definition().to_wire();
    assert_eq!(&*wire.description, "Lists books");
    assert_eq!(wire.tags, ["books"]);
    assert!(wire.idempotent && list.definition().is_read_only());
    let input = list.definition().input_schema().value();
    assert_eq!(
        input["properties"]["limit"],
        json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 100, "description": "At most so many"})
    );
    let create = find("createBook");
    assert!(!create.definition().is_read_only() && !create.definition().to_wire().idempotent);
    let input = create.definition().input_schema().value();
    assert_eq!(
        input["properties"]["body"],
        json!({"$ref": "#/$defs/Thing"})
    );
    let thing = &input["$defs"]["Thing"];
    assert_eq!(thing["required"], json!(["name"]));
    assert_eq!(
        thing["properties"]["note"]["type"],
        json!(["string", "null"])
    );
    assert_eq!(thing["properties"].get("id"), None);
    let patch = find("patchTree").definition().to_wire();
    assert!(patch.tags.iter().any(|tag| tag == "deprecated"));
    assert!(patch.description.contains("Deprecated"));
    assert!(find("replaceBook").definition().to_wire().idempotent);
}

#[tokio::test]
async fn arguments_are_checked_before_anything_is_sent() {
    let server = Server::start(answer("200 OK", "")).await;
    let tools = openapi::load(&library(&server.url("")), &web(&server))
        .unwrap()
        .tools;
    let client = client(&host(tools)).await;
    for (tool, arguments, path) in [
        ("listBooks", json!({"limit": 0}), "/limit"),
        ("listBooks", json!({"other": 1}), ""),
        ("getBook", json!({}), ""),
        ("createBook", json!({"body": {"name": 1}}), "/body/name"),
        (
            "createBook",
            json!({"body": {"name": "n", "parent": {"name": "p", "parent": {}}}}),
            "/body/parent/parent",
        ),
        ("get_health_part", json!({"part": "cpu"}), "/part"),
    ] {
        let error = refused(&client, tool, arguments).await;
        assert_eq!(error.code.as_str(), "schema_violation", "{tool}");
        assert!(error.message.contains(path), "{error:?}");
    }
    for bad in [".", ".."] {
        refused(&client, "getBook", json!({"bookId": bad})).await;
    }
    assert!(server.asked().is_empty());
}

/// Errors have the document's words, and never the operator's secrets.
#[tokio::test]
async fn errors_say_what_the_document_says_of_them() {
    let echo = SECRETS.map(|(_, secret)| secret).join(" ");
    for (status, tool, meaning) in [
        (
            "404 Not Found",
            "getBook",
            "404 Not Found: There is no such book",
        ),
        ("418 Teapot", "listBooks", ": Something went wrong"),
        ("500 Oops", "getBook", "500 Internal Server Error"),
    ] {
        let server = Server::start(answer(status, &echo)).await;
        let tools = openapi::load(&library(&server.url("/v1")), &web(&server))
            .unwrap()
            .tools;
        let client = client(&host(tools)).await;
        let arguments = match tool {
            "getBook" => json!({"bookId": "1"}),
            _ => json!({}),
        };
        let calling = a2e_runtime::Calling::default();
        let result = client
            .tools()
            .call(tool, &arguments, calling)
            .await
            .unwrap();
        assert!(
            !result.success && result.error.as_ref().unwrap().contains(meaning),
            "{result:?}"
        );
        assert!(!format!("{result:?}").contains("t0ken-value"), "{result:?}");
    }
}

#[test]
fn operations_are_chosen() {
    let named = |include: &[&str], exclude: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let api = OpenApi {
            include: list(include),
            exclude: list(exclude),
            prefix: "lib_".into(),
            deferred: true,
            ..library("https://h.example")
        };
        let tools = openapi::load(&api, &public())
            .map_err(|error| error.to_string())?
            .tools;
        assert!(tools.iter().all(|tool| tool.definition().is_deferred()));
        let names = tools.iter().map(|tool| tool.definition().name().to_owned());
        Ok::<Vec<String>, String>(names.collect())
    };
    assert_eq!(
        named(&["getBook", "listBooks"], &[]).unwrap(),
        ["lib_listBooks", "lib_getBook"]
    );
    assert_eq!(
        named(&["tag:books"], &["delete*", "createBook"])
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        named(&["GET /health/{part}"], &[]).unwrap(),
        ["lib_get_health_part"]
    );
    assert_eq!(named(&[], &["tag:special"]).unwrap().len(), 40);
    for (include, exclude, text) in [
        (&["getBok"][..], &[][..], "`getBok`"),
        (&[], &["tag:none"], "`tag:none`"),
        (&["getBook"], &["getBook"], "leave nothing"),
    ] {
        let error = named(include, exclude).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
}

/// A document of version 3.1, with what it has and 3.0 has not.
#[tokio::test]
async fn version_3_1_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(answer("200 OK", "ok")).await;
    let file = written(
        folder.path(),
        &json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
            "servers": [{"url": server.url("/base/")}],
            "paths": {"/x/{a}": {"$ref": "#/components/pathItems/X"}},
            "components": {
                "pathItems": {"X": {
                    "parameters": [{"name": "a", "in": "path", "required": true, "schema": {"type": "string"}}],
                    "post": {"operationId": "x", "parameters": [
                            {"name": "a", "in": "path", "required": true, "schema": {"type": "integer"}}],
                        "requestBody": {"$ref": "#/components/requestBodies/B"}}}},
                "requestBodies": {"B": {"content": {"application/json": {"schema": {
                    "type": ["object", "null"], "$defs": {"own": {"type": "string"}},
                    "properties": {"k": {"$ref": "#/components/schemas/K", "description": "beside"}},
                    "patternProperties": {"^x": {"exclusiveMinimum": 3}}}}}}},
                "schemas": {"K": {"const": "v"}}}}),
    );
    let api = OpenApi {
        headers: vec![(
            "X-Fixed".into(),
            Filling::Secret(Secret::new("fixed-value")),
        )],
        server: Some(server.url("/base/")),
        ..api(file)
    };
    let tools = openapi::load(&api, &web(&server)).unwrap().tools;
    let client = client(&host(tools)).await;
    assert_eq!(
        call(&client, "x", json!({"a": 1, "body": {"k": "v", "x1": 4}})).await,
        "ok"
    );
    let asked = server.asked().remove(0);
    assert!(asked.starts_with("POST /base/x/1 "), "{asked}");
    assert!(asked.contains("fixed-value"), "{asked}");
    for bad in [
        json!({"a": "1"}),
        json!({"a": 1, "body": {"k": "w"}}),
        json!({"a": 1, "body": {"x1": 3}}),
    ] {
        refused(&client, "x", bad).await;
    }
}
