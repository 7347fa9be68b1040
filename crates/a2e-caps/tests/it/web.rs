//! The environment `http`, against a small web on this machine.

use std::sync::{Arc, Mutex};

use a2e_caps::env::{Environments, Settings, WebPages};
use a2e_caps::http::{Client, Reach, Settings as WebSettings};
use a2e_runtime::Host;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::{answer, serve};
use crate::wire::Agent;

const HTML: &str = "200 OK\r\nContent-Type: text/html; charset=utf-8";

/// A web of a few pages; gives its address and what it was asked.
async fn web() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 512];
            let size = stream.peek(&mut head).await.unwrap();
            let text = String::from_utf8_lossy(&head[..size]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            serve(&mut stream, page(&path).as_bytes(), &kept).await;
        }
    });
    (format!("http://{address}"), asked)
}

fn page(path: &str) -> String {
    let form = "<form action=/found><input name=q value=a><input name=t value=1></form>\
                <form action=/found method=post><input name=q></form>";
    match path {
        "/" => answer(
            HTML,
            "<title>Home</title><p>Welcome<a href=deep/one>One</a> <a href=/moved>M</a>",
        ),
        "/deep/one" => answer(
            HTML,
            &format!("<p>Page one</p><a href=..>home</a><a href=mailto:x@y>m</a>{form}"),
        ),
        "/moved" => answer("302 Found\r\nLocation: /deep/one", ""),
        "/round" => answer("302 Found\r\nLocation: /round", ""),
        "/away" => answer("302 Found\r\nLocation: http://192.168.0.1/", ""),
        "/picture" => answer("200 OK\r\nContent-Type: image/png", "x"),
        path if path.starts_with("/found") => answer(HTML, "<p>The treasure</p>"),
        _ => answer("404 Not Found\r\nContent-Type: text/plain", "nothing here"),
    }
}

async fn agent() -> Agent {
    let client = Client::new(WebSettings {
        reach: Reach::PublicAndLoopback,
        ..WebSettings::default()
    });
    let environments =
        Environments::new(vec![Arc::new(WebPages::new(client))], Settings::default());
    let host = Host::builder().plugin(environments).build();
    Agent::connect_as(&host, "", &["env"]).await
}

async fn step(agent: &mut Agent, episode: &Value, action: Value) -> Value {
    agent
        .ask(json!({"type": "env/step/req", "episode_id": episode, "action": action}))
        .await
}

#[tokio::test]
async fn pages_are_opened_followed_and_left() {
    let (url, _) = web().await;
    let mut agent = agent().await;
    let options = json!({"url": format!("{url}/")});
    let first = agent
        .ask(json!({"type": "env/reset/req", "env_name": "http", "options": options}))
        .await;
    let (episode, state) = (&first["obs"]["episode_id"], &first["obs"]["state"]);
    assert_eq!(
        (&state["title"], &state["text"]),
        (&json!("Home"), &json!("WelcomeOne M"))
    );
    assert_eq!(
        state["links"],
        json!([{"link": 0, "text": "One", "url": format!("{url}/deep/one")},
            {"link": 1, "text": "M", "url": format!("{url}/moved")}])
    );
    let plan = agent
        .ask(json!({"type": "env/plan/req", "episode_id": episode}))
        .await;
    assert_eq!(
        plan["suggested_actions"][1],
        json!({"type": "follow", "link": 1})
    );
    // A redirect is followed, and the address is where it led to.
    let moved = step(&mut agent, episode, json!({"action": 1})).await;
    assert_eq!(
        moved["obs"]["state"]["url"],
        format!("{url}/deep/one"),
        "{moved}"
    );
    assert_eq!(moved["obs"]["state"]["text"], "Page one\nhomem");
    let home = step(
        &mut agent,
        episode,
        json!({"type": "follow", "payload": {"link": 0}}),
    )
    .await;
    assert_eq!(home["obs"]["state"]["title"], "Home");
    let back = step(&mut agent, episode, json!({"type": "back", "payload": []})).await;
    assert_eq!(back["obs"]["state"]["url"], format!("{url}/deep/one"));
    let back = step(&mut agent, episode, json!({"type": "back"})).await;
    assert_eq!(back["obs"]["state"]["title"], "Home");
    let none = step(&mut agent, episode, json!({"type": "back"})).await;
    assert_eq!(none["code"], "schema_violation");
    let lost = step(
        &mut agent,
        episode,
        json!({"type": "open", "url": format!("{url}/x")}),
    )
    .await;
    let state = &lost["obs"]["state"];
    assert_eq!(
        (&state["status"], &state["text"]),
        (&json!(404), &json!("nothing here"))
    );
    let shown = json!({"type": "env/render/req", "episode_id": episode, "mode": "text"});
    let shown = agent.ask(shown).await["render"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(shown.contains("(404)"), "{shown}");
}

#[tokio::test]
async fn forms_are_sent_and_goals_are_reached() {
    let (url, asked) = web().await;
    let mut agent = agent().await;
    let options = json!({"url": format!("{url}/deep/one"), "goal_text": "treasure"});
    let reset = json!({"type": "env/reset/req", "env_name": "http", "options": options});
    for (form, expected) in [(0, "GET /found?q=b+c&t=1 "), (1, "POST /found ")] {
        let episode = agent.ask(reset.clone()).await["obs"]["episode_id"].clone();
        let wrong = json!({"type": "submit", "form": form, "fields": {"z": "1"}});
        assert_eq!(
            step(&mut agent, &episode, wrong).await["code"],
            "schema_violation"
        );
        let submit = json!({"type": "submit", "form": form, "fields": {"q": "b c"}});
        let found = step(&mut agent, &episode, submit).await;
        assert_eq!(
            (&found["obs"]["reward"], &found["obs"]["done"]),
            (&json!(1.0), &json!(true))
        );
        let last = asked.lock().unwrap().last().unwrap().clone();
        assert!(last.starts_with(expected), "{last}");
        assert!(form == 0 || last.ends_with("q=b+c"), "{last}");
    }
}

/// What fails leaves the page as it was, and no redirect leads where the client may not go.
#[tokio::test]
async fn guards_hold_on_the_way() {
    let (url, _) = web().await;
    let mut agent = agent().await;
    let options = json!({"url": format!("{url}/")});
    let first = agent
        .ask(json!({"type": "env/reset/req", "env_name": "http", "options": options}))
        .await;
    let episode = &first["obs"]["episode_id"];
    for (to, said) in [
        (format!("{url}/away"), "not public"),
        ("http://192.168.0.1/".to_owned(), "not public"),
        (format!("{url}/round"), "more than 5 times"),
        (format!("{url}/picture"), "nothing to read"),
        ("ftp://a.example/".to_owned(), "must begin with http"),
    ] {
        let answer = step(&mut agent, episode, json!({"type": "open", "url": to})).await;
        assert_eq!(answer["code"], "runtime_error", "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(said),
            "{answer}"
        );
    }
    let seen = agent
        .ask(json!({"type": "env/observe/req", "episode_id": episode}))
        .await;
    assert_eq!(
        (&seen["obs"]["step_num"], &seen["obs"]["state"]["title"]),
        (&json!(0), &json!("Home"))
    );
    for action in [
        json!({"action": 2}),
        json!({"type": "follow"}),
        json!({"type": "fly"}),
    ] {
        let answer = step(&mut agent, episode, action).await;
        assert_eq!(answer["code"], "schema_violation", "{answer}");
    }
}
