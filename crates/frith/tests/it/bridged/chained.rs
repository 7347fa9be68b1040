//! A node of a chain of A's agent that is another agent: B, over A2A.

use super::*;

const OFFER: &str = "plugins: [{name: tools, type: tools}]
intents:
  demo.spell:
    command: [sh, -c, 'echo spelled $0', '{word}']
    parameters: {word: {type: string}}
    required: [word]
";

/// What one node gives goes to the peer, and what that gives to the next; each side has it on record, and
/// what the peer does not do fails its node alone.
#[test]
fn a_node_of_a_chain_is_another_node() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let b = Node::start(folders[1].path(), OFFER);
    let (did, url) = (b.at("did"), b.at("a2a"));
    let parameters = "parameters: {word: {type: string}}";
    let config = format!(
        "plugins: [{{name: tools, type: tools}}, {{name: chains, type: chains}}, {{name: demo, type: demo}}]
peers:
  beta:
    did: {did}
    url: {url}
    intents:
      demo.spell: {{description: Spells, {parameters}}}
      demo.sing: {{description: Is not offered, {parameters}}}
"
    );
    let a = Node::start(folders[0].path(), &config);
    let mut wire = a.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "auth_token": a.token,
        "agent_caps": ["tools", "chains"]});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let chain = json!({"type": "chain/req", "id": "c", "entry_node": "first", "streaming": false, "nodes": [
        {"node_id": "first", "kind": "tool", "name": "echo", "input": {"text": "otter"}, "next_node": "sing"},
        {"node_id": "sing", "kind": "peer", "name": "beta:demo.sing", "input": {"word": "otter"},
            "on_error": "skip", "next_node": "spell"},
        {"node_id": "spell", "kind": "peer", "name": "beta:demo.spell",
            "input_map": {"word": "first.text"}, "next_node": "last"},
        {"node_id": "last", "kind": "tool", "name": "echo", "input_map": {"text": "spell.stdout"}}]});
    let ended = wire.ask(&chain);
    assert_eq!(
        ended["outputs"]["spell"]["stdout"], "spelled otter\n",
        "{ended}"
    );
    assert_eq!(ended["final_output"]["text"], "spelled otter\n", "{ended}");
    assert_eq!(ended["outputs"]["sing"], Value::Null, "{ended}");
    let calls = |node: &Node| {
        let all = records(&node.data()).into_iter();
        let calls = all.filter(|it| it["message_type"] == "tool/call/req");
        calls.collect::<Vec<_>>()
    };
    let (here, there) = (calls(&a), calls(&b));
    assert_eq!(there.len(), 1, "{there:?}");
    assert_eq!(there[0]["agent"], a.at("did"), "{there:?}");
    let names: Vec<_> = here.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"peer:beta:demo.spell"), "{names:?}");
    intact(&[&a, &b]);
}
