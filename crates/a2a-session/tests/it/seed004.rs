//! A peer that somebody could write who has read the base specification and nothing else: `conformance/seed004.py`, in both roles.

use a2a_identity::{Did, ManifestCheck, Peer, Pins, RootKeys, verify_manifest};
use a2a_session::*;
use a2a_wire::{ErrorCode, Reason, UnixSeconds};
use canonical::Value;
use serde_json::json;
use testkit::Foreign;

use crate::support::{CLIENT, Offers, SERVER, UNIX, World, did, json, tree};

/// The ways to spell what the specification leaves open: a did:key as in its examples or its pseudo-code, a `kid` or none.
const SPELLINGS: [&[&str]; 3] = [&[], &["--bare-did"], &["--kid"]];

fn start(role: &str, options: &[&str]) -> Foreign {
    let time = UNIX.to_string();
    let words = ["lines", role, "--time", &time];
    Foreign::start("seed004_wire.py", &[&words, options].concat())
}

#[test]
fn the_foreign_peer_keeps_to_its_specification() {
    let mut tests = Foreign::start("seed004_self_test.py", &["exchange"]);
    let outcome = tests.ask(&json!({}));
    assert_eq!(outcome["failed"], json!([]), "{outcome}");
    assert!(outcome["passed"].as_u64() >= Some(7), "{outcome}");
}

/// A server of ours, and the foreign client that shook hands with it.
struct Served {
    world: World,
    foreign: Foreign,
    session: ServerSession,
    agents: Agents,
    host: Offers,
}

/// Carries the messages of a handshake; `Err` is what the foreign client was refused with.
fn shake(
    world: &mut World,
    foreign: &mut Foreign,
) -> Result<Box<Established<policy::EffectivePolicy>>, serde_json::Value> {
    let mut said = foreign.ask(&json!({"ask": "handshake", "did": did(SERVER).to_string()}));
    let mut established = None;
    while let Some(body) = said["body"].as_str() {
        assert_eq!(said["place"], "handshake");
        let answer = match world.serve(body.as_bytes()) {
            Ok(Reply::Send(message)) => message,
            Ok(Reply::Established {
                session, message, ..
            }) => {
                established = Some(session);
                message
            }
            Ok(other) => panic!("{other:?}"),
            Err(refused) => refused.message,
        };
        said = foreign.ask(&json!({"body": String::from_utf8(answer).unwrap()}));
    }
    let Some(session) = established else {
        return Err(said);
    };
    let done = &said["done"];
    assert_eq!(
        done["session_id"],
        session.session_id().to_string(),
        "{said}"
    );
    assert_eq!(done["server_did"], did(SERVER).to_string());
    Ok(session)
}

impl Served {
    fn new(mut world: World, options: &[&str]) -> Self {
        let mut foreign = start("client", options);
        let session = shake(&mut world, &mut foreign).unwrap();
        assert_eq!(session.binding(), Binding::Baseline);
        let names = ["nlp.translate", "delete_database"];
        let names = names.map(|name| policy::IntentName::parse(name).unwrap());
        Self {
            session: ServerSession::new(world.now(), *session, SessionLimits::default()),
            agents: Agents::new(AgentLimits::default()),
            host: Offers {
                blocked: false,
                names: names.into(),
                policy: world.book.policy.clone(),
            },
            world,
            foreign,
        }
    }

    /// What the foreign client asks.
    fn ask(&mut self, intent: &serde_json::Value) -> String {
        let said = self
            .foreign
            .ask(&json!({"ask": "request", "intent": intent}));
        assert_eq!(said["place"], "request", "{said}");
        assert_eq!(
            json(said["body"].as_str().unwrap().as_bytes())["session_id"],
            said["session"]
        );
        said["body"].as_str().unwrap().to_owned()
    }

    /// What the server answers to it.
    fn serve(&mut self, message: &str) -> Vec<u8> {
        let now = self.world.now();
        let incoming = Incoming::read(now, message.as_bytes(), 1 << 26, None).unwrap();
        let handled = self
            .session
            .handle_message(now, &incoming, &mut self.agents, &self.host);
        match handled {
            Ok(Handled::Start(start)) => {
                let result = tree(&json!({"translated_text": "Hola"}));
                let answer = self
                    .session
                    .respond(now, start.token, Ok(Value::Object(result)));
                let answer = answer.unwrap();
                assert_eq!(answer.record.binding, Some(Binding::Baseline));
                answer.message
            }
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => refusal.message,
        }
    }

    /// What the foreign client makes of the answer.
    fn tell(&mut self, answer: Vec<u8>) -> serde_json::Value {
        self.foreign
            .ask(&json!({"body": String::from_utf8(answer).unwrap()}))
    }

    fn call(&mut self, intent: &serde_json::Value) -> serde_json::Value {
        let message = self.ask(intent);
        let answer = self.serve(&message);
        self.tell(answer)
    }
}

fn translate() -> serde_json::Value {
    json!({"goal": "translate", "domain": "nlp",
        "inputs": {"text": "Hello", "target_language": "es"},
        "constraints": {"max_tokens": 100, "timeout_ms": 30_000}})
}

fn under(policy: &serde_json::Value) -> World {
    let mut world = World::new();
    let policy = policy::Policy::read(&tree(policy), 1 << 26).unwrap();
    world.book.policy = policy.complete().unwrap();
    world
}

/// Proves A-2-1, A-5-6, A-5-10, A-5-14, A-5-15, A-5-19, A-5-22, A-5-23, A-5-27, A-6-1, A-6-8, A-6-10.
#[test]
fn a_client_of_the_base_specification_is_served() {
    for options in SPELLINGS {
        let policy = json!({"blocked_intents": ["delete_database"]});
        let mut served = Served::new(under(&policy), options);
        let said = served.call(&translate());
        assert_eq!(said["done"]["translated_text"], "Hola", "{said}");
        for (goal, code) in [
            ("delete_database", "POLICY_VIOLATION"),
            ("fly", "UNSUPPORTED_CAPABILITY"),
            ("no such name", "INVALID_INTENT"),
        ] {
            let said = served.call(&json!({"goal": goal}));
            assert_eq!(said["error"], code, "{goal}: {said}");
        }
        // It takes an answer for the question it asked, by the server that it shook hands with.
        let question = served.ask(&translate());
        let answer = served.serve(&question);
        let mut other = json(&answer);
        other["response_jws"] = json!(
            other["response_jws"]
                .as_str()
                .unwrap()
                .replacen('.', ".e", 1)
        );
        let said = served.tell(other.to_string().into_bytes());
        assert_eq!(said["error"], "UNVERIFIED_AGENT", "{said}");
    }
}

/// Proves A-6-16, A-6-17, A-8-4.
#[test]
fn a_client_of_the_base_specification_is_limited_in_codes_that_it_knows() {
    let policy = json!({"rate_limit": 2, "rate_period": 3600});
    let mut served = Served::new(under(&policy), &[]);
    let question = served.ask(&translate());
    assert_eq!(json(&served.serve(&question))["type"], "response");
    let replayed = served.serve(&question);
    assert_eq!(json(&replayed)["error_code"], "POLICY_VIOLATION");
    assert_eq!(served.tell(replayed)["error"], "POLICY_VIOLATION");
    assert!(served.call(&translate())["done"].is_object());
    let said = served.call(&translate());
    assert_eq!(said["error"], "RATE_LIMIT_EXCEEDED", "{said}");
    assert_eq!(said["details"]["limit"], 2);
    assert!(said["details"]["reset_at"].as_i64() > Some(UNIX));
}

#[test]
fn an_operator_can_demand_more_than_the_base_specification() {
    let mut world = World::new();
    world.book.baseline = Baseline::Refuse;
    let refused = shake(&mut world, &mut start("client", &[])).unwrap_err();
    assert_eq!(refused["error"], "UNVERIFIED_AGENT", "{refused}");
    assert_eq!(refused["details"]["reason"], "baseline_not_allowed");
    // It signs the intent without the ids.
    let mut world = World::new();
    world.book.baseline = Baseline::Bound;
    let said = Served::new(world, &[]).call(&translate());
    assert_eq!(said["error"], "UNVERIFIED_AGENT", "{said}");
    // It cannot encrypt.
    let mut world = under(&json!({"require_encryption": true}));
    let refused = shake(&mut world, &mut start("client", &[])).unwrap_err();
    assert_eq!(refused["error"], "POLICY_VIOLATION", "{refused}");
}

/// The foreign server, and a client of ours that calls it.
struct Called {
    world: World,
    foreign: Foreign,
    config: ClientConfig,
}

impl Called {
    /// `published` is whether its manifest is known, or nothing but its DID.
    fn new(options: &[&str], published: bool) -> Self {
        let mut foreign = start("server", options);
        let agent = foreign.ask(&json!({"ask": "agent"}));
        let did = Did::parse(agent["did"].as_str().unwrap(), Peer::Baseline).unwrap();
        let Did::Key(key) = &did else { panic!("{did}") };
        let root = RootKeys::DidKey(key.key().clone());
        let check = ManifestCheck {
            did: &did,
            root: &root,
            now: UnixSeconds(UNIX),
            peer: Peer::Baseline,
            max_age: a2a_identity::MAX_AGE,
            last: None,
            pins: &Pins::default(),
        };
        let manifest = agent["manifest"].to_string();
        let manifest = verify_manifest(manifest.as_bytes(), &check).unwrap();
        let url = agent["manifest"]["endpoints"][0]["url"].as_str().unwrap();
        let config = ClientConfig::new(did.clone(), url).unwrap();
        let manifest = published.then(|| Box::new(manifest));
        let mut world = World::new();
        world.known.insert(
            did.to_string(),
            Facts {
                endpoints: Vec::new(),
                root,
                manifest,
            },
        );
        Self {
            world,
            foreign,
            config,
        }
    }

    fn carry(&mut self, place: &str, message: Vec<u8>, session: Option<&str>) -> Vec<u8> {
        let body = String::from_utf8(message).unwrap();
        let question = json!({"place": place, "body": body, "session": session});
        let answer = self.foreign.ask(&question);
        answer["body"].as_str().unwrap().as_bytes().to_vec()
    }

    fn shake(&mut self) -> Result<ClientSession, Aborted> {
        let (client, hello) = self.world.begin_with(CLIENT, self.config.clone());
        let challenge = self.carry("handshake", hello, None);
        let (client, proof) = self.world.challenged(client, &challenge)?;
        let policy = self.carry("handshake", proof, None);
        let (client, accept) = client.handle_message(self.world.now(), &policy)?;
        let session = self.carry("handshake", accept, None);
        let session = client.handle_message(self.world.now(), &session)?;
        assert_eq!(session.binding(), Binding::Baseline);
        Ok(ClientSession::new(self.world.now(), *session))
    }

    fn call(&mut self, session: &mut ClientSession, intent: &serde_json::Value) -> ClientEvent {
        let now = self.world.now();
        let intent = Value::Object(tree(intent));
        let asked = session
            .request(now, intent, &mut self.world.random)
            .unwrap();
        let id = session.established().session_id().to_string();
        let answer = self.carry("request", asked.message, Some(&id));
        session.handle_message(now, &answer).unwrap()
    }
}

/// Proves A-5-6, A-5-10, A-5-14, A-5-15, A-5-19, A-5-22, A-5-23, A-5-27, A-5-28, A-6-1, A-6-10, A-6-14.
#[test]
fn a_server_of_the_base_specification_is_called() {
    for (options, published) in [
        (SPELLINGS[0], true),
        (SPELLINGS[0], false),
        (SPELLINGS[1], true),
        (SPELLINGS[2], false),
    ] {
        let mut called = Called::new(options, published);
        let mut session = called.shake().unwrap();
        assert_eq!(session.established().peer().seen().is_some(), published);
        let event = called.call(&mut session, &translate());
        let ClientEvent::Response { result, .. } = &event else {
            panic!("{event:?}");
        };
        let text = result.as_object().and_then(|it| it.get("translated_text"));
        assert_eq!(text.and_then(Value::as_str), Some("Hola"));
        // Errors are signed too.
        for (goal, code) in [
            ("delete_database", ErrorCode::PolicyViolation),
            ("fly", ErrorCode::UnsupportedCapability),
        ] {
            let event = called.call(&mut session, &json!({"goal": goal}));
            let ClientEvent::Failed { failure, .. } = &event else {
                panic!("{goal}: {event:?}");
            };
            assert_eq!(failure.code, code);
        }
        let audit = called.foreign.ask(&json!({"ask": "audit"}));
        assert_eq!(
            audit["audit"][0]["remote_agent_did"],
            did(CLIENT).to_string()
        );
        assert_eq!(audit["audit"][0]["response_status"], "success");
    }
}

#[test]
fn a_server_of_the_base_specification_must_be_the_one_that_was_named() {
    let mut called = Called::new(&[], true);
    let other = Called::new(&[], true);
    called.config = other.config;
    called.world.known = other.world.known;
    let aborted = called.shake().unwrap_err();
    assert_eq!(aborted.failure.code, ErrorCode::UnverifiedAgent);
    let mut called = Called::new(&[], true);
    called.config.baseline = Baseline::Refuse;
    let aborted = called.shake().unwrap_err();
    assert_eq!(aborted.failure.reason, Some(Reason::BaselineNotAllowed));
    // One that demands what it never said it would.
    let demanding = ["--policy", r#"{"data_retention":"permanent"}"#];
    let mut called = Called::new(&demanding, true);
    called.config.demands.max_retention = policy::Retention::Day;
    let aborted = called.shake().unwrap_err();
    assert_eq!(aborted.failure.code, ErrorCode::PolicyViolation);
}
