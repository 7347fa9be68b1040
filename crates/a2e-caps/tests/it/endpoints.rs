//! Endpoints of a configuration as tools, against servers of this machine.

use a2e_caps::endpoints;
use a2e_caps::http::{Client, Settings, Web};
use a2e_runtime::config::{EndpointTool, Filling, Login, RequestBody, ResponseForm};
use a2e_runtime::{Calling, Secret};
use a2e_wire::messages::tool::ToolResult;
use serde_json::{Value, json};

use crate::http::{Server, answer};
use crate::support::{call, client, host, refused};

pub(crate) const SECRET: &str = "hunter2222";

/// Tools may reach this server, since the operator has written it down.
pub(crate) fn web(server: &Server) -> Web {
    let named = [format!("127.0.0.1:{}", server.port)];
    Web::new(Client::new(Settings::default()), &named).unwrap()
}

pub(crate) fn endpoint(url: String, parameters: &Value, required: &[&str]) -> EndpointTool {
    EndpointTool {
        name: "t".into(),
        description: "A tool of a test".into(),
        method: "GET".into(),
        url,
        query: Vec::new(),
        headers: Vec::new(),
        login: None,
        body: RequestBody::None,
        response: ResponseForm::Auto,
        errors: Vec::new(),
        parameters: parameters.as_object().unwrap().clone(),
        required: required.iter().map(|it| (*it).to_owned()).collect(),
        tags: Vec::new(),
        read_only: false,
        timeout: None,
        max_bytes: None,
    }
}

pub(crate) async fn on(server: &Server, endpoint: &EndpointTool) -> a2e_runtime::Client {
    let tool = endpoints::tool(endpoint, &web(server)).unwrap();
    client(&host(vec![tool])).await
}

pub(crate) async fn outcome(client: &a2e_runtime::Client, arguments: Value) -> ToolResult<'static> {
    let tools = client.tools();
    tools
        .call("t", &arguments, Calling::default())
        .await
        .unwrap()
}

pub(crate) fn text(text: &str) -> Filling {
    Filling::Text(text.into())
}

#[tokio::test]
async fn arguments_go_where_the_operator_says() {
    let head = "200 OK\r\nContent-Type: application/json; charset=utf-8";
    let server = Server::start(answer(head, r#"{"ok":[1]}"#)).await;
    let parameters = json!({"id": {"type": "string"}, "q": {"type": "string"}, "list": {"type": "array"},
        "n": {"type": "integer"}, "more": {"type": "string"}});
    let mut tool = endpoint(
        server.url("/a/{id}/b?fixed=1&q={q}"),
        &parameters,
        &["id", "q"],
    );
    tool.method = "POST".into();
    tool.query = vec![
        ("list".into(), text("{list}")),
        ("none".into(), text("{more}")),
        ("key".into(), Filling::Secret(Secret::new(SECRET))),
    ];
    tool.headers = vec![
        ("X-N".into(), text("n={n}")),
        ("X-None".into(), text("{more}")),
        ("X-Key".into(), Filling::Secret(Secret::new(SECRET))),
    ];
    tool.login = Some(Login::Bearer(Secret::new("t0ken-value")));
    tool.body = RequestBody::Json(json!({"n": "{n}", "text": "n is {n}", "gone": "{more}",
        "list": ["{id}", "{more}", 1], "{{x}}": true}));
    let client = on(&server, &tool).await;
    let arguments = json!({"id": "a/../b?c#d", "q": "x&y=z", "list": [1, "two"], "n": 3});
    assert_eq!(call(&client, "t", arguments).await, json!({"ok": [1]}));
    let asked = server.asked().remove(0);
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    let line = format!(
        "POST /a/a%2F..%2Fb%3Fc%23d/b?fixed=1&q=x%26y%3Dz&list=1&list=two&key={SECRET} HTTP/1.1"
    );
    assert_eq!(head.lines().next(), Some(line.as_str()));
    let head = head.to_lowercase();
    for line in [
        "x-n: n=3",
        "x-key: hunter2222",
        "authorization: bearer t0ken-value",
        "content-type: application/json",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(!head.contains("x-none"));
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body,
        json!({"n": 3, "text": "n is 3", "list": ["a/../b?c#d", 1], "{{x}}": true})
    );
}

#[tokio::test]
async fn bodies_of_all_kinds() {
    let parameters = json!({"a": {"type": "string"}, "b": {"type": "array"}});
    for (body, kind, expected) in [
        (
            RequestBody::Arguments,
            "application/json",
            r#"{"a":"x&","b":[1,2]}"#,
        ),
        (
            RequestBody::Form(vec![("f".into(), text("<{a}>")), ("g".into(), text("{b}"))]),
            "application/x-www-form-urlencoded",
            "f=%3Cx%26%3E&g=1&g=2",
        ),
        (
            RequestBody::Text("a".into()),
            "text/plain; charset=utf-8",
            "x&",
        ),
    ] {
        let server = Server::start(answer("204 No Content", "")).await;
        let mut tool = endpoint(server.url("/"), &parameters, &[]);
        tool.method = "PUT".into();
        tool.body = body;
        let client = on(&server, &tool).await;
        let done = call(&client, "t", json!({"a": "x&", "b": [1, 2]})).await;
        assert_eq!(done, json!({"status": 204}));
        let asked = server.asked().remove(0);
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, expected);
        assert!(
            head.to_lowercase()
                .contains(&format!("content-type: {kind}")),
            "{head}"
        );
    }
}

#[tokio::test]
async fn answers_are_what_they_say_or_what_the_operator_says() {
    let json_head = "200 OK\r\nContent-Type: application/problem+json";
    for (head, body, form, expected) in [
        (json_head, "[1]", ResponseForm::Auto, Some(json!([1]))),
        (json_head, "[1", ResponseForm::Auto, Some(json!("[1"))),
        (
            json_head,
            "\u{feff}[1]",
            ResponseForm::Auto,
            Some(json!([1])),
        ),
        (json_head, "[1]", ResponseForm::Text, Some(json!("[1]"))),
        ("200 OK", "[1]", ResponseForm::Auto, Some(json!("[1]"))),
        ("200 OK", "[1]", ResponseForm::Json, Some(json!([1]))),
        (
            "200 OK",
            "\u{feff}[1]",
            ResponseForm::Json,
            Some(json!([1])),
        ),
        ("200 OK", "<a>", ResponseForm::Json, None),
    ] {
        let server = Server::start(answer(head, body)).await;
        let mut tool = endpoint(server.url("/"), &json!({}), &[]);
        tool.response = form;
        let client = on(&server, &tool).await;
        match expected {
            Some(expected) => assert_eq!(call(&client, "t", json!({})).await, expected),
            None => {
                let error = refused(&client, "t", json!({})).await;
                assert!(error.message.contains("not JSON"), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_status_is_an_error_with_a_meaning() {
    let errors = [("404", "there is no such user"), ("5xx", "try again later")];
    let errors: Vec<_> = errors.map(|(key, text)| (key.into(), text.into())).into();
    for (head, meaning) in [
        ("404 Not Found", "404 Not Found: there is no such user"),
        (
            "503 Service Unavailable",
            "503 Service Unavailable: try again later",
        ),
        ("400 Bad Request", "400 Bad Request"),
        (
            "302 Found\r\nLocation: http://x/",
            "302 Found: it leads elsewhere",
        ),
    ] {
        let server = Server::start(answer(head, "why")).await;
        let mut tool = endpoint(server.url("/"), &json!({}), &[]);
        tool.errors.clone_from(&errors);
        let client = on(&server, &tool).await;
        let result = outcome(&client, json!({})).await;
        assert!(!result.success);
        let error = result.error.unwrap();
        assert!(
            error.starts_with(&format!("the server answered {meaning}")),
            "{error}"
        );
        let data: Value = result.data.unwrap().deserialize().unwrap();
        assert_eq!(data["body"], "why");
        assert_eq!(data["redirect_to"].is_string(), head.starts_with("302"));
    }
}
