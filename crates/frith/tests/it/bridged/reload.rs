//! What is offered and asked changes while both nodes run.

use super::*;

const WITHOUT: &str = "plugins: [{name: tools, type: tools}]\n";

fn says(pair: &Pair, id: &str) -> Value {
    let (_, answered) = call(&mut agent(&pair.a), id, "time_there", &json!({}));
    answered
}

fn manifest(node: &Node) -> Value {
    let text = fs::read_to_string(node.data().join("agent-manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_file_takes_offers_back_and_only_the_operator_adds_them() {
    let pair = Pair::start("", "");
    assert_eq!(says(&pair, "c0")["data"]["success"], true);
    let file = pair.folders[1].path().join("frith.yaml");
    // Taking back needs nobody's consent.
    fs::write(&file, WITHOUT).unwrap();
    pair.b.signal("-HUP");
    let mut number = 1;
    while says(&pair, &format!("c{number}"))["code"] != "unknown_tool" {
        number += 1;
    }
    while manifest(&pair.b)["capabilities"] != json!(["frith.ping"]) {}
    // Offering does.
    let offer = format!("{WITHOUT}intents: {{demo.time: {{tool: current_time}}}}\n");
    fs::write(&file, offer).unwrap();
    let (status, out, error) = at(&pair.b, &["config", "apply"]);
    assert_eq!(status, 0, "{out}{error}");
    assert_eq!(says(&pair, "last")["data"]["success"], true);
    assert_eq!(
        manifest(&pair.b)["capabilities"],
        json!(["frith.ping", "demo.time"])
    );
    intact(&[&pair.a, &pair.b]);
}

/// B's key changes while A calls it: no call fails.
#[test]
fn a_rotated_key_signs_after_the_next_reload() {
    let pair = Pair::start("", "");
    assert_eq!(says(&pair, "c0")["data"]["success"], true);
    let keys = manifest(&pair.b)["public_keys"].as_array().unwrap().len();
    let (status, out, error) = at(&pair.b, &["id", "rotate", "default"]);
    assert_eq!(status, 0, "{out}{error}");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            for number in 1..=20 {
                let answered = says(&pair, &format!("c{number}"));
                assert_eq!(answered["data"]["success"], true, "{answered}");
            }
        });
        let (status, out, error) = at(&pair.b, &["config", "apply"]);
        assert_eq!(status, 0, "{out}{error}");
        calling.join().unwrap();
    });
    assert_eq!(
        manifest(&pair.b)["public_keys"].as_array().unwrap().len(),
        keys + 1
    );
    intact(&[&pair.a, &pair.b]);
}
