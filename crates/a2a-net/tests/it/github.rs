//! How often GitHub is asked whose a repository is: it answers few such questions in an hour.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Answer as Fetched, ResolveError, Want};
use a2a_net::*;
use a2a_session::{Freshness, Own};
use canonical::{Object, Value};
use serde_json::json;

use crate::hand::code_of;
use crate::support::*;
use crate::sybil::Newcomer;

/// The manifest of an agent in a repository, or in a file of one, with the key of a seed.
fn manifest_of(name: &str, seed: u8) -> Object<'static> {
    manifest_with(seed, UNIX - 100, |draft| {
        draft["agent_did"] = json!(format!("did:github:{name}"));
    })
}

fn agent(name: &str, seed: u8) -> Own {
    Own::new(manifest_of(name, seed), "k".parse().unwrap(), key(seed)).unwrap()
}

fn raw_url(name: &str) -> String {
    let parts: Vec<&str> = name.splitn(3, '/').collect();
    let file = parts.get(2).unwrap_or(&".well-known/agent-manifest.json");
    let host = "https://raw.githubusercontent.com";
    format!("{host}/{}/{}/main/{file}", parts[0], parts[1])
}

/// Publishes the manifest of an agent where its DID says.
fn publish(spy: &Spy, name: &str, seed: u8) {
    let manifest = Value::Object(manifest_of(name, seed)).to_canonical();
    spy.publish(&raw_url(name), Fetched::Body(manifest));
    let parts: Vec<&str> = name.splitn(3, '/').collect();
    let repository = format!("{}/{}", parts[0], parts[1]);
    let says = json!({"id": 7, "full_name": repository, "owner": {"login": parts[0], "id": 3}});
    let url = format!("https://api.github.com/repos/{repository}");
    spy.publish(&url, Fetched::Body(says.to_string().into_bytes()));
}

/// Questions to the API.
fn questions(spy: &Spy) -> usize {
    let asked = spy.asked();
    let api = asked
        .iter()
        .filter(|url| url.starts_with("https://api.github.com/"));
    api.count()
}

/// A server and its clients.
struct Scene {
    server: Server,
    spy: Spy,
    client: Arc<Home>,
    clock: Clock,
}

impl Scene {
    async fn with(change: impl FnOnce(&mut Made)) -> Self {
        let mut made = Made::of(SERVER);
        change(&mut made);
        let node = made.node().await;
        Self {
            server: Server::start(node.home, ServerSettings::new().unwrap()),
            spy: node.spy,
            client: Made::of(CLIENT).node().await.home,
            clock: clock(),
        }
    }

    /// What PROOF of an agent is answered that comes from this source.
    async fn proves(&self, source: u16, agent: Own) -> String {
        let newcomer = Newcomer::new(source);
        let own = (agent, &self.clock);
        code_of(&newcomer.proves(&self.server, &self.client, own).await.1)
    }
}

/// A peer that names an agent without having its keys causes no question to GitHub, and the agent itself is not refused.
#[tokio::test(start_paused = true)]
async fn github_is_asked_nothing_about_an_agent_with_other_keys() {
    let scene = Scene::with(|_| {}).await;
    publish(&scene.spy, "ada/agent", 7);
    for source in 0..4 {
        let code = scene.proves(source, agent("ada/agent", 66)).await;
        assert_eq!(code, "UNVERIFIED_AGENT");
    }
    assert_eq!(questions(&scene.spy), 0);
    assert_eq!(scene.proves(9, agent("ada/agent", 7)).await, "none");
    assert_eq!(questions(&scene.spy), 1);
    // Now that it is known, a look for newer keys takes none either.
    tokio::time::sleep(Duration::from_secs(61)).await;
    let code = scene.proves(0, agent("ada/agent", 66)).await;
    assert_eq!(code, "UNVERIFIED_AGENT");
    assert_eq!(questions(&scene.spy), 1);
}

/// A manifest that verifies no agent is refused before GitHub is asked.
#[tokio::test(start_paused = true)]
async fn github_is_asked_nothing_about_a_bad_manifest() {
    let node = Made::of(CLIENT).node().await;
    let own = agent("ada/agent", 7);
    publish(&node.spy, "ada/agent", 7);
    let forged = Value::Object(manifest_of("ada/other", 7)).to_canonical();
    node.spy
        .publish(&raw_url("ada/agent"), Fetched::Body(forged));
    let resolver = node.home.resolver();
    let found = resolver
        .facts(own.did(), Want::Manifest, Freshness::Any)
        .await;
    assert!(matches!(found, Err(ResolveError::Manifest(_))), "{found:?}");
    assert_eq!(questions(&node.spy), 0);
}

/// All files of a repository have one owner, who is believed for six hours.
#[tokio::test(start_paused = true)]
async fn the_owner_of_a_repository_is_asked_for_once() {
    let node = Made::of(CLIENT).node().await;
    let resolver = node.home.resolver();
    let resolve = async |hours: u64| {
        tokio::time::sleep(Duration::from_secs(3600 * hours)).await;
        for number in 0..20 {
            let name = format!("ada/agents/{number}.json");
            publish(&node.spy, &name, 7);
            let own = agent(&name, 7);
            let found = resolver
                .facts(own.did(), Want::Manifest, Freshness::Newer)
                .await;
            assert!(found.is_ok(), "{found:?}");
        }
        questions(&node.spy)
    };
    assert_eq!(resolve(0).await, 1);
    assert_eq!(resolve(5).await, 1);
    assert_eq!(resolve(1).await, 2);
}

/// Strangers with repositories of their own: each source has a share of an hour's questions, and
/// known agents have what strangers cannot use.
#[tokio::test(start_paused = true)]
async fn strangers_leave_questions_to_github_for_known_and_new_agents() {
    let scene = Scene::with(|made| {
        made.resolver.github = base::Limits {
            total: 8,
            per_holder: 2,
            reserved: 1,
        };
        made.rules.added.insert("did:github:ada/known".to_owned());
    });
    let scene = scene.await;
    let flood = async |sources: std::ops::Range<u16>| {
        let mut codes = Vec::new();
        for source in sources {
            for number in 0..4 {
                let name = format!("sybil{source}/r{number}");
                publish(&scene.spy, &name, 66);
                codes.push(scene.proves(source, agent(&name, 66)).await);
            }
        }
        let busy = codes.iter().filter(|code| *code == "SERVICE_UNAVAILABLE");
        (questions(&scene.spy), busy.count())
    };
    // At the share of each source, and past it.
    assert_eq!(flood(0..3).await, (6, 6));
    publish(&scene.spy, "ada/new", 8);
    let code = scene.proves(500, agent("ada/new", 8)).await;
    assert_eq!(code, "none");
    // At the limit for strangers, and past it.
    assert_eq!(flood(3..6).await, (7, 12));
    publish(&scene.spy, "ada/known", 9);
    let code = scene.proves(0, agent("ada/known", 9)).await;
    assert_eq!(code, "none");
    assert_eq!(questions(&scene.spy), 8);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(flood(6..7).await, (10, 2));
}
