//! Skills that are programs.

use std::sync::Arc;

use a2e_caps::skills::{Settings, Skills};
use serde_json::json;

use crate::skills::Bench;
use crate::wire::Agent;

/// Without a sandbox there is still what a skill says.
#[tokio::test]
async fn a_host_without_a_sandbox_says_so() {
    let bench = Bench::new();
    bench.put("run/skill.md", "---\nrun: go.sh\n---\nGo to {args}");
    bench.put("run/go.sh", "#!/bin/sh\n");
    let skills = Skills::new(
        Arc::clone(&bench.shelf),
        Arc::default(),
        Settings::default(),
    );
    let host = bench.host_with(skills);
    let mut agent = Agent::connect_as(&host, "ada", &["skill", "tools"]).await;
    let asked = json!({"type": "skill/call/req", "name": "run", "arguments": {"args": "Rome"},
        "streaming": false});
    let told = agent.ask(asked.clone()).await;
    assert_eq!(told["data"]["error_code"], "no_sandbox", "{told}");
    let mut prepared = asked;
    prepared["metadata"] = json!({"prepare": true});
    let told = agent.ask(prepared).await;
    assert_eq!(told["data"]["data"]["prompt"], "Go to Rome");
}

#[cfg(feature = "wasm")]
mod components {
    use std::fs;

    use a2e_caps::components::Components;
    use a2e_caps::shares::{Kind, Shares};
    use a2e_caps::skills::Programs;
    use a2e_caps::workplace::Workplace;
    use serde_json::Value;

    use super::*;

    /// The example in the text format, whose `call` does what a test wants.
    fn component(body: &str) -> Vec<u8> {
        let echo = testkit::workspace().join("examples/tools/echo.wat");
        let echo = fs::read_to_string(echo).unwrap();
        let (head, rest) = echo.split_once(";; begin").unwrap();
        let (_, tail) = rest.split_once(";; end").unwrap();
        wat::parse_str(format!("{head}{body}{tail}")).unwrap()
    }

    fn put(bench: &Bench, name: &str, body: &str) {
        bench.put(
            &format!("{name}/skill.md"),
            "---\nrun: it.wasm\n---\nEcho {args}",
        );
        let file = bench.folder.path().join(name).join("it.wasm");
        fs::write(file, component(body)).unwrap();
    }

    fn skills(bench: &Bench) -> Skills {
        // This process starts none, and need not be told how.
        sandbox::enter_if_asked();
        let shelf = Arc::clone(&bench.shelf);
        Skills::new(shelf, Arc::default(), Settings::default()).running(Programs {
            workplace: Arc::new(Workplace {
                launcher: sandbox::Launcher::none().unwrap(),
                profile: sandbox::Profile::default(),
                folder: std::env::temp_dir(),
                commands: Shares::new(Kind::Commands, 8),
            }),
            copies: bench.folder.path().join(".copies"),
            components: Arc::new(Components::default()),
        })
    }

    const ECHO: &str = "(call $answer (i32.const 0) (local.get $at) (local.get $size))";

    #[tokio::test]
    async fn a_component_runs_with_events_in_order() {
        let bench = Bench::new();
        let status = "(call $status (i32.const 0x200) (i32.const 7))";
        put(&bench, "echo", &format!("{status} {ECHO}"));
        put(&bench, "traps", "(unreachable)");
        let host = bench.host_with(skills(&bench));
        let mut agent = Agent::connect_as(&host, "ada", &["skill", "tools"]).await;
        let list = agent.ask(json!({"type": "skill/discover/req"})).await;
        assert_eq!(list["skills"][0]["metadata"]["run"], "it.wasm");
        agent
            .say(json!({"type": "skill/call/req", "name": "echo", "arguments": {"args": "hi"}}))
            .await;
        let mut kinds = Vec::new();
        let answer = loop {
            let heard = agent.hear().await;
            if heard["type"] == "skill/call/resp" {
                break heard;
            }
            assert_eq!(
                (&heard["type"], &heard["seq"]),
                (&json!("skill/event"), &json!(kinds.len()))
            );
            kinds.push(heard["kind"].as_str().unwrap().to_owned());
        };
        let expected = [
            "skill.started",
            "skill.preparing",
            "skill.prompt.ready",
            "llm.skipped",
            "tool.started",
            "status",
            "tool.completed",
            "skill.completed",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(answer["data"]["data"], json!({"args": "hi"}));
        let told = agent
            .ask(json!({"type": "skill/call/req", "name": "traps", "streaming": false}))
            .await;
        assert_eq!(told["data"]["error_code"], "run_failed", "{told}");
        let events = told["data"]["events"].as_array().unwrap();
        let last: Vec<&Value> = events.iter().rev().take(2).map(|it| &it["kind"]).collect();
        assert_eq!(last, [&json!("skill.failed"), &json!("tool.completed")]);
    }

    /// A changed program is not approved, so it does not run.
    #[tokio::test]
    async fn a_changed_component_waits_for_the_operator() {
        let bench = Bench::new();
        put(&bench, "echo", ECHO);
        let host = bench.host_with(skills(&bench));
        let mut agent = Agent::connect_as(&host, "ada", &["skill", "tools"]).await;
        let asked = json!({"type": "skill/call/req", "name": "echo", "streaming": false});
        assert_eq!(agent.ask(asked.clone()).await["data"]["success"], true);
        let file = bench.folder.path().join("echo/it.wasm");
        fs::remove_file(&file).unwrap();
        fs::write(file, component("(unreachable)")).unwrap();
        let told = agent.ask(asked).await;
        assert_eq!(told["code"], "skill_error", "{told}");
        assert!(
            told["message"]
                .as_str()
                .unwrap()
                .contains("frith tools pending")
        );
    }
}
