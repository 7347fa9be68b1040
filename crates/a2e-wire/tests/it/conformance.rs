//! Document 002 (message format): what holds for every type of the catalogue.

use a2e_wire::{MessageKind, Sender, Tag};

/// Types of the host that ask the agent: the tools of MCP servers may want a model or folders.
const ASKED_BY_THE_HOST: [&str; 2] = ["mcp/sample/req", "mcp/root/list/req"];

/// "Type String Convention": the end of a type says what it is and who sends it.
/// Proves M-7, M-12 to M-15.
#[test]
fn the_end_of_a_type_says_what_it_is() {
    let mut requests = 0;
    for tag in Tag::ALL {
        let name = tag.as_str();
        if name.ends_with("/req") {
            assert_eq!(tag.kind(), MessageKind::Request, "{name}");
            let sender = match ASKED_BY_THE_HOST.contains(&name) {
                true => Sender::Host,
                false => Sender::Agent,
            };
            assert!(tag.may_be_sent_by(sender), "{name}");
            requests += 1;
        } else if name.ends_with("/resp") {
            assert_eq!(tag.kind(), MessageKind::Response, "{name}");
        } else if name.ends_with("/event") {
            assert_eq!(tag.kind(), MessageKind::Event, "{name}");
            assert!(tag.may_be_sent_by(Sender::Host), "{name}");
        }
    }
    assert!(requests > 40, "{requests}");
    let kind = |name: &str| Tag::parse(name, Sender::Agent).map(Tag::kind);
    assert_eq!(kind("mcp/server/register/req"), Some(MessageKind::Request));
}
