//! Work that an agent of the node asks for: a tool call, a chain, an approved call, a memory write.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::site::{Gate, Site};
use super::{Answer, Class};
use crate::node::Wire;

/// The id of the request.
const ID: &str = "work";

/// An agent and its session.
pub(super) struct Agent {
    class: Class,
    /// The request, which is always sent with the same words.
    request: Value,
    token: String,
    session: Session,
}

/// A session, and the connection that it has.
pub(super) struct Session {
    pub(super) wire: Wire,
    id: Value,
    last_eid: u64,
}

impl Agent {
    /// Begins work and waits until it has had its effect, or for a memory write until the store has it.
    pub(super) fn begin(class: Class, site: &Site, timeout: u64) -> (Self, Gate) {
        let mut agent = Self::in_session(class, site);
        agent.request = request(class, timeout);
        let gate = agent.start(site);
        (agent, gate)
    }

    fn start(&mut self, site: &Site) -> Gate {
        if self.class == Class::MemoryWrite {
            let gate = site.lock_store();
            self.session.wire.say(&self.request);
            // Requests of a session are recorded and begun in their order; this one does not wait for
            // the write.
            let note = json!({"type": "tool/call/req", "tool_name": "note",
                "arguments": {"text": "begun"}});
            let noted = self.session.ask(note);
            assert_eq!(noted["type"], "tool/call/resp", "{noted}");
            return gate;
        }
        site.make_gate();
        self.session.wire.say(&self.request);
        if self.class == Class::Approval {
            let id = self.session.hear_held();
            site.operator(&["approve", &id]);
        }
        site.wait_for_tool()
    }

    /// An agent that has a session.
    pub(super) fn in_session(class: Class, site: &Site) -> Self {
        let token = new_token(site);
        Self {
            class,
            request: request(class, 60),
            session: Session::open(site.node().wire(), &token),
            token,
        }
    }

    /// Sends the work.
    pub(super) fn ask(&mut self) {
        self.session.wire.say(&self.request);
    }

    /// The response to the work, if the connection does not end before it.
    pub(super) fn answer_or_end(&mut self) -> Option<Answer> {
        loop {
            let heard = self.session.wire.hear_of_killed()?;
            let is_event = heard["type"].as_str().unwrap().ends_with("/event");
            if heard["req_id"] == ID && !is_event {
                return Some(Answer::of(heard));
            }
        }
    }

    /// Goes on with the session over a new connection, or begins another if the node does not have it.
    pub(super) fn resume(&mut self, site: &Site) -> bool {
        let is_there = self.session.resume(site, &self.token);
        if !is_there {
            self.session = Session::open(site.node().wire(), &self.token);
        }
        is_there
    }

    /// Ends the session, and begins another.
    pub(super) fn change_session(&mut self, site: &Site) {
        let shutdown = json!({"type": "shutdown", "id": "s", "timeout": 0});
        self.session.wire.say(&shutdown);
        while self.session.wire.hear().is_some() {}
        self.session = Session::open(site.node().wire(), &self.token);
    }

    /// Comes in with another token, since its own was revoked.
    pub(super) fn come_back(&mut self, site: &Site) {
        self.token = new_token(site);
        self.session = Session::open(site.node().wire(), &self.token);
    }

    /// The response to the work.
    pub(super) fn answer(&mut self) -> Answer {
        self.session.answer()
    }

    /// Sends the work again in its session.
    pub(super) fn retry(&mut self) -> Answer {
        self.session.retry(&self.request)
    }

    /// Sends the work again in a new session.
    pub(super) fn retry_elsewhere(&self, site: &Site) -> Answer {
        Session::open(site.node().wire(), &self.token).retry(&self.request)
    }

    /// Withdraws the work.
    pub(super) fn cancel(&mut self) {
        self.session.wire.say(
            &json!({"type": "error", "id": "cancel", "req_id": ID, "code": "timeout",
            "message": "not wanted any more"}),
        );
    }

    /// Writes something else where the work writes; says whether the work had been done by then.
    pub(super) fn overwrite(&self, site: &Site) -> bool {
        let mut session = Session::open(site.node().wire(), &self.token);
        let found = session.read_memory();
        let stored = session.ask(json!({"type": "memory/store/req",
            "entries": [{"key": "k", "content": "later", "tier": "episodic"}]}));
        assert_eq!(stored["stored"], json!(["k"]), "{stored}");
        found == "work"
    }

    /// Whether what was written later is still there.
    pub(super) fn is_overwritten(&self, site: &Site) -> bool {
        Session::open(site.node().wire(), &self.token).read_memory() == "later"
    }

    /// Asserts that an approval was for one call alone: the same call under another id is asked about.
    pub(super) fn check_approval_is_used(&self, site: &Site) {
        assert_eq!(site.operator_json(&["approvals"]), json!([]));
        let mut session = Session::open(site.node().wire(), &self.token);
        let mut request = self.request.clone();
        request["id"] = json!("another");
        session.wire.say(&request);
        let id = session.hear_held();
        site.operator(&["deny", &id]);
        assert_eq!(session.hear_response("another")["type"], "error");
    }

    /// Whether an audit record is about the work.
    pub(super) fn is_its_record(&self, record: &Value) -> bool {
        is_record_of(&self.request, record)
    }
}

impl Session {
    pub(super) fn open(mut wire: Wire, token: &str) -> Self {
        let opened = wire.ask(&hello(token));
        assert_eq!(opened["ok"], true, "{opened}");
        Self {
            wire,
            id: opened["session_id"].clone(),
            last_eid: 0,
        }
    }

    /// Goes on over a new connection; whether the node still has the session.
    fn resume(&mut self, site: &Site, token: &str) -> bool {
        self.wire = site.node().wire();
        let mut hello = hello(token);
        hello["resume"] = json!({"session_id": self.id, "last_eid": self.last_eid});
        let opened = self.wire.ask(&hello);
        opened["resumed"] == true
    }

    fn hear(&mut self) -> Value {
        let heard = self.wire.hear().unwrap();
        self.last_eid = heard["eid"].as_u64().unwrap_or(self.last_eid);
        heard
    }

    /// Waits until the work is held; returns the id of its approval.
    pub(super) fn hear_held(&mut self) -> String {
        loop {
            let heard = self.hear();
            assert_eq!(heard["type"], "tool/event", "{heard}");
            if heard["data"]["status"] == "approval_pending" {
                return heard["data"]["approval_id"].as_str().unwrap().to_owned();
            }
        }
    }

    /// The response to a request.
    pub(super) fn hear_response(&mut self, id: &str) -> Value {
        loop {
            let heard = self.hear();
            let is_event = heard["type"].as_str().unwrap().ends_with("/event");
            if heard["req_id"] == id && !is_event {
                return heard;
            }
            assert_ne!(
                heard["data"]["status"], "approval_pending",
                "the operator is asked again"
            );
        }
    }

    fn ask(&mut self, mut message: Value) -> Value {
        // Ids of an agent mean the same in all its sessions.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = format!("other-{}", LAST.fetch_add(1, Ordering::Relaxed));
        message["id"] = json!(id);
        self.wire.say(&message);
        self.hear_response(&id)
    }

    pub(super) fn answer(&mut self) -> Answer {
        Answer::of(self.hear_response(ID))
    }

    pub(super) fn retry(&mut self, request: &Value) -> Answer {
        // Whatever was sent before is not the answer to this.
        self.ask(json!({"type": "ping"}));
        self.wire.say(request);
        self.answer()
    }

    /// What is stored where the work writes.
    fn read_memory(&mut self) -> Value {
        let found = self.ask(json!({"type": "memory/retrieve/req", "tier": "episodic",
            "keys": ["k"]}));
        assert_eq!(found["type"], "memory/retrieve/resp", "{found}");
        found["entries"][0]["content"].clone()
    }
}

/// The request of a class of work.
pub(super) fn request(class: Class, timeout: u64) -> Value {
    let mut request = match class {
        Class::ToolCall | Class::Approval => json!({"type": "tool/call/req", "tool_name": "pay",
            "streaming": true, "timeout": timeout}),
        Class::ChainNode => json!({"type": "chain/req", "chain_id": "c", "entry_node": "n",
            "nodes": [{"node_id": "n", "kind": "tool", "name": "pay"}], "timeout": timeout}),
        Class::MemoryWrite => json!({"type": "memory/store/req",
            "entries": [{"key": "k", "content": "work", "tier": "episodic"}]}),
        Class::Intent => panic!("agents of the node send no intents"),
    };
    request["id"] = json!(ID);
    request
}

/// Whether an audit record is about the request.
pub(super) fn is_record_of(request: &Value, record: &Value) -> bool {
    record["request_id"] == ID && record["message_type"] == request["type"]
}

fn hello(token: &str) -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "chains", "memory"],
        "auth_token": token})
}

pub(super) fn new_token(site: &Site) -> String {
    let made = site.operator_json(&["token", "new", "eve"]);
    made["token"].as_str().unwrap().to_owned()
}
